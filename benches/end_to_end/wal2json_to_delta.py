"""The lines of wal2json's second format into a Delta table: wal2json_to_delta.py TARGET < LINES."""

from __future__ import annotations

import json
import sys
from decimal import Decimal

import pyarrow as pa
from upsert import OP, follow

from workload import SCHEMA

_TEXTS = pa.schema(
    [
        (OP, pa.string()),
        *((it.name, pa.string() if it.name == "placed" else it.type) for it in SCHEMA),
    ]
)


def parse(lines: list[bytes]) -> pa.Table:
    """The rows of changes. A delete has only the key."""
    rows = []
    for line in lines:
        change = json.loads(line, parse_float=Decimal)
        row = {OP: "d" if change["action"] == "D" else "u"}
        for column in change.get("columns") or change["identity"]:
            row[column["name"]] = column["value"]
        rows.append(row)
    changes = pa.Table.from_pylist(rows, _TEXTS)
    return changes.cast(pa.schema([(OP, pa.string()), *SCHEMA]))


if __name__ == "__main__":
    follow(sys.argv[1], SCHEMA, parse)
