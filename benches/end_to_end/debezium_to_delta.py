"""Debezium's JSON lines into a Delta table: debezium_to_delta.py TARGET < LINES."""

from __future__ import annotations

import sys
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from upsert import OP, follow

from workload import SCHEMA

#: Decimals and times are texts in JSON.
_ROW = pa.struct(
    [
        (it.name, pa.string() if it.name in {"amount", "placed"} else it.type)
        for it in SCHEMA
    ]
)
_OPTIONS = pyarrow.json.ParseOptions(
    explicit_schema=pa.schema([("op", pa.string()), ("before", _ROW), ("after", _ROW)]),
    unexpected_field_behavior="ignore",
)


def parse(lines: list[bytes]) -> pa.Table:
    """The rows of changes. A delete has only the old row."""
    text = BytesIO(b"\n".join(lines))
    changes = pyarrow.json.read_json(text, parse_options=_OPTIONS)
    is_delete = pc.equal(changes["op"], "d")
    columns = {
        it.name: pc.if_else(
            is_delete,
            pc.struct_field(changes["before"], it.name),
            pc.struct_field(changes["after"], it.name),
        ).cast(it.type)
        for it in SCHEMA
    }
    return pa.table({OP: changes["op"], **columns})


if __name__ == "__main__":
    follow(sys.argv[1], SCHEMA, parse)
