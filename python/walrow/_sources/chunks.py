"""The sources of a stream: files, logs, directories, URLs, buffers, iterables of chunks.

Several files are read as one stream, in order. gzip and zstd are decompressed. The
framing is recognised from the first bytes or the first chunk.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard, TypeVar

from walrow._options import in_file_system
from walrow._secrets import is_conninfo, without_credentials
from walrow._sources import compression
from walrow._sources.formats import HEAD_BYTES, framing_of_bytes, framing_of_chunk
from walrow._sources.logs import find_log
from walrow._sources.urls import fsspec_for, is_url, private
from walrow.errors import OptionError, UnfinishedError
from walrow.typing import Framing, Source

T = TypeVar("T")

#: Files are read in blocks of this many bytes. Large blocks keep most transactions in one
#: piece, but the memory of larger ones would be new each time. Memory stays bounded, unlike
#: with a mapped file.
BLOCK_BYTES = 512 << 10
#: A larger number of threads is a mistake.
MOST_THREADS = 64


class Chunks:
    """The chunks of a source: an iterator. `close` closes the files that it opened.

    The first file is opened immediately, and all local files must exist.

    >>> chunks = Chunks("tests/data/18/rows.text.wire")
    >>> len(next(chunks)), chunks.framing
    (1852, 'wire')

    Args:
        source: As in `walrow.read`.
        unfinished: With `"ignore"`, compressed data may be truncated at the end of the
            source.
        progress: Is called with the number of bytes of each block of a file, before
            decompression.
        part: The part of a log that is read: `walrow._sources.logs.part_of`.
        threads: As in `walrow.read`.

    Raises:
        OptionError: The source is not one, such as a connection string. Or `threads` is not a
            number from 1 to 64, or it is more than 1 and the source is not a log.
        OSError: A file does not exist or cannot be opened.
        TypeError: The source has an unsupported type.
        DecodeError: While iterating, if the source has another format, or compressed
            data is damaged.
    """

    def __init__(
        self,
        source: Source,
        *,
        unfinished: Literal["error", "ignore"] | None = None,
        progress: Callable[[int], None] | None = None,
        part: Mapping[str, Any] | None = None,
        threads: int = 1,
    ) -> None:
        if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
            text = f"threads must be a number from 1 to {MOST_THREADS}, not {threads!r}"
            raise OptionError(text)
        _refuse(source)
        # Apart, so that a source that is not used any more is closed immediately.
        self._state = state = _State(
            progress, part, threads, may_be_truncated=unfinished == "ignore"
        )
        if _is_place(source):
            # Each of several logs would have its own thread from the beginning.
            state.part = {**(part or {}), "ahead": threads > 1}
            self._items = _of_files([source], state)
        elif _are_places(source):
            self._items = _of_files(source, state)
        elif threads > 1:
            raise _no_log(threads)
        elif _is_buffer(source):
            state.size.read, state.size.total = 0, memoryview(source).nbytes  # type: ignore[arg-type]
            self._items = _of_bytes(_counted(_cut(source), state), state)
        elif _is_row(source):
            self._items = _of_chunks(iter([source]), state)
        else:
            try:
                # Not closed here: the creator of an iterator closes it.
                items = iter(source)  # type: ignore[arg-type]
            except TypeError:
                raise TypeError(
                    "a source is a path, a URL, a file, bytes, or an iterable of chunks or "
                    f"rows, not {type(source).__name__}"
                ) from None
            self._items = _of_chunks(items, state)

    def __iter__(self) -> Iterator[Any]:
        # Not self: there may be a chunk for each message.
        return self._items

    def __next__(self) -> Any:
        return next(self._items)

    def begin(self) -> Framing:
        """Reads the first chunk, which decides the framing, and returns the framing.

        The chunk is still the first one of the iterator.
        """
        first = list(itertools.islice(self._items, 1))
        self._items = itertools.chain(first, self._items)
        return self._state.framing or "wire"

    def close(self) -> None:
        """Closes the files. A file object of the caller stays open."""
        if self._state.files is not None:
            self._state.files.close()

    @property
    def framing(self) -> Framing | None:
        """The framing, recognised from the first chunk. None before that chunk."""
        return self._state.framing

    @property
    def bytes_read(self) -> int | None:
        """Bytes read so far, before decompression. None for chunks and rows."""
        return self._state.size.read

    @property
    def bytes_total(self) -> int | None:
        """All bytes, before decompression. None unless all files are local."""
        return self._state.size.total

    @property
    def name(self) -> str:
        """The name of the current file, without credentials."""
        return self._state.name

    @property
    def truncated(self) -> bool:
        """Whether compressed data was truncated at the end, and `unfinished` ignored it."""
        return self._state.truncated

    @property
    def place(self) -> str | None:
        """The current file if there are several, for errors. None after the last one."""
        files = self._state.files
        if files is None or files.ended or len(files.urls) <= 1:
            return None
        return f"in {files.name}"

    @property
    def files(self) -> list[str]:
        """The paths and URLs of all files, except open ones."""
        return [] if self._state.files is None else self._state.files.urls


class _State:
    def __init__(
        self,
        progress: Callable[[int], None] | None,
        part: Mapping[str, Any] | None,
        threads: int,
        *,
        may_be_truncated: bool,
    ) -> None:
        self.framing: Framing | None = None
        self.part = part
        self.threads = threads
        self.size = _Size(progress)
        self.may_be_truncated = may_be_truncated
        self.truncated = False
        self.files: _Files | None = None

    @property
    def name(self) -> str:
        return "the source" if self.files is None else self.files.name


class _Size:
    """Bytes of the source, before decompression. Apart, so that the state is in no cycle."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self._progress = progress
        self.read: int | None = None
        self.total: int | None = None

    def advance(self, count: int) -> None:
        """Counts the bytes of a block."""
        self.read = (self.read or 0) + count
        if self._progress is not None:
            self._progress(count)


def _of_files(sources: Iterable[Any], state: _State) -> Iterator[Any]:
    """Opens the first file. Returns the blocks of all of them."""
    places: list[_Place] = []
    for source in sources:
        if not _is_place(source):
            text = f"a list of files contains another source: {type(source).__name__}"
            raise TypeError(text)
        places += _places(source, state.part)
    if state.threads > 1 and not all(place.is_log for place in places):
        raise _no_log(state.threads)
    state.files = _Files(places, state.size.advance)
    sizes = [place.size for place in places]
    state.size.read = 0
    state.size.total = None if None in sizes else sum(size or 0 for size in sizes)
    return _recognised(_ended(iter(state.files), state), state)


def _no_log(threads: int) -> OptionError:
    return OptionError(
        f"threads={threads} needs a log, and the source is not a log: one thread decodes a "
        "capture. Leave threads out, or make a log of the capture with walrow.seal"
    )


def _cut(source: Any) -> Iterator[Any]:
    """The blocks of a buffer. The core copies all buffers but bytes."""
    if isinstance(source, bytes):
        yield source
        return
    view = memoryview(source).cast("B")
    for start in range(0, len(view), BLOCK_BYTES):
        yield view[start : start + BLOCK_BYTES]


def _counted(blocks: Iterable[Any], state: _State) -> Iterator[Any]:
    for block in blocks:
        state.size.advance(len(block))
        yield block


def _of_bytes(blocks: Iterable[Any], state: _State) -> Iterator[Any]:
    return _recognised(_ended(_plain(iter(blocks), state.name), state), state)


def _ended(blocks: Iterator[Any], state: _State) -> Iterator[Any]:
    """The blocks up to truncated compressed data, if this may be the end of the source."""
    try:
        yield from blocks
    except UnfinishedError:
        is_last = state.files is None or state.files.is_last
        if not (is_last and state.may_be_truncated):
            raise
        state.truncated = True


def _of_chunks(items: Iterator[Any], state: _State) -> Iterator[Any]:
    # An empty chunk does not decide, and any number of them may come first.
    empty, first = 0, b""
    for first in items:
        if not _is_buffer(first) or _head(first):
            items = itertools.chain([first], items)
            break
        empty += 1
    items = itertools.chain(itertools.repeat(b"", empty), items)
    if _is_place(first):
        yield from _of_files(items, state)
        return
    if not _is_buffer(first):
        _check_row(first)
        state.framing = "message"
    else:
        state.framing = framing_of_chunk(bytes(first))
    yield from items if state.framing in _CHUNKED else _of_bytes(items, state)


# In these framings, a chunk is a payload or a message.
_CHUNKED = {"copydata", "message"}


def _recognised(blocks: Iterator[Any], state: _State) -> Iterator[Any]:
    def decide(head: bytes, ended: bool) -> Framing | None:  # noqa: FBT001
        return framing_of_bytes(head, ended=ended, name=state.name)

    found: Framing | None
    found, blocks = _begun(blocks, decide)
    # An empty capture is whole, and has no rows.
    state.framing = found or "wire"
    yield from blocks


class _Place(NamedTuple):
    """A file that is not open.

    Attributes:
        url: Its path or URL, which errors may only show without credentials.
        open: Opens it, as a context manager.
        is_open: Whether the caller opened it.
        size: Its size in bytes. None if it is not a local file.
        is_log: Whether it is a log.
    """

    url: str
    open: Callable[[], Any]
    is_open: bool = False
    size: int | None = None
    is_log: bool = False


def _places(source: Any, part: Mapping[str, Any] | None = None) -> list[_Place]:
    """The files of a path, a directory, a pattern, a URL of these, or an open file.

    A log is one file.

    A directory has all files in it and in its subdirectories, except those whose names
    begin with `.` or `_`, as in Spark. Files are ordered by name, compared part by part
    and character by character.

    Raises:
        OSError: A local file does not exist, or a directory or a pattern has no files.
    """
    if _is_file(source):
        return [_Place("the file", partial(contextlib.nullcontext, source), True)]
    _refuse(source)
    path = os.fsdecode(source)
    log = find_log(source)
    if log is not None:
        file = log.open(**(part or {}))
        return [_Place(path, lambda: file, size=file.size, is_log=True)]
    if is_url(path):
        return _remote(path)
    found = [path]
    if os.path.isdir(path):  # noqa: PTH112 - pathlib refuses some paths
        found = sorted(_in_directory(path, frozenset()), key=_parts)
    elif has_magic(path) and not os.path.lexists(path):
        matches = glob(path, recursive=True)  # noqa: PTH207
        found = sorted((it for it in matches if not os.path.isdir(it)), key=_parts)  # noqa: PTH112
    if not found:
        raise FileNotFoundError(f"{path}: there are no files")
    try:
        sizes = [_size(os.stat(each)) for each in found]  # noqa: PTH116
    except FileNotFoundError as error:
        if not os.path.isabs(path):  # noqa: PTH117
            error.strerror = f"No such file or directory below {Path.cwd()}"
        raise
    return [
        _Place(each, partial(open, each, "rb", buffering=0), size=size)
        for each, size in zip(found, sizes, strict=True)
    ]


def _size(found: os.stat_result) -> int | None:
    """The size of a regular file. A pipe has no size."""
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def paths(source: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Returns the files of a path, a directory, a pattern or a URL, and their names.

    Names show no credentials. Raises as `Chunks`.
    """
    return [(it.url, without_credentials(it.url)) for it in _places(source)]


def _parts(path: str) -> tuple[str, ...]:
    return Path(path).parts


def _in_directory(path: str, above: frozenset[str]) -> Iterator[str]:
    real = os.path.realpath(path)
    if real in above:
        raise OSError(f"{path}: a link leads back to a directory that contains it")
    with os.scandir(path) as entries:
        for entry in entries:
            if _is_hidden(entry.name):
                continue
            if entry.is_dir():
                yield from _in_directory(entry.path, above | {real})
            else:
                yield entry.path


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _remote(url: str) -> list[_Place]:
    """The files of a URL. `?` and `[` are not patterns: queries and IPv6 have them."""
    shown = without_credentials(url)
    core = fsspec_for(shown).core
    is_pattern = "*" in url and not url.startswith(("http://", "https://"))
    if not is_pattern and not url.endswith("/"):
        return [_Place(url, partial(core.open, url, "rb"))]
    with private(url):
        system, path = core.url_to_fs(url)
        if is_pattern:
            found = [each for each in system.glob(path) if not system.isdir(each)]
        else:
            found = [
                each
                for each in system.find(path)
                if not any(map(_is_hidden, each.removeprefix(path).split("/")))
            ]
    if not found:
        raise FileNotFoundError(f"{shown}: there are no files")
    scheme = shown.partition("://")[0]
    return [
        _Place(f"{scheme}://{each.lstrip('/')}", partial(system.open, each, "rb"))
        for each in sorted(found, key=lambda each: each.split("/"))
    ]


def _plain(blocks: Iterator[Any], name: str) -> Iterator[Any]:
    """The blocks, decompressed if they begin like compressed data."""

    def decide(head: bytes, ended: bool) -> str | None:  # noqa: FBT001
        found = compression.find(head)
        return found or ("none" if ended or len(head) >= _MAGIC_BYTES else None)

    found, blocks = _begun(blocks, decide)
    if found in {"gzip", "zstd"}:
        yield from compression.decompressed(blocks, found, name)
    else:
        yield from blocks


def _begun(
    blocks: Iterator[Any], decide: Callable[[bytes, bool], T | None]
) -> tuple[T | None, Iterator[Any]]:
    """Takes blocks until their first bytes decide. Returns the result and all blocks.

    An exception of the source is raised after the blocks before it, as without this.
    """
    taken: list[Any] = []
    head = b""
    while True:
        try:
            block = next(blocks, None)
        except Exception as error:
            if not taken:
                raise
            blocks = _raised(error)
            break
        if block is None:
            break
        taken.append(block)
        head += _head(block)[: HEAD_BYTES - len(head)]
        if head and (found := decide(head, False)) is not None:
            return found, itertools.chain(taken, blocks)
    found = decide(head, True) if head else None
    return found, itertools.chain(taken, blocks)


def _raised(error: Exception) -> Iterator[Any]:
    yield from ()
    raise error


# The longest magic number of a compression.
_MAGIC_BYTES = 4


class _Files:
    """The blocks of several files. Opens one after the other, the first one immediately."""

    name = ""
    ended = False
    is_last = False

    def __init__(
        self, places: list[_Place], progress: Callable[[int], None] | None
    ) -> None:
        self._progress = progress
        self._stack = contextlib.ExitStack()
        self.urls = [place.url for place in places if not place.is_open]
        self._rest = list(reversed(places))
        self._blocks = self._next()

    def __iter__(self) -> Iterator[Any]:
        while self._blocks is not None:
            yield from self._blocks
            self.close()
            self._blocks = self._next()

    def _next(self) -> Iterator[Any] | None:
        if not self._rest:
            self.ended = True
            return None
        place = self._rest.pop()
        self.is_last = not self._rest
        self.name = without_credentials(place.url)
        with private(place.url):
            file = self._stack.enter_context(place.open())
        return _plain(_blocks(file, place.url, self._progress), self.name)

    def close(self) -> None:
        self._stack.close()

    def __del__(self) -> None:
        self.close()


def _blocks(
    file: Any, url: str, progress: Callable[[int], None] | None
) -> Iterator[Any]:
    while True:
        with private(url):
            block = _block(file)
        if not block:
            return
        if progress is not None:
            progress(len(block))
        yield block


def _block(file: Any) -> Any:
    if hasattr(file, "read"):
        block = file.read(BLOCK_BYTES)
    else:
        buffer = bytearray(BLOCK_BYTES)
        size = file.readinto(buffer)
        block = None if size is None else memoryview(buffer)[:size]
    if block is None:
        text = "the source has no data available: open it in blocking mode"
        raise BlockingIOError(text)
    if isinstance(block, str):
        text = "expected bytes-like chunks, not str; open files in binary mode"
        raise TypeError(text)
    return block


def _is_place(source: Any) -> bool:
    """Whether it is a path, a URL or a file."""
    return isinstance(source, str | os.PathLike) or _is_file(source)


def _are_places(source: Any) -> TypeGuard[Sequence[Any]]:
    """Whether it is a sequence of paths, URLs or files."""
    if _is_buffer(source) or _is_row(source):
        return False
    return isinstance(source, Sequence) and bool(source) and _is_place(source[0])


def _is_file(source: Any) -> bool:
    # A log is a path, and has the function `read`.
    is_path = isinstance(source, os.PathLike)
    return not is_path and (hasattr(source, "read") or hasattr(source, "readinto"))


def _is_buffer(source: Any) -> bool:
    try:
        memoryview(source)
    except TypeError:
        return False
    return True


def _head(block: Any) -> bytes:
    if not _is_buffer(block):
        raise TypeError(f"expected bytes-like chunks, not {type(block).__name__}")
    return bytes(memoryview(block).cast("B")[:HEAD_BYTES])


def _is_row(source: Any) -> bool:
    """Whether it is one row of `pg_logical_slot_get_binary_changes`, not several."""
    if isinstance(source, Mapping):
        return True
    return (
        isinstance(source, tuple)
        and len(source) == _ROW
        and not _is_buffer(source[0])
        and _is_buffer(source[2])
    )


def _check_row(row: Any) -> None:
    """Refuses a first row that cannot be one of `pg_logical_slot_get_binary_changes`."""
    data: Any = None
    with contextlib.suppress(TypeError, KeyError, IndexError):
        data = row["data"] if hasattr(row, "keys") else row[-1]
    if _is_buffer(data):
        return
    if isinstance(data, str):
        raise OptionError(
            "the rows contain text, as pg_logical_slot_get_changes returns it: use "
            "pg_logical_slot_get_binary_changes with the plugin pgoutput"
        )
    if hasattr(row, "read") or not hasattr(row, "__getitem__"):
        raise TypeError(f"expected bytes-like chunks, not {type(row).__name__}")
    raise TypeError(
        "the rows must have the columns of pg_logical_slot_get_binary_changes: lsn, xid, "
        "data; or only data"
    )


_ROW = 3


def _refuse(source: Any) -> None:
    """Refuses what people may take for a source. Never shows the source: it has secrets."""
    if isinstance(source, str | os.PathLike):
        if is_conninfo(os.fsdecode(source), or_url=True):
            text = f"the source is a connection string, and no file: {_CONNECT}"
            raise OptionError(text)
        in_file_system(os.fspath(source), "source")
    if hasattr(source, "read_message") or hasattr(source, "consume_stream"):
        raise OptionError(
            "a replication cursor of psycopg2 is not a source: pass its messages, as they "
            'come, to walrow.Decoder(framing="message").feed([message.payload])'
        )
    if hasattr(source, "__await__") or hasattr(source, "__aiter__"):
        raise OptionError(
            f"{type(source).__name__} is asynchronous: pass the rows of `await "
            "cursor.fetchall()`, or feed a walrow.Decoder in an `async for` loop"
        )
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__dataframe__"):
        raise OptionError(
            f"the source is a table, {type(source).__name__}: pass its rows, or the values of "
            'its column with the data, such as table["data"].to_pylist()'
        )
    if hasattr(source, "cursor") and not hasattr(source, "__iter__"):
        is_async = "async" in type(source).__name__.lower()
        kind = "asynchronous connection" if is_async else "connection"
        raise OptionError(f"the source is a database {kind}: {_CONNECT}")


_CONNECT = (
    "walrow does not connect by itself. Write a capture with pg_recvlogical --plugin "
    'pgoutput, or pass the rows of conn.execute("SELECT * FROM '
    "pg_logical_slot_peek_binary_changes('SLOT', NULL, NULL, 'proto_version', '1', "
    "'publication_names', 'PUBLICATION')\")"
)
