"""The tables of a log, as they are on the server: docs/fold.md."""

from typing import Any

import walrow


def fold(log: Any, **options: Any) -> dict[str, walrow.Reader]:
    """Returns the rows of all tables, by `schema.name`. Options are those of `state`."""
    log = walrow.Log(log)
    # Of tables that had one name, the last one.
    tables = {table.name: table.oid for table in log.tables()}
    return {name: log.state(oid, **options) for name, oid in tables.items()}
