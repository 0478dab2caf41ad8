"""walrow for PySpark: logs and captures as typed change rows.

A log is a data source, for batches and streams. Spark finds it without an import:

```python
changes = spark.read.format("walrow").option("table", "public.orders").load("/data/log")
```

Captures are decoded in a DataFrame of their paths or bytes:

```python
import walrow.spark

files = spark.read.format("binaryFile").load("captures/").select("path")
changes = walrow.spark.changes(files, "public.orders")
```

`changes` is `mapInArrow` for the usual case. Its parts:

```python
schema = walrow.spark.schema("captures/", "public.orders")
decode = walrow.spark.decode(table="public.orders", schema=schema)
changes = files.mapInArrow(decode, schema)
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

from walrow._apply.items import Applied
from walrow._apply.many import AllApplied
from walrow._late import listed
from walrow.spark.apply_all import apply_all
from walrow.spark.changes import changes
from walrow.spark.decoding import decode
from walrow.spark.modes import apply_changes
from walrow.spark.schemas import schema

__all__ = [
    "AllApplied",
    "Applied",
    "apply_all",
    "apply_changes",
    "changes",
    "decode",
    "schema",
]

__dir__ = listed(__all__)
