"""From a server to a Delta table, beside what one would run instead: run.py [--rows N] ...

Debian's PostgreSQL 15 has a table. Each way keeps a Delta table as it is there:

    walrow run              one command
    walrow receive, apply   two commands, one after the other
    Debezium                its embedded engine, whose JSON a script merges with delta-rs
    wal2json                with pg_recvlogical, whose JSON such a script merges

There are three phases: rows are inserted; rows are updated, inserted and deleted, as pgbench does;
one row is inserted, which shows what a start takes. All transactions of a phase are committed before
the ways start, one way after the other. A time is that from the start of a way's processes until
the phase's last row is in the table. It has the CPU time of all these processes. The walsender's is
shown beside it. After each phase, all rows are compared with the server's. A way that is not
installed is named, and left out.

Needs apt install postgresql-15 postgresql-15-wal2json; Java 17 and maven for Debezium. The results are
in target/bench/end_to_end.json, and page.py makes docs/speed/end-to-end.md of them.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from compare import delta_rows, difference, has_row, server_rows
from processes import Pipeline, cpu_of
from ways import JARS, WAYS, Server, Way

import walrow
from workload import CREATE, PHASES, Phase, last_key, last_row, rows_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from servers.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = Path(__file__).resolve().parents[2]
DEBIAN = Path("/usr/lib/postgresql/15/bin")
RESULTS = _ROOT / "target/bench/end_to_end.json"
#: A way that takes longer for one phase has failed.
MOST_SECONDS = 900.0


def main() -> None:
    """Writes the results, and prints them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    names = [way.name for way in WAYS]
    parser.add_argument("--ways", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    if not (DEBIAN / "postgres").exists():
        print("left out: no server 15 here: apt install postgresql-15")
        return
    # As pip does it for an installed package.
    compileall.compile_dir(Path(walrow.__file__).parent, quiet=2)
    build_debezium()
    ways = []
    for way in WAYS:
        if reason := way.missing(DEBIAN):
            print(f"{way.name} is left out: there is no {reason}")
        elif way.name in options.ways:
            ways.append(way)
    if not ways:
        return
    results: list[dict[str, Any]] = []
    for number in range(options.rounds):
        # Each round begins with another way.
        turned = ways[number % len(ways) :] + ways[: number % len(ways)]
        results += one_round(turned, options.rows, options.changes, number)
    write(results, options.rows, options.changes)


def build_debezium() -> None:
    """Has maven fetch the engine and compile the program, once."""
    maven = shutil.which("mvn")
    if maven is None or (JARS / "lines.jar").exists():
        return
    print("fetching Debezium (once, 60 MB)")
    pom = Path(__file__).resolve().parent / "debezium/pom.xml"
    goals = ["package", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    command = [maven, "-q", "-B", "-f", pom, *goals, f"-DoutputDirectory={JARS}/lib"]
    # Spark's Ivy would take what lies in the user's own repository for complete.
    command.append(f"-Dmaven.repo.local={JARS.parent / 'maven'}")
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        (JARS / "lines.jar").unlink(missing_ok=True)
        print(done.stdout[-500:])


def one_round(
    kinds: Sequence[type[Way]], rows: int, changes: int, number: int
) -> list[dict[str, Any]]:
    """Takes all ways through all phases, with a server and tables of their own."""
    results = []
    port = free_port()
    settings = {"listen_addresses": "127.0.0.1", "port": str(port)}
    place = RESULTS.parent
    place.mkdir(parents=True, exist_ok=True)
    # The system's directory for temporary files may be memory.
    with (
        EmbeddedServer(15, programs=DEBIAN, settings=settings) as embedded,
        tempfile.TemporaryDirectory(dir=place) as folder,
    ):
        server = Server(port, DEBIAN)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(CREATE.encode())
        ways = [kind(server, Path(folder) / kind.__name__) for kind in kinds]
        for way in ways:
            way.prepare()
        for phase in PHASES:
            commit(server, phase, rows, changes)
            truth = server_rows(server.dsn)
            for way in ways:
                sender = server_cpu(embedded)
                seconds, cpu = measure(way, phase)
                sender = server_cpu(embedded) - sender
                wrong = difference(truth, delta_rows(way.table))
                result = {
                    "round": number,
                    "way": way.name,
                    "phase": phase.name,
                    "rows": rows_of(phase, rows, changes),
                    "seconds": seconds,
                    "cpu": cpu,
                    "server_cpu": sender,
                    "difference": wrong,
                    "load": os.getloadavg()[0],
                }
                results.append(result)
                print(shown(result), flush=True)
    return results


def commit(server: Server, phase: Phase, rows: int, changes: int) -> None:
    """Commits all transactions of a phase."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        if statements := phase.statements(rows, changes):
            connection.execute(statements.encode())
        connection.execute("SET synchronous_commit = on")
        connection.execute(last_row(phase).encode())


def measure(way: Way, phase: Phase) -> tuple[float, float]:
    """Seconds until a way has all rows of a phase, and CPU seconds of its processes."""
    with psycopg.connect(way.server.dsn, autocommit=True) as connection:
        (end,) = connection.execute("SELECT pg_current_wal_lsn()").fetchone() or ("",)
        began = time.monotonic()
        running = Pipeline(way.commands(), way.folder / "said")
        try:
            wait_for_row(way, phase, running, began)
            seconds, cpu = time.monotonic() - began, running.cpu()
            # So that the next phase begins here.
            wait_until_confirmed(connection, way.slot, end)
        finally:
            running.stop()
    return seconds, cpu


def wait_for_row(way: Way, phase: Phase, running: Pipeline, began: float) -> None:
    """Waits until the last row of a phase is in the table."""
    commits = way.table / "_delta_log"
    seen = set[str]()
    while True:
        there = set(os.listdir(commits)) if commits.exists() else set()  # noqa: PTH208
        if there != seen and has_row(way.table, last_key(phase)):
            return
        seen = there
        if running.has_failed() or time.monotonic() - began > MOST_SECONDS:
            msg = f"{way.name} has ended: {running.log.read_text()[-2000:]}"
            raise RuntimeError(msg)
        time.sleep(0.02)


def wait_until_confirmed(connection: psycopg.Connection, slot: str, end: str) -> None:
    """Waits until a slot is at an LSN, or for some seconds: lines may come again."""
    until = time.monotonic() + 15
    query = "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s"
    while time.monotonic() < until:
        if connection.execute(query, [end, slot]).fetchone() == (True,):
            return
        time.sleep(0.1)


def server_cpu(server: EmbeddedServer) -> float:
    """CPU seconds of a server's processes that have ended: the walsenders are among them."""
    time.sleep(0.3)  # until it has waited for them
    lines = (server.data_directory / "postmaster.pid").read_text().splitlines()
    return cpu_of(int(lines[0]))


def versions() -> dict[str, str]:
    """The versions of all programs."""
    found = {"walrow": walrow.__version__, "deltalake": version("deltalake")}
    server = subprocess.check_output([DEBIAN / "postgres", "--version"], text=True)  # noqa: S603
    found["server"] = server.split()[2]
    pom = (Path(__file__).resolve().parent / "debezium/pom.xml").read_text()
    found["debezium"] = pom.partition("<debezium.version>")[2].partition("<")[0]
    package = ["dpkg-query", "-W", "-f", "${Version}", "postgresql-15-wal2json"]
    asked = subprocess.run(package, check=False, capture_output=True, text=True)  # noqa: S603
    found["wal2json"] = asked.stdout.partition("-")[0] or "of another build"
    return found


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


def shown(result: dict[str, Any]) -> str:
    """A line of a result."""
    rate = result["rows"] / result["seconds"]
    return (
        f"{result['phase']:<8} {result['way']:<22}{result['seconds']:>7.1f} s"
        f"{rate:>10,.0f} rows/s  {result['cpu']:>6.1f} s of CPU"
        f" {result['cpu'] / result['rows'] * 1e6:>10.1f} us a row;"
        f" server {result['server_cpu']:>5.1f} s;"
        f" {'rows as on the server' if result['difference'] is None else 'THE ROWS DIFFER: ' + result['difference']}"
    )


def write(results: list[dict[str, Any]], rows: int, changes: int) -> None:
    """Writes the file of results."""
    machine = Path("/proc/cpuinfo").read_text()
    model = next(
        (it.split(":")[1].strip() for it in machine.splitlines() if "model name" in it),
        platform.machine(),
    )
    RESULTS.write_text(
        json.dumps(
            {
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "machine": f"{os.cpu_count()} cores, {model}",
                "versions": versions(),
                "rows": rows,
                "changes": changes,
                "results": results,
            },
            indent=1,
        )
    )
    print(f"written: {RESULTS.relative_to(_ROOT)}")


if __name__ == "__main__":
    main()
