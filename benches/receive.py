"""A receiver beside a loop that only drains, and beside pg_recvlogical: receive.py [DIR] ...

All of them read the same WAL of a server of their own, over copies of one slot, and take turns.
The loop calls libpq through psycopg and drops each message: no client in Python does less.
The cost to begin and to end is measured alone, with a slot that has nothing, and subtracted.
The program prints measured/limit for each target; `*` marks a missed limit.
The results are in target/bench/receive.json. Needs Linux.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psycopg
from receiver.loads import LOADS, loaded_server
from receiver.machine import machine
from receiver.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from receiver.processes import Cost

    from server import Server

#: The CPU time of a receiver, as a multiple of the loop's CPU time.
CPU_LIMIT = 1.15
#: Its resident memory, in MiB.
MEMORY_LIMIT = 96
#: Rows a second. If the walsender is slower: the time, as a multiple of the faster other client's time.
ROWS_LIMIT = 200_000
TIME_LIMIT = 1.1
#: The slot of a turn.
TURN = "turn"
CLIENTS = "drain", "pg_recvlogical", "receive"


def main() -> None:
    """Prints a line for each load and client, and then the targets."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", help="as other benchmarks take it: unused")
    parser.add_argument("--changes", type=int, default=600_000, help="of each load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS))
    given = parser.parse_args()
    loads: dict[str, Any] = {}
    with loaded_server() as server, tempfile.TemporaryDirectory() as folder:
        for name in given.loads:
            loads[name] = measured(
                server, name, given.changes, given.rounds, Path(folder)
            )
    results = {"at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds")}
    results |= machine() | {"loads": loads}
    path = root / "target" / "bench" / "receive.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {path.relative_to(root)}")


def measured(
    server: Server, name: str, changes: int, rounds: int, folder: Path
) -> dict[str, Any]:
    """Makes a load, lets each client take it in each round, and prints the costs."""
    load = LOADS[name]
    dsn, slot = server.dsn, f"load_{len(name)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        execute(
            connection,
            f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
        )
        connection.execute("SET synchronous_commit = off")
        changes = changes // load.changes * load.changes
        execute(connection, load.sql(changes // load.changes))
        connection.execute("SET synchronous_commit = on")
        connection.execute("CHECKPOINT")
        costs: dict[str, list[Cost]] = {client: [] for client in CLIENTS}
        for number in range(rounds):
            for client in CLIENTS[:: 1 if number % 2 else -1]:
                log = folder / f"{slot}-{client}-{number}"
                copy = f"SELECT pg_copy_logical_replication_slot('{slot}', '{TURN}')"
                taken = turn(server, connection, client, copy, log)
                empty = (
                    f"SELECT pg_create_logical_replication_slot('{TURN}', 'pgoutput')"
                )
                begun = turn(
                    server, connection, client, empty, log.with_suffix(".empty")
                )
                costs[client].append(taken.beyond(begun))
        execute(connection, f"SELECT pg_drop_replication_slot('{slot}')")
    found = {client: summary(costs[client], changes) for client in CLIENTS}
    print(f"{name}: {changes:,} changes, load of the machine {os.getloadavg()[0]:.1f}")
    for client, each in found.items():
        print(
            f"  {client:<15} {each['seconds']:6.2f} s {each['rows_a_second']:>9,.0f}/s"
            f" CPU {each['cpu_seconds']:5.2f} s, walsender {each['walsender_cpu_seconds']:5.2f} s"
            f" ({each['cpu_of_walsender']:.2f}), {each['peak_mib']:4.0f} MiB"
        )
    found["targets"] = targets(costs, found)
    return found


def turn(
    server: Server,
    connection: psycopg.Connection[Any],
    client: str,
    make_slot: str,
    log: Path,
) -> Cost:
    """Lets a client take everything that a new slot has."""
    execute(connection, make_slot)
    cost = run(server.dsn, COMMANDS[client](server, TURN, log, end_of(connection)))
    execute(connection, f"SELECT pg_drop_replication_slot('{TURN}')")
    return cost


def execute(connection: psycopg.Connection[Any], statement: str) -> None:
    """Executes a statement of this program."""
    connection.execute(statement.encode())


def end_of(connection: psycopg.Connection[Any]) -> str:
    """The end of the WAL."""
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    return str(row[0]) if row else ""


def _drain(server: Server, slot: str, _log: Path, _end: str) -> list[str]:
    program = Path(__file__).parent / "receiver" / "drain.py"
    return [sys.executable, str(program), server.dsn, slot]


def _recvlogical(server: Server, slot: str, _log: Path, end: str) -> list[str]:
    # fmt: off
    return [
        str(server.bin / "pg_recvlogical"), "--dbname", server.dsn, "--slot", slot, "--start",
        "--endpos", end, "--no-loop", "--file", "/dev/null",
        "-o", "proto_version=4", "-o", "streaming=parallel", "-o", "publication_names=p",
    ]
    # fmt: on


def _receive(server: Server, slot: str, log: Path, _end: str) -> list[str]:
    # fmt: off
    return [
        sys.executable, "-m", "walrow", "receive", "--dsn", server.dsn, "--slot", slot,
        "--publication", "p", "--log", str(log), "--until", "now",
    ]
    # fmt: on


COMMANDS: dict[str, Callable[[Server, str, Path, str], Sequence[str]]] = {
    "drain": _drain,
    "pg_recvlogical": _recvlogical,
    "receive": _receive,
}


def summary(costs: Sequence[Cost], changes: int) -> dict[str, float]:
    """The medians of all rounds."""
    seconds = median(it.wall for it in costs)
    return {
        "seconds": round(seconds, 3),
        "rows_a_second": round(changes / seconds),
        "cpu_seconds": round(median(it.cpu for it in costs), 3),
        "walsender_cpu_seconds": round(median(it.sender for it in costs), 3),
        "cpu_of_walsender": round(median(it.cpu / it.sender for it in costs), 3),
        "peak_mib": round(max(it.peak for it in costs) / 2**20, 1),
    }


def targets(
    costs: dict[str, list[Cost]], found: dict[str, dict[str, float]]
) -> dict[str, Any]:
    """Measured value and limit of each target. A ratio is the median of the ratios of all rounds."""
    rounds = list(zip(*(costs[client] for client in CLIENTS), strict=True))
    cpu = median(mine.cpu / loop.cpu for loop, _, mine in rounds)
    slower = median(
        mine.wall / min(loop.wall, other.wall) for loop, other, mine in rounds
    )
    received = found["receive"]
    results = {
        "cpu_of_loop": target("CPU / the loop's", cpu, CPU_LIMIT),
        "peak_mib": target("resident MiB", received["peak_mib"], MEMORY_LIMIT),
    }
    if received["rows_a_second"] >= ROWS_LIMIT:
        print(f"  rows a second: {received['rows_a_second']:,.0f}/{ROWS_LIMIT:,}")
    else:
        results["time_of_fastest"] = target(
            "time / the faster other's", slower, TIME_LIMIT
        )
    return results


def target(name: str, value: float, limit: float) -> dict[str, Any]:
    """Prints a target that must not be exceeded."""
    print(f"  {name}: {value:.2f}/{limit:g}{'*' if value > limit else ''}")
    return {"measured": round(value, 3), "limit": limit, "reached": value <= limit}


if __name__ == "__main__":
    main()
