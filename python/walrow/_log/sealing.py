"""Writes captures into a log."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import KW_ONLY
from typing import Literal

from walrow._core import Catalog, LogWriter
from walrow._log.writer_options import WriterOptions
from walrow._lsn import Lsn
from walrow._options import ANY, Option, Value, options, takes
from walrow._results import Result, result
from walrow._sources.chunks import Chunks
from walrow.errors import LogError, UnfinishedError
from walrow.typing import Source


@result
class Sealed(Result):
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


@options
class SealOptions(WriterOptions):
    """The options of `walrow.seal`."""

    source: Value[Source] = Option("As in `walrow.read`.", ANY)
    _: KW_ONLY
    catalog: Value[Catalog | str | os.PathLike[str] | None] = Option(
        "The definitions of types and tables, which the log keeps, such as a file of `walrow catalog`.",
        default=None,
    )
    unfinished: Value[Literal["error", "ignore"]] = Option(
        'The policy for a source that ends inside a frame or a transaction: `"error"`, raised after '
        'all complete transactions are in the log, or `"ignore"`.',
        default="error",
    )
    progress: Value[Callable[[int], None] | None] = Option(
        "Is called with the number of bytes of each block of a file.", default=None
    )


@takes(SealOptions)
def seal(options: SealOptions) -> Sealed:
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
        options: As in the signature.

    Raises:
        LogError: The log cannot be written, another process writes to it, or a later capture is in
            it that this one comes before (`code` "out_of_order").
        DecodeError: Bytes do not follow the protocol. All transactions before are in the
            log.
        UnfinishedError: The source is not complete.
        OptionError: The options are invalid, or the source is a log.
    """
    found = options.catalog
    if found is not None and not isinstance(found, Catalog):
        found = Catalog.from_file(found)
    chunks = Chunks(
        options.source,
        unfinished=options.unfinished,
        progress=options.progress,
    )
    with closing(chunks):
        framing = chunks.begin()
        try:
            writer = LogWriter(
                options.log,
                **options.writer(),
                framing=framing,
                syncs=False,
                captures=True,
            )
        except LogError as error:
            if error.code != "not_a_log":
                raise
            text = (
                f"{options.log} has files, and no log: choose an empty or new directory"
            )
            raise LogError(text, code="not_a_log") from None
        with closing(writer):
            return _seal(chunks, writer, found, options.unfinished)


def _seal(
    chunks: Chunks,
    writer: LogWriter,
    catalog: Catalog | None,
    unfinished: Literal["error", "ignore"],
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
