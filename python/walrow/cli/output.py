"""Output files, which appear only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from walrow._core import Batch
from walrow._late import pa
from walrow._results import counted
from walrow.cli import jsonlines
from walrow.errors import Remedy, SchemaError

FORMATS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
}
#: Maximum rows of a Parquet row group or an Arrow batch.
GROUP_ROWS = 131_072
_GROUP_BYTES = 32 << 20
# For all files together.
_MOST_HELD = 128 << 20
SUFFIXES = {"parquet": ".parquet", "arrow": ".arrow", "json": ".jsonl"}


@dataclass
class _File:
    """An open output file.

    Attributes:
        path: Its final name.
        temporary: Its name until all files are complete. None for a file that is not
            regular and is written directly.
    """

    path: Path
    temporary: Path | None
    file: Any
    writer: Writer | None = None

    def end(self) -> None:
        """Writes the end, syncs a regular file to disk and closes the descriptor."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
        if not self.file.closed:
            self.file.flush()
            if self.temporary is not None:
                os.fsync(self.file.fileno())
            self.file.close()

    def abandon(self) -> bool:
        """Removes a regular file. Returns whether its temporary file remains."""
        if self.temporary is None:
            # First, so that the writer cannot write an end that makes it look complete.
            with contextlib.suppress(OSError):
                self.file.close()
        if self.writer is not None:
            self.writer.abandon()
        # Closing also fails on a full disk.
        with contextlib.suppress(OSError):
            self.file.close()
        try:
            if self.temporary is not None:
                self.temporary.unlink(missing_ok=True)
        except OSError:
            # The directory has become read-only.
            return True
        return False


class Files:
    """Files with temporary names. They get their final names together, or are removed.

    Pipes and devices have no temporary names: they are written immediately.
    """

    def __init__(self) -> None:
        self._renamed: list[Path] = []
        self._remaining: list[Path] = []
        self._files: list[_File] = []
        self._made: list[Path] = []
        self._count = 0
        self._held = 0

    def __enter__(self) -> Self:
        return self

    def directory(self, path: Path) -> None:
        """Creates a directory if necessary. It is removed again if its files fail."""
        try:
            path.mkdir()
        except FileExistsError:
            if not path.is_dir():
                raise
        else:
            self._made.append(path)

    def create(self, path: Path, form: str, schema: Any) -> Writer:
        """Begins a file. If the path is a symbolic link, begins the file it points to."""
        try:
            opened = self._open(path)
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                tables = sum(file.writer is not None for file in self._files)
                error.strerror = (
                    f"{error.strerror} ({counted(tables, 'table')}): raise the limit with "
                    "ulimit -n, or choose one table with --table"
                )
            # Not the temporary name, which means nothing to the user.
            error.filename = str(path)
            raise
        self._files.append(opened)
        opened.writer = writer = (
            Json(opened.file)
            if form == "json"
            else _Columns(_OPENERS[form](opened.file, path, schema), schema, self)
        )
        return writer

    def _open(self, path: Path) -> _File:
        file = _stream(path)
        if file is not None:
            return _File(path, None, file)
        if path.is_symlink():
            path = path.resolve()
        # Does not contain the file's name, which may have the maximum length already.
        self._count += 1
        temporary = path.with_name(f".walrow.{os.getpid()}.{self._count}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        return _File(path, temporary, os.fdopen(descriptor, "wb"))

    def gathered(self, size: int) -> None:
        """Counts the bytes that writers hold. Flushes all writers if there are too many."""
        self._held += size
        if self._held > _MOST_HELD:
            for file in self._files:
                if isinstance(file.writer, _Columns):
                    file.writer.flush()

    def finish(self, writer: Writer) -> None:
        """Writes the end of a file that is complete."""
        for file in self._files:
            if file.writer is writer:
                file.end()

    def commit(self) -> None:
        """Completes all files, then gives them their final names."""
        for file in self._files:
            file.end()
        while self._files:
            file = self._files[0]
            if file.temporary is not None:
                try:
                    file.temporary.replace(file.path)
                except OSError as error:
                    # Not the temporary name. The class depends on the number alone.
                    raise OSError(error.errno, error.strerror, str(file.path)) from None
                self._renamed.append(file.path)
            del self._files[0]
        self._made.clear()

    def written(self) -> str | None:
        """Says what an error leaves. None if nothing: temporary files are removed."""
        if self._renamed or self._remaining:
            names = ", ".join(path.name for path in self._renamed) or "no file"
            text = f"complete and in place: {names}"
            if not self._remaining:
                return f"{text}; the other files were removed"
            names = ", ".join(path.name for path in self._remaining)
            return f"{text}; incomplete files that could not be removed: {names}"
        direct = [file for file in self._files if file.temporary is None]
        for file in direct:
            if isinstance(file.writer, Json):
                return file.writer.written()
            if size := file.file.tell():
                return f"{size:,} bytes of an incomplete file were written before the error"
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for file in self._files:
            if file.abandon() and file.temporary is not None:
                self._remaining.append(file.temporary)
        for path in self._made:
            # The directory is kept if others have created files in it.
            with contextlib.suppress(OSError):
                path.rmdir()


def _stream(path: Path) -> Any:
    """Opens a pipe, a device or a descriptor. Returns None for other paths."""
    if found := _DESCRIPTOR.fullmatch(str(path)):
        # Opening it again would write a redirected file from its beginning.
        number = {"out": 1, "err": 2}.get(found[1]) or int(found[2])
        return _Stream(os.fdopen(os.dup(number), "wb", buffering=0))
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return _Stream(os.fdopen(os.open(path, os.O_WRONLY), "wb", buffering=0))


_DESCRIPTOR = re.compile(r"/dev/std(out|err)|(?:/dev|/proc/self)/fd/([0-9]{1,6})")


def unbuffered(file: Any) -> Any:
    """The file below a buffer. Its writes show the written bytes."""
    file.flush()
    return getattr(file, "raw", file)


class _Stream(io.RawIOBase):
    """A pipe with a position, which Parquet and Arrow writers need."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            done = _write_some(self._file, rest)
            self._at += done
            rest = rest[done:]
        return size

    def close(self) -> None:
        try:
            self._file.close()
        finally:
            super().close()


def file_name(batch: Batch, version: int, form: str) -> str:
    """Returns `schema.table.parquet`, or `schema.table.2.parquet` for its next version.

    Names are as in the database, except `%`, `~`, `.` and characters that file names
    cannot or should not contain: each of their bytes becomes `%` and two hexadecimal digits. A
    name that is too long ends in `~` and a hash.
    """
    name = f"{_quoted(batch.schema_name)}.{_quoted(batch.table_name)}"
    end = (f".{version}" if version > 1 else "") + SUFFIXES[form]
    whole = name.encode()
    if len(whole) + len(end) > _LONGEST:
        digest = "~" + hashlib.sha256(whole).hexdigest()[:16]
        room = _LONGEST - len(digest) - len(end)
        name = whole[:room].decode(errors="ignore") + digest
    return name + end


def is_file_name(name: str) -> bool:
    """Whether `file_name` returns such names."""
    return _FILE_NAME.fullmatch(name) is not None


#: Maximum bytes of a file name.
_LONGEST = 255
_FILE_NAME = re.compile(
    rf"[^.]*\.[^.]+(\.[0-9]+)?({'|'.join(map(re.escape, SUFFIXES.values()))})",
    re.DOTALL,
)


def _quoted(name: str) -> str:
    return "".join(
        character
        if character.isprintable() and character not in _NOT_IN_NAMES
        else "".join(
            f"%{byte:02X}" for byte in character.encode(errors="surrogatepass")
        )
        for character in name
    )


# The last ones are invalid only on Windows, but files may be copied there.
_NOT_IN_NAMES = '%~./\\:*?"<>|'


def allow_open_files() -> None:
    """Raises the limit of open files to the maximum that the process may set."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS reports no limit, but allows fewer files.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Columns:
    """A Parquet or Arrow file. Combines small batches: a stream may switch between tables frequently."""

    def __init__(self, writer: Any, schema: pa.Schema, files: Files) -> None:
        self._writer = writer
        self._metadata = schema.metadata
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
        """Writes the batches that are held."""
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        size, self._batches, self._rows, self._bytes = self._bytes, [], 0, 0
        self._files.gathered(-size)
        # The schema must equal the file's schema, including metadata.
        table = table.replace_schema_metadata(self._metadata)
        for records in table.combine_chunks().to_batches():
            self._writer.write_batch(records)

    def close(self) -> None:
        self.flush()
        self._writer.close()

    def abandon(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.close()
        if hasattr(self._writer, "is_open"):
            # Otherwise, Parquet's would write the file's end when it is garbage-collected.
            self._writer.is_open = False


def _parquet(file: Any, path: Path, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    try:
        return pq.ParquetWriter(file, schema, compression="zstd")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise _unsupported(path, schema, error) from error


def _unsupported(path: Path, schema: pa.Schema, error: Exception) -> SchemaError:
    """The error of a schema that Parquet does not have. Names the first such column."""
    import pyarrow.parquet as pq

    for field in schema:
        try:
            pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            names = [(schema.metadata or {}).get(key) for key in _TABLE]
            table = ".".join(name.decode() for name in names if name)
            column = f"{table}.{field.name}" if table else field.name
            text = (
                f"{column}: {path.name} cannot hold {field.type}, because Parquet has no "
                "such type"
            )
            remedies = (
                Remedy("types", column, "string"),
                Remedy("profile", None, "spark"),
            )
            advice = "; write an Arrow file, --to FILE.arrow, or choose "
            return SchemaError(
                text, table=table, column=field.name, remedies=remedies, advice=advice
            )
    return SchemaError(f"{path.name}: Parquet does not support the schema ({error})")


_TABLE = (b"pg.schema", b"pg.table")


def _write_some(file: Any, data: memoryview) -> int:
    """Writes a part of the data, and returns its size."""
    done: int | None = file.write(data)
    if done is None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return done


class Json:
    """JSON lines into a binary file. Counts the lines that the file has taken."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._held: list[bytes] = []
        self._size = 0
        self._rows = 0
        self._is_cut = False

    def write(self, batch: Any) -> None:
        """Adds a line for each row of a `walrow.Batch`."""
        for line in jsonlines.lines(batch):
            data = line.encode()
            self._held.append(data)
            self._size += len(data)
            if self._size >= _BLOCK:
                self._flush()
        self._flush()

    def _flush(self) -> None:
        rest = memoryview(b"".join(self._held))
        self._held, self._size = [], 0
        while rest:
            before = self._position()
            try:
                done = _write_some(self._file, rest)
            except OSError:
                # A stream may have taken a part before it failed.
                self._add(rest[: self._position() - before])
                raise
            self._add(rest[:done])
            rest = rest[done:]

    def _position(self) -> int:
        return self._file.tell() if isinstance(self._file, _Stream) else 0

    def _add(self, data: memoryview) -> None:
        if data:
            # A line contains no other line feed.
            self._rows += bytes(data).count(b"\n")
            self._is_cut = bytes(data[-1:]) != b"\n"

    def written(self) -> str:
        """Says what the file has taken."""
        were = "was" if self._rows == 1 else "were"
        rows = f"{counted(self._rows, 'row')} {were} written before the error"
        return rows + (", and a part of the next one" if self._is_cut else "")

    def close(self) -> None:
        """Leaves the file to its owner."""
        self._file.flush()

    def abandon(self) -> None:
        """Leaves the file to its owner."""


#: Bytes of lines that are written together.
_BLOCK = 64 << 10

Writer: TypeAlias = _Columns | Json
_OPENERS: dict[str, Callable[[Any, Path, pa.Schema], Any]] = {
    "parquet": _parquet,
    "arrow": lambda file, _, schema: pa.ipc.new_file(file, schema),
}
