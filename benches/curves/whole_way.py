"""The whole way, from a server to Delta tables: the CPU time of each stage for the same changes."""

from __future__ import annotations

import subprocess
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from receiver.processes import server_cpu

import walrow
import walrow.delta
from server import Server, running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: 100,000 accounts for each.
SCALE = 2
CLIENTS = 4
#: Changes of one transaction of pgbench: three updates and an insert.
CHANGES = 4
#: How each table is kept. The history has no key, so that its changes are appended.
MODES: dict[str, Literal["current", "changes"]] = {
    "pgbench_accounts": "current",
    "pgbench_tellers": "current",
    "pgbench_branches": "current",
    "pgbench_history": "changes",
}
SLOT = PUBLICATION = "whole_way"


@dataclass(frozen=True)
class Stage:
    """The cost of a stage for all changes.

    Attributes:
        name: The stage.
        cpu: Seconds of CPU time.
        wall: Seconds.
        is_part: Whether it is part of the way, and not only compared with it.
    """

    name: str
    cpu: float
    wall: float
    is_part: bool = True


def measure(folder: Path, transactions: int) -> dict[str, Any]:
    """Runs pgbench, a receiver, and deltalake.

    Args:
        folder: The directory of the log and the tables.
        transactions: Of pgbench.

    Returns:
        The number of changes, and the stages as dictionaries.
    """
    log = folder / "log"
    with running_server() as server:
        _prepare(server)
        _receive(server.dsn, log, create=True, snapshot=True)
        start = walrow.Log(log).end
        _apply(log, folder / "delta")
        pgbench = _pgbench(server, transactions)
        stages = [pgbench, *_streaming(server.dsn, log)]
        read = _stage(
            "decode the log, for comparison", _read, log, start, is_part=False
        )
        net = _stage("log to net changes", _net, log, start)
        applied = _stage("Delta tables (deltalake)", _apply, log, folder / "delta")
        delta = Stage(applied.name, applied.cpu - net.cpu, applied.wall - net.wall)
        stages += [net, delta, read]
    return {
        "changes": transactions * CHANGES,
        "stages": [asdict(stage) for stage in stages],
    }


def _stage(name: str, run: Any, *arguments: Any, is_part: bool = True) -> Stage:
    wall, cpu = time.perf_counter(), time.process_time()
    run(*arguments)
    return Stage(
        name, time.process_time() - cpu, time.perf_counter() - wall, is_part=is_part
    )


def _prepare(server: Server) -> None:
    """Makes the tables, which nobody vacuums meanwhile."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")
        _run_pgbench(server, "--initialize", f"--scale={SCALE}", "--quiet")
        tables = ", ".join(MODES)
        connection.execute(
            f"CREATE PUBLICATION {PUBLICATION} FOR TABLE {tables}".encode()
        )


def _timed(dsn: str, run: Callable[[], object]) -> tuple[float, float, float]:
    """Seconds, CPU seconds of this process, and CPU seconds of the server's processes."""
    before = server_cpu(dsn)
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    took = time.perf_counter() - wall, time.process_time() - cpu
    return *took, server_cpu(dsn) - before


def _pgbench(server: Server, transactions: int) -> Stage:
    """Makes the changes. Only the server's CPU time counts."""
    each = transactions // CLIENTS
    wall, _, cpu = _timed(
        server.dsn,
        lambda: _run_pgbench(
            server, "--no-vacuum", f"--client={CLIENTS}", f"--transactions={each}"
        ),
    )
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    return Stage("the transactions themselves (pgbench)", cpu, wall, is_part=False)


def _run_pgbench(server: Server, *arguments: str) -> None:
    command = [str(server.bin / "pgbench"), *arguments, server.dsn]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603


def _streaming(dsn: str, log: Path) -> Iterator[Stage]:
    """The walsender and the receiver, without connecting and preflight."""
    wall, own, server = _timed(dsn, lambda: _receive(dsn, log))
    begun_wall, begun_own, begun_server = _timed(dsn, lambda: _receive(dsn, log))
    wall -= begun_wall
    yield Stage("server (walsender)", server - begun_server, wall)
    yield Stage("receiver, with writing the log", own - begun_own, wall)


def _receive(dsn: str, log: Path, **options: Any) -> None:
    walrow.receive(
        dsn,
        log=log,
        slot=SLOT,
        publications=PUBLICATION,
        until="now",
        **options,
    )


def _read(log: Path, start: int) -> None:
    for _ in walrow.read(log, start=start):
        pass


def _net(log: Path, start: int) -> None:
    """Net changes of the tables with a key, and all changes of the history."""
    for table, mode in MODES.items():
        if mode == "current":
            batches: Any = walrow.Log(log).net(table, start=start)
        else:
            batches = walrow.read(log, table=table, start=start)
        for _ in batches:
            pass


def _apply(log: Path, targets: Path) -> None:
    for table, mode in MODES.items():
        walrow.delta.apply_changes(
            log, table=table, target=f"delta:{targets / table}", mode=mode
        )
