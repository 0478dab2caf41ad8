"""Records the captures for the benches: `PYTHONPATH=tests python benches/captures.py DIRECTORY`.

Each is a real server's stream of a workload of benches/workloads.py, once as text
(`NAME.wire`) and once in binary (`NAME.binary.wire`). A file that is there is not made again.
Two captures of a workload have different LSNs and times, but the same rows, except for pgbench.

With `--small`, fewer rows, as `NAME.wire.zst`: benches/data has these for tests.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
from workloads import WORKLOADS

from servers import EmbeddedServer, create_slot, drop_slot, record

if TYPE_CHECKING:
    from workloads import Workload

FORMS = {"text": ".wire", "binary": ".binary.wire"}
SMALL = pa.Codec("zstd", compression_level=19)


def make_captures(directory: Path, *, small: bool = False) -> None:
    """Records the captures that a directory lacks.

    Args:
        directory: The directory of the captures. It is created if necessary.
        small: Whether they have few rows, and are compressed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    missing = {}
    for name in WORKLOADS:
        paths = {
            form: directory / f"{name}{suffix}{'.zst' if small else ''}"
            for form, suffix in FORMS.items()
        }
        # Both forms are of one run, so they have the same rows.
        if not all(path.exists() for path in paths.values()):
            missing[name] = paths
    if not missing:
        return
    with EmbeddedServer(
        logical_decoding_work_mem="64kB", settings={"synchronous_commit": "off"}
    ) as server:
        for name, paths in missing.items():
            began = time.monotonic()
            captures = _record(server, WORKLOADS[name], small=small)
            for form, capture in captures.items():
                stored = SMALL.compress(capture, asbytes=True) if small else capture
                # A file that was cut off must not be taken for a whole one.
                partial = paths[form].with_suffix(".partial")
                partial.write_bytes(stored)
                partial.rename(paths[form])
            sizes = ", ".join(f"{len(it) / 1e6:.1f} MB" for it in captures.values())
            print(f"{name}: {sizes} in {time.monotonic() - began:.1f} s", flush=True)


def _record(
    server: EmbeddedServer, workload: Workload, *, small: bool
) -> dict[str, bytes]:
    """Runs a workload and returns what the server sends of it, by form."""
    rows = workload.small if small else workload.rows
    with server.database("bench") as database:
        dsn = server.dsn_of(database)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(workload.setup.replace("{rows}", str(rows)).encode())
            connection.execute("CREATE PUBLICATION bench FOR ALL TABLES")
        slots = {form: f"{database}_{form}" for form in FORMS}
        for slot in slots.values():
            create_slot(dsn, slot)
        workload.changes(server, database, rows)
        captures = {}
        for form, slot in slots.items():
            captures[form] = record(
                server,
                None,
                publication="bench",
                database=database,
                slot=slot,
                proto_version=2 if workload.streamed else 1,
                streaming="on" if workload.streamed else "off",
                binary=form == "binary",
            )
            drop_slot(dsn, slot)
    return captures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="where the captures are kept")
    parser.add_argument("--small", action="store_true", help="few rows, compressed")
    options = parser.parse_args()
    make_captures(options.directory, small=options.small)
