"""Writes captures into a log."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._amounts import size
from walrow._calls import explained
from walrow._core import Catalog, LogWriter
from walrow._sources.chunks import Chunks
from walrow._sources.logs import directory_of
from walrow.errors import LogError, UnfinishedError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from walrow._lsn import Lsn
    from walrow.typing import Absence, Framing, Size, Source

__all__ = ["Sealed", "seal"]


class Sealed(NamedTuple):
    """What `seal` has written.

    Attributes:
        position: Up to where the log has everything.
        transactions: Transactions that were written.
        rows: Rows that were inserted, updated or deleted in them.
        repeated: Transactions that the log had already.
        segments: Segments that were written.
    """

    position: Lsn
    transactions: int
    rows: int
    repeated: int
    segments: int


@explained
def seal(
    source: Source,
    *,
    log: str | os.PathLike[str],
    catalog: Catalog | str | os.PathLike[str] | None = None,
    framing: Framing | None = None,
    unfinished: Absence = "error",
    segment_bytes: Size = "64MiB",
    compression_level: int = 1,
    spool_memory: Size = "64MiB",
    spool_directory: str | os.PathLike[str] | None = None,
    group_access: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Sealed:
    """Writes the committed transactions of a capture to a log.

    Transactions that end at or before the log's end are skipped and counted: a later
    capture of the same slot may repeat them. So a log belongs to one server. A capture
    does not contain which one, so this is not checked.

    >>> import tempfile, walrow
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = walrow.seal("tests/data/18/rows.text.wire", log=folder)
    ...     again = walrow.seal("tests/data/18/rows.text.wire", log=folder)
    >>> first.transactions, first.rows, again.transactions, again.repeated
    (7, 15, 0, 7)

    Args:
        source: As in `walrow.read`.
        log: The log's directory. It is created if necessary, for its owner only.
        catalog: The definitions of types and tables, which the log keeps.
        framing: As in `walrow.read`.
        unfinished: The policy for a source that ends inside a frame or a transaction:
            `"error"`, raised after all complete transactions are in the log, or
            `"ignore"`.
        segment_bytes: A segment ends at this size of the stream: bytes, or a text such
            as `"64MiB"`.
        compression_level: The level of zstd, up to 22; levels below 0 are faster. 0 stores the
            stream as it is.
        spool_memory: As in `walrow.read`.
        spool_directory: As in `walrow.read`.
        group_access: Whether the owner's group may read the log.
        progress: Is called with the number of bytes of each block of a file.

    Raises:
        LogError: The log cannot be written, another process writes to it, or a later capture is in
            it that this one comes before (`code` "out_of_order").
        DecodeError: Bytes do not follow the protocol. All transactions before are in the
            log.
        UnfinishedError: The source is not complete.
        OptionError: The options are invalid, or the source is a log.
    """
    directory = directory_of(log)
    found = catalog
    if found is not None and not isinstance(found, Catalog):
        found = Catalog.from_file(found)
    with closing(
        Chunks(source, framing=framing, unfinished=unfinished, progress=progress)
    ) as chunks:
        framing = chunks.begin()
        writer = LogWriter(
            directory,
            segment_bytes=size(segment_bytes, "segment_bytes"),
            level=_level(compression_level) or None,
            spool_memory=size(spool_memory, "spool_memory"),
            spool_directory=spool_directory,
            group_access=group_access,
            framing=framing,
            syncs=False,
            captures=True,
        )
        with closing(writer):
            return _seal(chunks, writer, found, unfinished)


def _seal(
    chunks: Chunks, writer: LogWriter, catalog: Catalog | None, unfinished: Absence
) -> Sealed:
    if writer.source["slot"] is not None:
        text = "the log belongs to a receiver: write captures to another one"
        raise LogError(text, code="other_source")
    if catalog is not None:
        writer.extend_catalog(catalog)
    try:
        for chunk in chunks:
            # A row of a slot's function is a chunk, too.
            writer.append(chunk)
            if writer.is_full:
                writer.publish()
            else:
                writer.fill()
    except BaseException:
        # All complete transactions are kept. The first error describes the problem.
        with suppress(LogError, OSError):
            _publish(writer)
        raise
    _publish(writer)
    if writer.unfinished and unfinished == "error":
        text = "the source ends inside a frame or a transaction"
        raise UnfinishedError(text, position=writer.position)
    counts = writer.counts
    return Sealed(
        writer.position,
        counts["transactions"],
        counts["rows"],
        counts["repeated"],
        counts["segments"],
    )


def _publish(writer: LogWriter) -> None:
    # Published segments are durable, so only prepared transactions are left to sync.
    writer.publish()
    writer.sync()


def _level(level: Any) -> int:
    """A level of zstd."""
    if isinstance(level, int):
        return level
    text = f"compression_level must be an integer up to 22, not {type(level).__name__}"
    raise TypeError(text)
