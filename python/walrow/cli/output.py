"""Files that are there when they are complete, and not before."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

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


@dataclass
class _File:
    """A file that is being written.

    Attributes:
        path: Its name.
        temporary: Its name until all files are complete; None of what is no regular file
            and is written as it stands.
    """

    path: Path
    temporary: Path | None
    file: Any
    writer: Writer | None = None

    def end(self) -> None:
        """Writes the end, to the disk where there is one; lets go of the descriptor."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
        if not self.file.closed:
            self.file.flush()
            if self.temporary is not None:
                os.fsync(self.file.fileno())
            self.file.close()

    def abandon(self) -> None:
        if self.temporary is None:
            # First, so that the end which a writer writes does not make it look whole.
            with contextlib.suppress(OSError):
                self.file.close()
        if self.writer is not None:
            self.writer.abandon()
        # On a full disk closing fails too.
        with contextlib.suppress(OSError):
            self.file.close()
        if self.temporary is not None:
            with contextlib.suppress(OSError):
                self.temporary.unlink()


class Files:
    """Files under temporary names that get their own names together, or are removed.

    Pipes and devices have no second name: they are written at once.

    Attributes:
        direct: Whether something was written to a pipe or device, beyond recall.
    """

    def __init__(self) -> None:
        self.direct = False
        self._files: list[_File] = []
        self._made: list[Path] = []
        self._count = 0
        self._held = 0

    def __enter__(self) -> Self:
        return self

    def directory(self, path: Path) -> None:
        """Makes a directory, if need be, that goes again if nothing comes of its files."""
        try:
            path.mkdir()
        except FileExistsError:
            if not path.is_dir():
                raise
        else:
            self._made.append(path)

    def create(self, path: Path, form: str, schema: Any) -> Writer:
        """Begins a file; where the path is a symbolic link, the file that it leads to."""
        try:
            opened = self._open(path)
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                count = sum(file.writer is not None for file in self._files)
                error.strerror = (
                    f"{error.strerror}, those of {count} tables: allow for more "
                    "(ulimit -n), or take one table with --table"
                )
            # Not a temporary one, which says nothing to anyone.
            error.filename = str(path)
            raise
        self._files.append(opened)
        writer: Writer = _WRITERS[form](opened.file, path, schema)
        if form != "json":
            writer = _Gathered(writer, self)
        opened.writer = writer
        return writer

    def _open(self, path: Path) -> _File:
        file = _stream(path)
        if file is not None:
            self.direct = True
            return _File(path, None, file)
        if path.is_symlink():
            path = path.resolve()
        # Not made of the file's name, which may be as long as names can be.
        self._count += 1
        temporary = path.with_name(f".walrow.{os.getpid()}.{self._count}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        return _File(path, temporary, os.fdopen(descriptor, "wb"))

    def gathered(self, size: int) -> None:
        """Counts what writers hold back, and lets them write when it is too much."""
        self._held += size
        if self._held > _MOST_HELD:
            for file in self._files:
                if isinstance(file.writer, _Gathered):
                    file.writer.flush()

    def finish(self, writer: Writer) -> None:
        """Writes a file's end; more of it will not come."""
        for file in self._files:
            if file.writer is writer:
                file.end()

    def commit(self) -> None:
        """Completes all files, then gives them their names."""
        for file in self._files:
            file.end()
        while self._files:
            file = self._files[0]
            if file.temporary is not None:
                file.temporary.replace(file.path)
            del self._files[0]
        self._made.clear()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for file in self._files:
            file.abandon()
        for path in self._made:
            # What others put there meanwhile keeps it.
            with contextlib.suppress(OSError):
                path.rmdir()


def _stream(path: Path) -> Any:
    """Opens what is there and is no regular file: a pipe, a device; or nothing."""
    if found := _DESCRIPTOR.fullmatch(str(path)):
        # Opened anew, a file behind it would be written from its beginning.
        number = {"out": 1, "err": 2}.get(found[1]) or int(found[2])
        return _Stream(os.fdopen(os.dup(number), "wb"))
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return _Stream(os.fdopen(os.open(path, os.O_WRONLY), "wb"))


_DESCRIPTOR = re.compile(r"/dev/std(out|err)|(?:/dev|/proc/self)/fd/([0-9]{1,6})")


class _Stream(io.RawIOBase):
    """A pipe that says how far it is, as Parquet and Arrow want to know."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        count: int = self._file.write(data)
        self._at += count
        return count

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        try:
            self._file.close()
        finally:
            super().close()


def file_name(batch: walrow.Batch, version: int, form: str) -> str:
    """`schema.table.parquet`, `schema.table.2.parquet` for its next version.

    Names are as in the database, but for `%`, `~`, `.` and what a file's name cannot hold
    or should not: these bytes are `%` and two hexadecimal digits. Of a name that is too long
    the end is a `~` and a hash.
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
    """Whether `file_name` makes such names."""
    return _FILE_NAME.fullmatch(name) is not None


#: Bytes of a file's name.
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


# The last of them only on Windows, where files may be copied to.
_NOT_IN_NAMES = '%~./\\:*?"<>|'


def allow_open_files() -> None:
    """Lets the process open as many files as it may."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS says there is no limit and allows less.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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
