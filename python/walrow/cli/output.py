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
SUFFIXES = {"parquet": ".parquet", "arrow": ".arrow", "json": ".jsonl"}


class Writer(Protocol):
    """Writes one file's batches."""

    def write(self, batch: walrow.Batch) -> None:
        """Adds a batch."""

    def close(self) -> None:
        """Writes the file's end."""

    def abandon(self) -> None:
        """Lets go of a file that is not wanted any more."""


class Files:
    """Files under temporary names that get their own names together, or are removed."""

    def __init__(self) -> None:
        self._files: list[tuple[Path, Path, Any]] = []
        self._writers: list[Writer] = []

    def __enter__(self) -> Self:
        return self

    def create(self, path: Path, form: str, schema: Any) -> Writer:
        """Begins a file."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        file = os.fdopen(descriptor, "wb")
        self._files.append((temporary, path, file))
        writer: Writer = _WRITERS[form](file, path, schema)
        self._writers.append(writer)
        return writer

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


class _Parquet:
    def __init__(self, file: Any, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._schema = schema
        try:
            self._writer = pq.ParquetWriter(file, schema, compression="zstd")
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            text = (
                f"{path.name}: Parquet has no place for a column's type ({error}); take "
                "--to FILE.arrow, --profile spark, or --types COLUMN=string"
            )
            raise SchemaError(text) from error

    def write(self, batch: walrow.Batch) -> None:
        # Metadata of a later version may differ, which Parquet's writer refuses.
        records = pa.record_batch(batch).replace_schema_metadata(self._schema.metadata)
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

    def write(self, batch: walrow.Batch) -> None:
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

    def write(self, batch: walrow.Batch) -> None:
        """Adds a line for each row."""
        for line in jsonlines.lines(batch):
            self._file.write(line.encode())

    def close(self) -> None:
        """Leaves the file to its owner."""
        self._file.flush()

    def abandon(self) -> None:
        """Leaves the file to its owner."""


_WRITERS: dict[str, Any] = {"parquet": _Parquet, "arrow": _Arrow, "json": Json}
