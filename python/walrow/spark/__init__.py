"""walrow for PySpark: converts captures in a DataFrame to typed change rows.

```python
import walrow.spark

schema = walrow.spark.schema("captures/", "public.orders")
decode = walrow.spark.decode(table="public.orders", schema=schema)
files = spark.read.format("binaryFile").load("captures/")
changes = files.select("path").mapInArrow(decode, schema)
```

Each value is one self-contained capture: either its bytes, in a binary column, or its
path or URL, in a string column. The task opens the path itself. Use paths if the
executors can open them: this is several times as fast, and files do not have to fit in
memory. Captures may be compressed with gzip or zstd, or written by pg_recvlogical: this
is recognised for each value.

Spark matches columns by position and type, never by name. So use `schema` to declare
the schema: it comes from the same code as the batches, and has the columns of all
versions of the table.
"""

from __future__ import annotations

from walrow.spark.apply_all import AllApplied, apply_all
from walrow.spark.apply_items import Applied
from walrow.spark.applying import apply_changes
from walrow.spark.decoding import decode
from walrow.spark.schemas import schema

__all__ = [
    "AllApplied",
    "Applied",
    "apply_all",
    "apply_changes",
    "decode",
    "schema",
]
