"""Files that are there when they are complete, and not before."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import pyarrow as pa

from walrow.cli import jsonlines
from walrow.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import walrow

FORMATS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
}
#: Rows of a Parquet row group or an Arrow batch.
GROUP_ROWS = 131_072
_GROUP_BYTES = 32 << 20
# Over all files.
_MOST_HELD = 128 << 20
SUFFIXES = {"parquet": ".parquet", "arrow": ".arrow", "json": ".jsonl"}


class Writer(Protocol):
    """Writes one file's batches."""

    def write(self, batch: Any) -> None:
        """Adds a batch: anything with `__arrow_c_array__`."""

    def close(self) -> None:
        """Writes the file's end."""

    def abandon(self) -> None:
        """Lets go of a file that is not wanted any more."""


class Files:
    """Files under temporary names that get their own names together, or are removed."""

    def __init__(self) -> None:
        self._files: list[tuple[Path, Path, Any]] = []
        self._writers: list[Writer] = []
        self._held = 0

    def __enter__(self) -> Self:
        return self

    def create(self, path: Path, form: str, schema: Any) -> Writer:
        """Begins a file."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        file = os.fdopen(descriptor, "wb")
        self._files.append((temporary, path, file))
        writer: Writer = _WRITERS[form](file, path, schema)
        if form != "json":
            writer = _Gathered(writer, self)
        self._writers.append(writer)
        return writer

    def gathered(self, size: int) -> None:
        """Counts what writers hold back, and lets them write when it is too much."""
        self._held += size
        if self._held > _MOST_HELD:
            for writer in self._writers:
                if isinstance(writer, _Gathered):
                    writer.flush()

    def finish(self, writer: Writer) -> None:
        """Writes a file's end; more of it will not come."""
        writer.close()
        self._writers.remove(writer)

    def commit(self) -> None:
        """Completes all files, then gives them their names."""
        for writer in list(self._writers):
            self.finish(writer)
        for _, _, file in self._files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        while self._files:
            temporary, path, _ = self._files[0]
            temporary.replace(path)
            del self._files[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for writer in self._writers:
            writer.abandon()
        for temporary, _, file in self._files:
            # On a full disk closing fails too.
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(OSError):
                temporary.unlink()


def file_name(batch: walrow.Batch, version: int, form: str) -> str:
    """`schema.table.parquet`, `schema.table.2.parquet` for its next version."""
    parts = [_quoted(batch.schema_name), _quoted(batch.table_name)]
    if version > 1:
        parts.append(str(version))
    return ".".join(parts) + SUFFIXES[form]


def _quoted(name: str) -> str:
    return quote(name, safe=" ").replace(".", "%2E")


class _Gathered:
    """Puts small batches together: a stream may change from table to table all the time."""

    def __init__(self, writer: Writer, files: Files) -> None:
        self._writer = writer
        self._files = files
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def write(self, batch: Any) -> None:
        records = pa.record_batch(batch).replace_schema_metadata()
        self._batches.append(records)
        self._rows += records.num_rows
        self._bytes += records.nbytes
        self._files.gathered(records.nbytes)
        if self._rows >= GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes what was held back."""
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        size, self._batches, self._rows, self._bytes = self._bytes, [], 0, 0
        self._files.gathered(-size)
        for records in table.combine_chunks().to_batches():
            self._writer.write(records)

    def close(self) -> None:
        self.flush()
        self._writer.close()

    def abandon(self) -> None:
        self._writer.abandon()


class _Parquet:
    def __init__(self, file: Any, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._metadata = schema.metadata
        try:
            self._writer = pq.ParquetWriter(file, schema, compression="zstd")
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            text = (
                f"{path.name}: Parquet has no place for a column's type ({error}); take "
                "--to FILE.arrow, --profile spark, or --types COLUMN=string"
            )
            raise SchemaError(text) from error

    def write(self, batch: Any) -> None:
        # The schema must be the file's to the last bit of metadata.
        records = pa.record_batch(batch).replace_schema_metadata(self._metadata)
        self._writer.write_batch(records)

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        # Else it would write the file's end when it is collected.
        with contextlib.suppress(Exception):
            self._writer.close()
        self._writer.is_open = False


class _Arrow:
    def __init__(self, file: Any, path: Path, schema: pa.Schema) -> None:
        del path
        self._writer = pa.ipc.new_file(file, schema)

    def write(self, batch: Any) -> None:
        self._writer.write_batch(pa.record_batch(batch))

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.close()


class Json:
    """JSON lines into a binary file."""

    def __init__(self, file: Any, path: Path | None = None, schema: Any = None) -> None:
        del path, schema
        self._file = file

    def write(self, batch: Any) -> None:
        """Adds a line for each row of a `walrow.Batch`."""
        for line in jsonlines.lines(batch):
            self._file.write(line.encode())

    def close(self) -> None:
        """Leaves the file to its owner."""
        self._file.flush()

    def abandon(self) -> None:
        """Leaves the file to its owner."""


_WRITERS: dict[str, Any] = {"parquet": _Parquet, "arrow": _Arrow, "json": Json}
