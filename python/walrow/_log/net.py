"""The net changes of a table of a log between two LSNs, for targets of any kind: docs/net.md."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import NamedTuple, NoReturn, Self

from walrow._core import Batch, LogRows, NetTally, Reader, Rows, Schema
from walrow._log.items import SourceIdentity
from walrow._log.net_refusals import Range, as_refusal
from walrow._lsn import Lsn
from walrow._read.around import AroundReader
from walrow._results import Result, counted, result
from walrow.errors import LogError, OptionError, SchemaError

#: The metadata columns of a net. Others describe a transaction, which a net lacks.
METADATA = ("change_type", "seq", "key_only", "unsent")
EVERY_METADATA = (*METADATA, "commit_lsn", "commit_timestamp", "xid")


@result
class NetBarrier(Result):
    """The last load or truncate of a range: the rows that were there before are gone.

    Attributes:
        lsn: The LSN of its commit.
        seq: Its place in the transaction.
        is_load: Whether it is a load, which has all rows of the table.
    """

    lsn: Lsn
    seq: int
    is_load: bool


class Checkpoint(NamedTuple):
    """The position of a target, with the log, the table and the key of its rows."""

    source: SourceIdentity
    oid: int
    keys: tuple[str, ...]
    end: Lsn

    def to_json(self) -> str:
        """Writes it."""
        found = self._asdict() | {"source": self.source.to_dict(), "end": str(self.end)}
        return json.dumps(found)

    @classmethod
    def of(cls, start: object) -> Checkpoint | None:
        """Reads one. None for an LSN. A damaged one is an error."""
        if not isinstance(start, str) or not start.startswith("{"):
            return None
        try:
            found = json.loads(start)
            names = ("system_identifier", "database", "slot")
            source = SourceIdentity(*map(found["source"].get, names))
            keys = tuple(map(str, found["keys"]))
            return cls(source, int(found["oid"]), keys, Lsn(found["end"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            text = "start begins with {, and is not a checkpoint of Log.net"
            raise OptionError(text) from None


class Net(AroundReader):
    """The changes of a table between two LSNs, with one row for each key. See docs/net.md.

    `walrow.Log.net` returns it. It is an iterator over batches and an Arrow stream, and can be
    read once. As a context manager, it frees its rows at the end.

    The first batch reads the log, and so does each attribute that describes the changes:
    `events`, `rows`, `barrier`, `clears`, `kept`, `heads`, `never_sent`, `lacking`, `partial`,
    `columns` and `schema` are known before the first batch.

    Attributes:
        table: The table, as `schema.name`.
        oid: Its OID.
        start: Up to where the target has all changes before.
        end: Up to where it has them when these are applied, too.
        keys: The columns that identify a row.
        versions: The definitions of the table in the log, in their order. Empty if all changes of
            the table were removed from the log, and the target has them.
        checkpoint: The text to store in the target together with the rows. It is the next
            `start`, which is compared with the log, the table and its key.
    """

    def __init__(
        self,
        chunks: Chunks,
        reader: Reader,
        span: Range,
        checkpoint: Checkpoint,
        others: frozenset[str],
    ) -> None:
        self._chunks = chunks
        self._reader = reader
        self._others = others
        self.table = span.table.name
        self.oid = span.table.oid
        self.start, self.end = span.start, span.end
        self.keys = checkpoint.keys
        self.checkpoint = checkpoint.to_json()
        self.versions = span.table.versions

    def __repr__(self) -> str:
        found = self._chunks.known
        what = (
            "not read"
            if found is None
            else f"{counted(found.events, 'change')}, {counted(found.rows, 'row')}"
        )
        return (
            f"<walrow._log.net.Net of {self.table}, {self.start} to {self.end}: {what}>"
        )

    # ------------------------------------------------------------------ the tally

    @property
    def events(self) -> int:
        """The number of changes of rows that were read."""
        return self._chunks.tally.events

    @property
    def rows(self) -> int:
        """The number of keys that they changed."""
        return self._chunks.tally.rows

    @property
    def barrier(self) -> NetBarrier | None:
        """The last load or truncate in the range. None without one."""
        found = self._chunks.tally.barrier
        return None if found is None else NetBarrier(*found)

    @property
    def clears(self) -> bool:
        """Whether the first row is a `truncate`: the rows of the target go."""
        return self._chunks.tally.clears

    @property
    def heads(self) -> int:
        """The number of rows with an old key: the target has their values there."""
        return self._chunks.tally.heads

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns whose values the target must keep, in rows without an old key."""
        return self._chosen(self._chunks.tally.kept)

    @property
    def never_sent(self) -> int:
        """The number of new rows with values that were never sent: they are NULL."""
        return self._chunks.tally.never_sent

    @property
    def lacking(self) -> tuple[str, ...]:
        """The columns of these values."""
        return self._chosen(self._chunks.tally.lacking)

    @property
    def partial(self) -> tuple[str, ...]:
        """The columns that the table did not have all the time: NULL, or kept, before."""
        return self._chosen(self._chunks.tally.partial)

    def _chosen(self, columns: list[str]) -> tuple[str, ...]:
        return tuple(name for name in columns if name not in self._others)

    # ------------------------------------------------------------------ the rows

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        return next(self._reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the rows. No more batches are returned."""
        self._reader.close()

    @property
    def schema(self) -> Schema:
        """The schema of the Arrow stream. Reads the log."""
        return self._reader.schema

    @property
    def columns(self) -> list[str]:
        """The names of the table's own columns. Reads the log. Empty without `versions`."""
        return list(self._chosen(self.schema.names)) if self.versions else []

    @property
    def bytes_read(self) -> int:
        """Bytes of the log's stream that were read."""
        return self._reader.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """Bytes of the log's stream that are read."""
        return self._reader.bytes_total

    def _rows(self) -> Rows | dict[str, Rows | SchemaError]:
        return self._reader._rows()

    def __array__(self, *arguments: object, **options: object) -> NoReturn:
        """Raises `TypeError`: pandas would otherwise make a column of `Batch` objects."""
        self._reader.__array__(*arguments, **options)


class Chunks:
    """The stream of a net, for a decoder, and its tally, which is None before it was read."""

    def __init__(self, rows: LogRows, check: Callable[[], None]) -> None:
        self._rows = rows
        self._check = check
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self.known: NetTally | None = None

    @property
    def tally(self) -> NetTally:
        """The tally. Reads all changes, if they were not read yet."""
        with self._lock:
            if self._failure is not None:
                # Without it, the stream would be one without changes.
                raise self._failure
            if self.known is None:
                try:
                    tally = self._rows.tally
                    self._check()
                except Exception as error:
                    refusal = as_refusal(error) if isinstance(error, LogError) else None
                    self._failure = refusal or error
                    self._rows.close()
                    raise self._failure from None
                self.known = tally
            return self.known

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        # Nothing comes out before it is checked.
        _ = self.tally
        return next(self._rows)

    @property
    def bytes_read(self) -> int:
        """Bytes of the log's stream that were read."""
        return self._rows.bytes_read

    @property
    def bytes_total(self) -> int:
        """Bytes of the log's stream that are read."""
        return self._rows.bytes_total

    def close(self) -> None:
        """Frees the rows."""
        self._rows.close()
