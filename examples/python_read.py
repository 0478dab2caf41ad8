"""Reads a capture in Python: `python examples/python_read.py [FILE]`."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import walrow

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "18"
path = sys.argv[1] if len(sys.argv) > 1 else DATA / "rows.text.wire"

# Every table in the stream, as typed record batches of committed changes.
with walrow.read(path) as reader:
    for batch in reader:
        print(batch.table, batch.num_rows, pa.record_batch(batch).schema.names[:3])
    print(f"complete up to {reader.position}")

# One table is an Arrow stream, for pyarrow, polars, DuckDB and others.
if path == DATA / "rows.text.wire":
    items = pa.table(walrow.read(path, table="public.item"))
    inserted = items.filter(pc.field("_change_type") == "insert")
    print(inserted.select(["id", "label", "amount", "_seq"]).to_pylist())
