"""Follows a table of a running server: prints its changes, and confirms what it printed.

    python follow.py CONNINFO SLOT PUBLICATION TABLE

A slot keeps what is not confirmed.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import walrow.postgres


def main(conninfo: str, slot: str, publication: str, table: str) -> None:
    """Prints changes until it is interrupted."""
    with walrow.postgres.changes(
        conninfo, slot=slot, publications=publication, table=table, until=None
    ) as changes:
        for batch in changes:
            for row in pa.record_batch(batch).to_pylist():
                print(row, flush=True)
            # Everything up to here is printed: the server may now forget it.
            changes.confirm()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
