"""Keeps every change of a table, append-only, with Spark's own Delta sink.

    python examples/history.py [LOG TABLE TARGET]

Without arguments, it makes a log of a capture. The checkpoint is the sink's: after a crash, the
query writes the same micro-batches again, and Delta knows their numbers. So each change is in the
table once. Deletes and old images are rows, too, and a table needs no key.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql.functions import max as latest

import walrow
from stream_to_delta import session

SAMPLE = Path(__file__).resolve().parent.parent / "tests/data/18/rows.text.wire"


def main() -> None:
    """Appends what is new in the log, and prints the changes of each kind."""
    with tempfile.TemporaryDirectory() as scratch:
        log, table, target = sys.argv[1:] or (
            f"{scratch}/log",
            "public.item",
            f"{scratch}/history",
        )
        if not sys.argv[1:]:
            walrow.seal(SAMPLE, log=log)
        spark = session()
        # Twice: the second query begins where the first one has ended.
        for _ in range(2):
            query = (
                spark.readStream.format("walrow")
                .option("table", table)
                .load(log)
                .writeStream.format("delta")
                .option("checkpointLocation", f"{target}/_checkpoint")
                .trigger(availableNow=True)
                .start(target)
            )
            query.awaitTermination()
        history = spark.read.format("delta").load(target)
        history.groupBy("_change_type").count().orderBy("_change_type").show()
        last = history.agg(latest("_commit_lsn")).first()
        print("up to", walrow.Lsn(last[0]) if last else None)
        spark.stop()


if __name__ == "__main__":
    main()
