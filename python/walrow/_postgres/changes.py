"""Changes of a live server, for a notebook."""

from __future__ import annotations

import functools
import os
import secrets
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import (
    Any,
    Literal,
    NoReturn,
    Self,
    TypeAlias,
    Unpack,
    cast,
    get_type_hints,
)

import psycopg

from walrow._core import Batch, Reader, Schema, is_keepalives
from walrow._lsn import Lsn
from walrow._postgres.catalog import catalog as read_catalog
from walrow._postgres.commands import create_slot
from walrow._postgres.connecting import connect_for_sql, parameters_of
from walrow._postgres.names import check_publication_names
from walrow._postgres.replication import ReplicationStream
from walrow._postgres.session import settings
from walrow._postgres.slot_positions import (
    advance,
    has_other_positions,
    position_of_now,
)
from walrow._postgres.temporary_publication import create_if_missing, drop_if_exists
from walrow._read import schemas
from walrow._read.around import AroundReader
from walrow._read.signatures import with_options
from walrow._sources.logs import start_in
from walrow.errors import ConnectionLostError, OptionError, ReplicationError
from walrow.typing import ChangesOptions, SchemaOptions, TableName

Until: TypeAlias = Literal["now"] | float | None


@with_options(ChangesOptions)
def changes(
    conninfo: str | Mapping[str, Any] = "",
    *,
    publications: str | Sequence[str] | None = None,
    slot: str | None = None,
    until: Until = "now",
    peek: bool = False,
    binary: bool = False,
    origin: Literal["any", "none"] | None = None,
    **options: Unpack[ChangesOptions],
) -> Changes:
    """Returns the changes that a server commits from now on, as they arrive.

    ```python
    with walrow.postgres.changes("dbname=shop", table="orders") as changes:
        ...  # meanwhile, the table changes
        print(changes.to_polars())
    ```

    The slot is temporary, unless you name one: it begins with this call and ends with
    `close`. Rows from before are not included. Creating it waits until all transactions
    that write have ended; after a few seconds, a line on stderr names them.

    Take the batches of an endless iterator often: a server ends a connection that does
    not answer within its `wal_sender_timeout`, 60 s by default, and takes as long to shut
    down. A temporary slot ends with the connection: later changes are lost.

    Args:
        conninfo: A connection string or URL, as for psycopg, or a dictionary of
            connection parameters.
        publications: One publication or several. Default: a new one of the chosen tables,
            `walrow_` and random digits, that `close` drops. This needs the privileges of
            their owner. Each table must have a replica identity, as its updates would
            otherwise fail on the server. From version 18, it publishes stored generated columns.
        slot: A slot for pgoutput that exists. It begins where it was confirmed last, and
            keeps what you do not `confirm`. Needs `publications`.
        until: When the iterator ends: `"now"`, after everything that was committed before
            the first batch is taken; after a number of seconds; or None for never.
        peek: Whether the slot must stay as it is: `confirm` is then refused.
        binary: Whether values come in binary, if their type has a send function. The
            batches are the same.
        origin: `"none"` skips transactions that came to the server by replication. From
            version 16 on.
        **options: The options in the signature are those of `walrow.read`, but for the
            catalog: by default, it is read from the server. With `table`, the schema is
            that of the catalog, and no rows are no error.

    Raises:
        OptionError: The options are invalid or contradict each other.
        SchemaError: The database has no such table, or several of that name.
        SettingError: Something overrides a setting of the session, such as PGTZ.
        ReplicationError: The connection failed, the server refused a command, or somebody
            has had a table locked for too long for its publication.
    """
    if isinstance(conninfo, Mapping):
        given = parameters_of(**conninfo)
    else:
        given = parameters_of(conninfo)
    _check(publications, slot, until, options, peek=peek)
    names = (publications,) if isinstance(publications, str) else publications
    check_publication_names(names or ())
    # A stream has no place for a time.
    start_in(None, options.get("start"))
    # Nothing may have changed.
    options.setdefault("missing_table", "ignore")
    return Changes(
        given,
        publications=names,
        slot=slot,
        until=until,
        peek=peek,
        binary=binary,
        origin=origin,
        options=options,
    )


class Changes(AroundReader):
    """The changes of a live server: an iterator over batches, and a context manager.

    `walrow.postgres.changes` returns it. Like a `walrow.Reader`, it can be read once, and
    with `table` or `envelope`, it is an Arrow stream.

    Attributes:
        slot: The slot.
        publications: The publications.
    """

    def __init__(
        self,
        given: dict[str, Any],
        *,
        publications: Sequence[str] | None,
        slot: str | None,
        until: Until,
        peek: bool,
        binary: bool,
        origin: Literal["any", "none"] | None,
        options: ChangesOptions,
    ) -> None:
        """Connects, and creates temporary objects. `changes` checks the parameters."""
        self._given, self._until, self._peek = given, until, peek
        self._is_temporary = slot is None
        self._left = _Leftovers(given)
        # Also at the end of the interpreter, if nobody closes it.
        self._finalizer = weakref.finalize(self, self._left.remove)
        try:
            stream = self._left.stream = ReplicationStream.connect(**given)
            if publications is None:
                self._left.publication = f"walrow_{secrets.token_hex(4)}"
                publications = [self._left.publication]
                create_if_missing(given, publications[0], _tables_of(options))
            if slot is None:
                slot = f"walrow_{secrets.token_hex(4)}"
                created = create_slot(
                    stream.connection, slot, temporary=True, progress=_say
                )
                _note_the_start(created.consistent_point)
            self.slot, self.publications = slot, tuple(publications)
            if options.get("catalog") is None:
                # Not before the slot, whose creation may take longer than idle_session_timeout.
                with connect_for_sql(given) as conn:
                    _add_catalog(options, conn, self.publications)
            self._blocks = _LiveBlocks(
                stream,
                functools.partial(
                    stream.start,
                    slot,
                    publications=self.publications,
                    binary=binary,
                    messages=_has_messages(options),
                    origin=origin,
                ),
                until=until,
                goal=functools.partial(
                    position_of_now,
                    given,
                    is_other=has_other_positions(stream.connection),
                ),
                is_temporary=self._is_temporary,
                close=self._finalizer,
            )
            encoding = settings(server_encoding=stream.server_encoding)
            self._reader = Reader(
                self._blocks,
                session={"client_encoding": encoding["client_encoding"]},
                # The server sends on when "now" or the time is over.
                unfinished="ignore",
                **options,
            )
        except BaseException as error:
            self._finalizer()
            self._left.explain(error)
            raise

    def __iter__(self) -> Self:
        """Returns the iterator itself."""
        return self

    def __next__(self) -> Batch:
        """Waits for the next batch."""
        batch = next(self._reader)
        if self._blocks.returned is not None:
            self._blocks.returned += 1
        return batch

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, _type: object, error: BaseException | None, _: object) -> None:
        """Closes it."""
        self._close()
        if error is None:
            self._left.check()
        else:
            self._left.explain(error)

    def __repr__(self) -> str:
        """Names the slot, and how far it was read. Never shows the connection."""
        names = ", ".join(self.publications)
        return f"<walrow.postgres.Changes of {names} by slot {self.slot} at {self.position}>"

    def close(self) -> None:
        """Ends the stream. Drops the slot and the publication that it created.

        A second call does nothing. The end of the iterator and an error do the same.

        Raises:
            ReplicationError: The publication could not be dropped. The error has the
                command to do so.
        """
        self._close()
        self._left.check()

    def _close(self) -> None:
        try:
            self._reader.close()
        finally:
            self._finalizer()

    def confirm(self, position: int | str | None = None) -> None:
        """Confirms changes: the server forgets them, and a later reader does not get them.

        Only a named slot needs it. Call it when the changes are stored, also after the end
        of the iterator. Until then, the slot keeps their WAL.

        Args:
            position: An end LSN. Default: `position`, which is everything that was
                returned.

        Raises:
            OptionError: With `peek`, or the position was not returned yet.
            ReplicationError: The server refused it.
        """
        if self._peek:
            text = "with peek=True, the slot stays as it is: leave out confirm, or peek"
            raise OptionError(text)
        returned = self.position
        wanted = returned if position is None else Lsn(position)
        if wanted > returned:
            text = f"cannot confirm {wanted}: the changes were returned only up to {returned}"
            raise OptionError(text)
        if self._is_temporary:
            return
        if self._finalizer.alive:
            self._blocks.confirm(wanted, is_everything=wanted == returned)
        else:
            advance(self._given, self.slot, wanted)

    @property
    def schema(self) -> Schema:
        """As in `walrow.Reader`. Waits for the first change, unless it is known before."""
        return self._reader.schema

    @property
    def position(self) -> Lsn:
        """All transactions that end at or before this LSN were returned. It begins at `start`."""
        return self._reader.position

    @property
    def bytes_read(self) -> int:
        """Bytes received."""
        return self._reader.bytes_read

    @property
    def open_transactions(self) -> list[dict[str, Any]]:
        """As in `walrow.Reader`."""
        return self._reader.open_transactions

    def _all(self) -> Reader:
        if self._until is None:
            raise OptionError(
                "with until=None, the changes never end: take the batches one by one, or"
                ' choose until="now" or seconds'
            )
        return self._uncounted()

    def _uncounted(self) -> Reader:
        """The reader, for a caller that takes batches from it directly."""
        self._blocks.returned = None
        return self._reader

    def __array__(self, *_arguments: object, **_options: object) -> NoReturn:
        """Raises `TypeError`, as `walrow.Reader` does."""
        text = "changes are not a NumPy array; call to_pandas() or to_polars()"
        raise TypeError(text)


class _Leftovers:
    """A stream, whose end drops a temporary slot, and a publication."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._process = os.getpid()
        self.stream: ReplicationStream | None = None
        self.publication: str | None = None

    def remove(self) -> None:
        """Closes the stream, which drops a temporary slot, and drops the publication."""
        if os.getpid() != self._process:
            # A fork has the same objects, but they belong to its parent.
            return
        try:
            if self.stream is not None:
                self.stream.close()
        finally:
            if self.publication is not None:
                self._drop(self.publication)

    def check(self) -> None:
        """Raises an error if the publication could not be dropped."""
        if self.publication is not None:
            raise ReplicationError(self._advice())

    def explain(self, error: BaseException) -> None:
        """Adds to another error what `check` would raise."""
        if self.publication is not None:
            error.add_note(f"walrow: {self._advice()}")

    def _drop(self, publication: str) -> None:
        try:
            given = {**self._given, "connect_timeout": 2}
            with connect_for_sql(given, lock_timeout="2s") as conn:
                drop_if_exists(conn, publication)
        except ReplicationError:
            # `check` and `explain` say so.
            return
        self.publication = None

    def _advice(self) -> str:
        return (
            "a publication is left, because the server did not answer: drop it with"
            f" DROP PUBLICATION {self.publication}"
        )


class _LiveBlocks:
    """Starts a slot's stream with the first block, and ends it as `until` says.

    An empty block means that the server sent no more for now: the reader then returns the rows that it
    has. `goal` returns the position of now, and is called with the first block. All that arrived of
    a temporary slot is confirmed: no other client needs it. `close` is called at the end, and after
    an error.
    """

    def __init__(
        self,
        stream: ReplicationStream,
        start: Callable[[], None],
        *,
        until: Until,
        goal: Callable[[], Lsn],
        is_temporary: bool,
        close: Callable[[], Any],
    ) -> None:
        self.close = close
        self._stream = stream
        self._start = start
        self._until = until
        self._goal = goal
        self._is_temporary = is_temporary
        self._blocks = self._receive()
        #: Whether the reader has returned everything that arrived.
        self._is_delivered = True
        #: How many batches it has returned. None if the caller does not confirm batches.
        self.returned: int | None = 0
        #: How many of them are confirmed.
        self._confirmed: int | None = -1

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._blocks)
        except BaseException as error:
            self.close()
            if self._is_temporary and isinstance(error, ReplicationError):
                make, (reason,) = error.__reduce__()
                text = f"{reason}; {_LOST}"
                raise make(text) from error
            raise

    def confirm(self, position: Lsn, *, is_everything: bool) -> None:
        """Confirms a position. Later ones without changes follow if all batches end there."""
        self._confirmed = self.returned if is_everything else -1
        self._stream.confirm(position)

    def _receive(self) -> Iterator[bytes]:
        stream, until = self._stream, self._until
        goal = self._goal() if until == "now" else None
        ends = None
        if isinstance(until, int | float):
            ends = time.monotonic() + until
        self._start()
        asked = flushed = 0.0
        while goal is None or stream.server_lsn < goal:
            now = time.monotonic()
            if ends is not None and now >= ends:
                return
            if goal is not None and now >= asked + _ASK_SECONDS:
                # An idle server only reports its position when it is asked.
                stream.confirm(stream.flushed, reply=True)
                asked = now
            patience = _WAIT_SECONDS if self._is_delivered else _IDLE_SECONDS
            if goal is not None:
                patience = min(patience, _ASK_SECONDS)
            if ends is not None:
                patience = min(patience, ends - now)
            block = stream.receive(patience)
            if block is None:
                raise ConnectionLostError("the server was shut down: connect again")
            now = time.monotonic()
            if block:
                if self._is_delivered and not is_keepalives(block):
                    self._is_delivered = False
                    flushed = now
                yield block
            if not self._is_delivered and (
                not block or now >= flushed + _FLUSH_SECONDS
            ):
                yield b""
                flushed = now
                # The reader asks for the next block when it has returned all rows.
                self._is_delivered = not block
            self._confirm_received()

    def _confirm_received(self) -> None:
        """Confirms WAL without published changes, so that the server can remove it."""
        stream = self._stream
        is_free = self._is_temporary or (
            self._is_delivered
            and self.returned is not None
            and self.returned == self._confirmed
        )
        if is_free and stream.server_lsn > stream.flushed:
            stream.confirm(stream.server_lsn)


def _check(
    publications: str | Sequence[str] | None,
    slot: str | None,
    until: object,
    options: ChangesOptions,
    *,
    peek: bool,
) -> None:
    """Refuses parameters that contradict each other."""
    refusals = {
        "choose table=, tables= or publications=": (
            publications is None and not _tables_of(options)
        ),
        "a slot needs publications=, which must be older than the slot": (
            slot is not None and publications is None
        ),
        "peek=True needs slot=: a temporary slot ends with its reader": (
            peek and slot is None
        ),
        f'until is {until!r}: it must be "now", a number of seconds, or None': (
            until not in {"now", None}
            and (
                isinstance(until, bool)
                or not isinstance(until, int | float)
                or not until >= 0
            )
        ),
    }
    for text, is_refused in refusals.items():
        if is_refused:
            raise OptionError(text)


def _tables_of(options: ChangesOptions) -> list[TableName]:
    """The chosen tables, without side tables."""
    chosen = [*(options.get("tables") or ())]
    table = options.get("table")
    if table is not None:
        chosen.append(table)
    return [each for each in chosen if not _is_side_table(each)]


def _is_side_table(table: TableName) -> bool:
    schema = table[0] if isinstance(table, tuple) else str(table).partition(".")[0]
    return schema == "walrow"


def _has_messages(options: ChangesOptions) -> bool:
    chosen = [*(options.get("tables") or ()), options.get("table")]
    return not {"walrow.messages", ("walrow", "messages")}.isdisjoint(chosen)


def _add_catalog(
    options: ChangesOptions, conn: psycopg.Connection[Any], publications: Sequence[str]
) -> None:
    """Adds the server's catalog, and the schema of the table, to the options."""
    found = options["catalog"] = read_catalog(conn, publications=publications)
    for each in _tables_of(options):
        # Also finds out whether the publications have it.
        schema = schemas.schema(found, each, **_schema_options(options))
        if each == options.get("table") and not options.get("envelope"):
            options.setdefault("schema", schema)


def _schema_options(options: ChangesOptions) -> SchemaOptions:
    keys = get_type_hints(SchemaOptions).keys()
    return cast(
        "SchemaOptions",
        {name: value for name, value in options.items() if name in keys},
    )


def _note_the_start(start: Lsn) -> None:
    """Says once, to a person, where changes begin."""
    global _has_noted  # noqa: PLW0603
    is_seen = "ipykernel" in sys.modules or (sys.stderr and sys.stderr.isatty())
    if is_seen and not _has_noted:
        _has_noted = True
        _say(
            f"changes begin at {start}, with the slot: earlier rows are not among them"
        )


def _say(text: object) -> None:
    print(f"walrow: {text}", file=sys.stderr)  # noqa: T201


_LOST = (
    "the temporary slot ended with the connection, so changes that had not arrived are lost:"
    " a named slot keeps them"
)
_has_noted = False
#: How long rows wait for more of them: a pause of the server, and at most.
_IDLE_SECONDS = 0.05
_FLUSH_SECONDS = 0.5
_ASK_SECONDS = 0.2
_WAIT_SECONDS = 1.0
