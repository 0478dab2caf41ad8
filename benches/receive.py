"""A receiver beside a loop that only drains: receive.py [DIR].

Both read the same WAL of a server of their own, over slots of their own. The receiver's CPU time
beyond the loop's is compared with that of the walsender, and its wall time with the loop's. The
loop calls libpq through psycopg. Connecting and preflight are not counted.
`*` marks what misses its aim.
"""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

import walrow

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from server import running_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.pq.abc import PGconn

#: Of the walsender's CPU.
AIM = 0.1

LOADS = {
    "narrow, 100 rows a transaction": """
        DO $$ BEGIN FOR i IN 1..3000 LOOP
            INSERT INTO narrow SELECT i * 100 + g, g, now() FROM generate_series(1, 100) g;
            COMMIT;
        END LOOP; END $$
    """,
    "one row a transaction": """
        DO $$ BEGIN FOR i IN 1..60000 LOOP
            INSERT INTO narrow VALUES (10000000 + i, i, now());
            COMMIT;
        END LOOP; END $$
    """,
    "wide, 10 rows a transaction": """
        DO $$ BEGIN FOR i IN 1..3000 LOOP
            INSERT INTO wide SELECT i * 10 + g, repeat(md5(g::text), 60)
                FROM generate_series(1, 10) g;
            COMMIT;
        END LOOP; END $$
    """,
}


def main() -> None:
    """Prints a line for each load."""
    with (
        running_server() as server,
        tempfile.TemporaryDirectory() as folder,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        connection.execute(
            "CREATE TABLE narrow (id int PRIMARY KEY, n int, at timestamptz)"
        )
        connection.execute("CREATE TABLE wide (id int PRIMARY KEY, body text)")
        connection.execute("CREATE PUBLICATION p FOR TABLE narrow, wide")
        for number, (name, load) in enumerate(LOADS.items()):
            for slot in ("drained", "received"):
                connection.execute(
                    "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')",
                    [f"{slot}{number}"],
                )
            connection.execute("SET synchronous_commit = off")
            connection.execute(load.encode())
            connection.execute("SET synchronous_commit = on")
            connection.execute("CHECKPOINT")
            measure(server.dsn, name, number, Path(folder))


def measure(dsn: str, name: str, number: int, folder: Path) -> None:
    """Prints the line of a load."""

    def receive() -> None:
        walrow.receive(
            dsn,
            log=folder / str(number),
            slot=f"received{number}",
            publications="p",
            until="now",
        )

    drained, drain_cpu, _ = timed(dsn, lambda: drain(dsn, f"drained{number}"))
    received, receive_cpu, sender_cpu = timed(dsn, receive)
    # Once more, with nothing to receive: what its beginning takes.
    begun, begin_cpu, _ = timed(dsn, receive)
    received, receive_cpu = received - begun, receive_cpu - begin_cpu
    beyond = (receive_cpu - drain_cpu) / sender_cpu
    print(
        f"{name}: drain {drained:.2f} s, {drain_cpu:.2f} s CPU; receive {received:.2f} s,"
        f" {receive_cpu:.2f} s CPU; walsender {sender_cpu:.2f} s CPU;"
        f" beyond the loop {beyond:.0%} of the walsender{'*' if beyond > AIM else ''};"
        f" time {received / drained:.2f}{'*' if received > 1.1 * drained else ''}"
    )


def timed(dsn: str, run: Callable[[], Any]) -> tuple[float, float, float]:
    """Seconds, CPU seconds of this process, and CPU seconds of the walsenders."""
    before = server_cpu(dsn)
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    took = time.perf_counter() - wall, time.process_time() - cpu
    return *took, server_cpu(dsn) - before


def server_cpu(dsn: str) -> float:
    """The CPU seconds of a server's ended and running children, and its own."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT pg_read_file('postmaster.pid', 0, 20)"
        ).fetchone()
    pid = int(str(row[0]).split()[0]) if row else 0
    time.sleep(0.3)  # until the walsender was waited for
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(map(int, fields[11:15]))
    return ticks / int(subprocess.check_output(["getconf", "CLK_TCK"]))  # noqa: S607


def drain(dsn: str, slot: str) -> None:
    """Takes everything and does nothing with it, as a loop around libpq does."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
    end = int(row[0]) if row else 0
    stream = psycopg.connect(f"{dsn} replication=database", autocommit=True)
    with closing(stream):
        pgconn = stream.pgconn
        start = (
            f"START_REPLICATION SLOT {slot} LOGICAL 0/0"
            " (proto_version '4', streaming 'parallel', publication_names 'p')"
        )
        pgconn.send_query(start.encode())
        position = 0
        while pgconn.is_busy():
            wait(pgconn)
        pgconn.get_result()
        while position < end:
            size, payload = pgconn.get_copy_data(1)
            if size == 0:
                wait(pgconn)
            elif payload[0] == ord("k"):
                position = int.from_bytes(payload[1:9])


def wait(pgconn: PGconn) -> None:
    """Reads what arrives."""
    select.select([pgconn.socket], [], [])
    pgconn.consume_input()


if __name__ == "__main__":
    main()
