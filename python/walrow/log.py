"""Logs: committed transactions at rest, for any number of readers.

A log is a directory of segments. `walrow.receive` writes one from a live server, and
`walrow.seal` from captures. Each segment is a stream of pgoutput, protocol 1, in zstd
frames, which any decoder of pgoutput can read:

```
$ zstd -dc log/0000000000000000-00000.wire.zst | ...
```
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walrow._core import Decoder, LogDirectory, Reader
from walrow._late import late, listed
from walrow._log.erasing import Erased, erase
from walrow._log.following import Follower
from walrow._log.items import LogColumn, LogTable, LogVersion, Segment, SourceIdentity
from walrow._log.left import Absence, Left, Ruling
from walrow._log.marks import Mark, Why
from walrow._log.names import NamedTables, tables_of
from walrow._log.needs import accept, decide, read_record
from walrow._log.net_range import NetRules, net_of
from walrow._log.net_refusals import problems
from walrow._log.readers import LogReader, reader_name
from walrow._log.requests import cancel_load
from walrow._log.retention import (
    Compacted,
    Hold,
    Retained,
    Retention,
    name_tables,
)
from walrow._log.stopped import resume
from walrow._log.tables import key_columns
from walrow._log.writer_options import WriterOptions
from walrow._log.young_tables import plain_name
from walrow._lsn import Lsn
from walrow._read import reading, schemas
from walrow._read.signatures import read_values, with_options
from walrow._results import Results, counted
from walrow._secrets import without_credentials
from walrow._sources.log_objects import LogStore
from walrow._sources.logs import OpenedLog, directory_of, location_of, opened
from walrow._sources.urls import is_url
from walrow.errors import LogError, OptionError, Remedy, SchemaError
from walrow.typing import Options, StateOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Sequence
    from typing import Literal, Unpack

    from walrow._core import Schema
    from walrow._log.net import Net, NetBarrier
    from walrow._log.published import Published
    from walrow._log.sealing import Sealed
    from walrow._receive.status import LoadProgress, PendingLoad, Received, Status
    from walrow.typing import (
        At,
        Deletes,
        Duration,
        NeverSent,
        SchemaOptions,
        Size,
        TableName,
        Truncates,
    )

__all__ = [
    "Absence",
    "Compacted",
    "Erased",
    "Follower",
    "Hold",
    "Left",
    "LoadProgress",
    "LogColumn",
    "LogReader",
    "LogTable",
    "LogVersion",
    "Mark",
    "Net",
    "NetBarrier",
    "PendingLoad",
    "Received",
    "Retained",
    "Retention",
    "Ruling",
    "Sealed",
    "Segment",
    "SourceIdentity",
    "Status",
    "Why",
    "cancel_load",
]

# Type checkers see the imports above, so they know which names there are.
if not TYPE_CHECKING:
    __getattr__ = late(
        __name__,
        {
            "walrow._log.net": ("Net", "NetBarrier"),
            "walrow._log.sealing": ("Sealed",),
            "walrow._receive.status": (
                "LoadProgress",
                "PendingLoad",
                "Received",
                "Status",
            ),
        },
    )

__dir__ = listed(__all__)


class Log(OpenedLog):
    """The published segments of a log.

    It has the segments that were published when it was opened. Open it again for later
    segments, or use `follow`. Methods that change the log or its readers look for later
    segments, too. `walrow.read`, `tables`, `schema`, `frames` and Spark's functions
    take a log, or its path, wherever they take a capture.

    >>> import tempfile, walrow
    >>> folder = tempfile.TemporaryDirectory()
    >>> sealed = walrow.seal("tests/data/18/rows.text.wire", log=folder.name)
    >>> log = walrow.Log(folder.name)
    >>> for table in log.tables():
    ...     print(table.name, table.rows)
    public.item 9
    public.stock 6
    >>> batch = next(log.read(table="public.item", start=log.start))
    >>> batch.num_rows
    10
    >>> log.verify()
    []
    >>> folder.cleanup()

    A copy of a log in an object store can be read, but not changed:

    ```python
    log = walrow.Log("s3://bucket/log/", storage_options={"profile": "analytics"})
    ```

    Args:
        path: The log's directory, or the URL of a copy that fsspec opens.
        storage_options: Options of fsspec's file system for a URL, such as credentials.

    Raises:
        LogError: The directory is not a log, or a segment is missing or damaged.
        OSError: The directory does not exist or cannot be read.
        OptionError: fsspec does not know the URL, or `storage_options` are given for a path.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Opens the log."""
        self._location = location_of(path)
        self._storage_options = storage_options
        self._store: LogStore | None = None
        given: Any = storage_options
        if given is not None and not isinstance(given, Mapping):
            kind = type(given).__name__
            text = f"storage_options must be a mapping of fsspec's options, not {kind}"
            raise TypeError(text)
        if is_url(self._location):
            self._store = LogStore(self._location, storage_options or {})
        elif storage_options is not None:
            raise OptionError("storage_options are those of a URL: a path has none")
        self._log = self._opened()

    def _opened(self) -> LogDirectory:
        return opened(self._location, self._store)

    @property
    def path(self) -> Path:
        """The log's directory.

        Raises:
            LogError: The log is at a URL, where it can only be read (`read_only`).
        """
        return directory_of(self._location)

    @property
    def location(self) -> str:
        """The path or the URL, without credentials."""
        return without_credentials(self._location)

    def __fspath__(self) -> str:
        """The path or the URL of the directory."""
        return self._location

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles where the log is."""
        opened = partial(
            type(self), self._location, storage_options=self._storage_options
        )
        return opened, ()

    def __repr__(self) -> str:
        segments = counted(len(self._log), "segment")
        return f"<walrow.Log {self.start} to {self.end}: {segments}>"

    @property
    def source(self) -> SourceIdentity:
        """Where the changes come from."""
        source = self._log.source
        return SourceIdentity(
            source["system_identifier"], source["database"], source["slot"]
        )

    @property
    def start(self) -> Lsn:
        """The LSN where the log begins: 0/0, or the end of the removed segments."""
        return self._log.start

    @property
    def slot_start(self) -> Lsn | None:
        """The slot's LSN when the log was begun: the log has no earlier transactions.

        None if the log does not say: it was made from captures.
        """
        found: Lsn | None = self._log.source["slot_start"]
        return found

    @property
    def end(self) -> Lsn:
        """Where the log ends: everything up to this LSN can be read."""
        return self._log.end

    def segments(self) -> Results[Segment]:
        """Returns the segments, in order."""
        # The path of some file systems is the URL.
        root = Path(
            self._location
            if self._store is None
            else without_credentials(self._store.root)
        )
        return Results(
            (
                Segment.of(root / found["name"], found)
                for found in map(self._dict, range(len(self._log)))
            ),
            "segment",
        )

    def read_object(self, name: str) -> bytes:
        """Reads an object of the log that is not a segment.

        Raises:
            FileNotFoundError: It does not exist.
            LogError: It cannot be read.
        """
        return self._log.read_object(name)

    def tables(self) -> Results[LogTable]:
        """Returns the tables, without reading a segment. See also `walrow.tables`."""
        found = self._tables(self._record()).tables.values()
        # Published tables that never had a change are not in the log.
        removed = self._log.removed()
        shown = (
            it
            for it in found
            if it.versions or it.marks or it.left is not None or it.oid in removed
        )
        return Results(shown, "table")

    def _tables(self, record: Published) -> NamedTables:
        """The tables, also published tables without changes."""
        return NamedTables(tables_of(self._log, record), record)

    def _record(self) -> Published:
        """The receiver's record of published tables and marks, with the accepted ones."""
        return read_record(self.read_object)

    def accept(self, table: TableName, *, reason: str) -> list[Mark | Left]:
        """Accepts the rows of a table as the log has them, although the server's may differ.

        Later events of the table are not accepted.

        Args:
            table: The table.
            reason: The code of its open marks, or why it left: see `LogTable.marks` and
                `LogTable.left`.

        Returns:
            The marks or the reason accepted now.

        Raises:
            SchemaError: The log has no such table.
            LogError: It has no open mark with this code (`no_mark`), or the log is at a URL
                (`read_only`).
        """
        record = self._record()
        found = self._tables(record).find(table)
        oid, name, now = found.oid, found.name, dt.datetime.now(dt.UTC)
        open_: set[str] = {it.code for it in found.marks if it.is_open}
        if (left := found.left) is not None and left.needs_ruling:
            if reason == left.why:
                decide(self.path, oid, Ruling.ACCEPTED, now)
                return [left]
            open_.add(left.why)
        if reason not in open_:
            codes = ", ".join(sorted(open_)) or "none"
            text = (
                f"{name} has no open mark with the reason {reason!r}; open are: {codes}"
            )
            remedies = (Remedy("marks"),)
            raise LogError(text, code="no_mark", table=name, remedies=remedies)
        return [*accept(self.path, oid, reason, now)]

    def schema(
        self, table: TableName | None = None, **options: Unpack[SchemaOptions]
    ) -> Schema:
        """Returns one schema for all versions of a table. See `walrow.schema`.

        Reads one segment for each version.
        """
        return schemas.schema(self, table, **options)

    @with_options(Options)
    def read(
        self,
        *,
        versions: Literal["one", "union"] = "one",
        threads: int = 1,
        **options: Unpack[Options],
    ) -> Reader:
        """Reads the committed row changes of the log. See `walrow.read`.

        Segments that `start`, `end`, `table` or `tables` exclude are not read.

        Raises:
            LogError: Changes between `start` and the log's start were removed.
        """
        return reading.read(self, versions=versions, threads=threads, **options)

    def follow(
        self,
        *,
        poll_interval: Duration = 1.0,
        reader: str | None = None,
        **options: Unpack[Options],
    ) -> Follower:
        """Reads the log, and then each new segment, without an end.

        ```python
        for batch in walrow.Log("log/").follow(table="public.orders", start=position):
            ...
        ```

        Args:
            poll_interval: The time between two looks for new segments: seconds, a timedelta, or a
                text such as `"5s"`.
            reader: The name of a registered reader. It continues at its position, which is
                recorded while batches are taken, at most once a second, and at the end.
                So after a crash, some batches come again, and all batches come. A
                reader that is not registered yet is registered, and begins at `start`.
            **options: Those of `walrow.read`, except `schema` for several versions, and
                `end`.

        Returns:
            An iterator of batches. Its `position` is where to continue.

        Raises:
            OptionError: The options are invalid or contradict each other.
            LogError: Changes after the position were removed (`pruned`), or the reader was
                forgotten (`no_reader`).
        """
        return Follower(self._opened, poll_interval, reader, read_values(options))

    @with_options(StateOptions)
    def state(
        self,
        table: TableName,
        *,
        as_of: At | None = None,
        **options: Unpack[StateOptions],
    ) -> Reader:
        """Returns the rows of a table, as of an LSN or a time.

        They follow from the last complete load of the table, and the changes after it. A
        table that was never loaded begins empty: rows from before the log are missing.

        >>> import tempfile, walrow
        >>> folder = tempfile.TemporaryDirectory()
        >>> sealed = walrow.seal("tests/data/18/rows.text.wire", log=folder.name)
        >>> state = walrow.Log(folder.name).state("public.item")
        >>> state.to_pyarrow().select(["id", "label"]).to_pylist()
        [{'id': 1, 'label': 'uno'}, {'id': 20, 'label': None}]
        >>> state.position == sealed.position
        True
        >>> folder.cleanup()

        Args:
            table: The table, as in `walrow.read`. If several tables had the name, the
                last one at that point.
            as_of: The LSN or time. For a time, the state before the first transaction
                that was committed later. Default: all of the log. So is an LSN after
                its end: see `end`.
            **options: Those of `walrow.read` that determine columns, batches and memory.
                Beyond `spool_memory`, rows wait in a file.

        Returns:
            The rows, in the order of their last change, without metadata columns. They
            are read from the log when the first batch is asked for. The changes after
            them begin at `position`, once all batches were taken.

        Raises:
            LogError: With the code `"too_early"` if the rows are known only later:
                `LogError.lsn` is from where on. With `"pruned"` if changes of the table
                were removed, and no load of it is left. With `"incomplete"` if the
                receiver has noticed that the table needs a load: `LogTable.needs_load`.
            SchemaError: The log has no such table, or two.
            OptionError: The options are invalid or contradict each other.

        While reading, a `LogError` with the code `"incomplete"` says that the changes do
        not give the rows: see docs/fold.md.
        """
        # Checks the options before anything is read.
        Decoder(table=0, metadata=(), **options)
        record = self._record()
        at = self.end if as_of is None else self._log.lsn_of(as_of, "as_of")
        # Without a look, the changes alone have the names.
        chosen, columns, name, names = table, None, None, None
        if record.tables is not None:
            # Once: that looks at all segments.
            names = self._tables(record)
            found = names.at(self, table, at)
            for error, _ in problems(self.location, found, Lsn(0), at, self.end):
                raise LogError(
                    error.reason, code=error.code, table=error.table, lsn=error.lsn
                )
            chosen, name = found.oid, found.name
            if at >= min(self.end, record.position) and found.versions:
                columns = self._columns_now(found, record)
        # `read_values` has made a number of bytes of it.
        memory: Any = options.get("spool_memory")
        directory = options.get("spool_directory")
        try:
            rows = self._log.state(chosen, at, memory, directory, columns)
        except LogError as error:
            if error.code != "pruned":
                raise
            # The log may only have its former name.
            name = name or error.table
            text = (
                f"{name}: its rows are not known, because changes were removed from the "
                f"log: walrow load {self.location} {name}"
            )
            raise LogError(text, code="pruned", table=name) from None
        except SchemaError:
            if name is None:
                raise
            text = f"{name} has no change in the log yet: walrow load {self.location} {name}"
            raise SchemaError(text, table=name) from None
        given: dict[str, Any] = {**options, "metadata": ()}
        if given.keys() & {"types", "schema", "unrepresentable"}:
            known = (names or self._tables(record)).tables[rows.oid]
            given["_keys"] = key_columns(self, known)
        return Reader(rows, table=rows.oid, **given)

    @with_options(StateOptions)
    def net(
        self,
        table: TableName,
        *,
        start: Lsn | int | str | None = None,
        end: At | None = None,
        keys: Sequence[str] | None = None,
        deletes: Deletes = "apply",
        truncates: Truncates = "apply",
        never_sent: NeverSent = "error",
        allow: Collection[str] = (),
        metadata_prefix: str = "_",
        **options: Unpack[StateOptions],
    ) -> Net:
        """Returns what changed in a table between two LSNs, for a target of your own.

        Each key that changed has one row. An update with a new key may have its old key
        before it. docs/net.md explains how to apply each row. Write `checkpoint` to the target in
        the transaction that writes the rows, and begin there the next time. Then each change is
        applied exactly once.

        >>> import tempfile, walrow
        >>> folder = tempfile.TemporaryDirectory()
        >>> sealed = walrow.seal("tests/data/18/rows.text.wire", log=folder.name)
        >>> net = walrow.Log(folder.name).net("public.item")
        >>> net.keys, net.events, net.rows, net.end == sealed.position
        (('id',), 9, 5, True)
        >>> net.to_pyarrow().select(["id", "label", "_change_type"]).to_pylist()[0]
        {'id': 1, 'label': 'uno', '_change_type': 'insert'}
        >>> folder.cleanup()

        Args:
            table: The table, as in `walrow.read`. A name means the table that has it
                at `end`.
            start: The target's `checkpoint`, or only the LSN where its changes end. Default: the
                target is empty.
            end: Up to where it gets them: an LSN, a time, or such as `"-1h"`. Default: all of
                the log.
            keys: The columns that identify a row in the target: unique, and never NULL.
                Default: the replica identity, or under REPLICA IDENTITY FULL, the primary
                key in the log.
            deletes: `"apply"`, or `"soft"` for deletes that keep the last values of their
                rows, or `"ignore"`.
            truncates: `"apply"`, or `"ignore"`. A load replaces the rows in any case, as
                `deletes` says.
            never_sent: The policy for a value of a new row that the server never sent:
                `"error"`, or `"null"`, which is counted.
            allow: Codes of errors to ignore: `"erased"`, `"not_received"`, `"other_table"`,
                and the codes of `LogTable.marks`.
            metadata_prefix: The prefix of the metadata columns' names.
            **options: Options of `walrow.read` for columns, batches and memory. With
                `schema`, dropped columns keep their values.

        Returns:
            The rows. Asking for the first batch reads the log, and so do attributes that
            need it.

        Raises:
            ApplyError: The target cannot get the changes: docs/net.md has the codes. It is
                raised here, or before the first row.
            SchemaError: The log has no such table, or two, or the table has no key.
            LogError: Changes after `start` were removed from the log (`pruned`).
            OptionError: The options are invalid or contradict each other.
        """
        return net_of(
            self,
            self.location,
            self._tables(self._record()),
            table,
            start=start,
            end=end,
            keys=keys,
            rules=NetRules(deletes, truncates, never_sent, allow),
            options={**options, "metadata_prefix": metadata_prefix},
        )

    def _columns_now(
        self, table: LogTable, record: Published
    ) -> list[tuple[str, int, int]] | None:
        """The columns of the last look, if it was after the last change."""
        if table.last > record.position:
            return None
        if self.end < record.last:
            # It is opened, or published, only up to an earlier place.
            return None
        picture = (record.tables or {}).get(table.oid)
        # After an accepted rename, the rows are read as they are: under the old name.
        if picture is None or any(
            mark.code == Why.RENAMED and mark.until is None for mark in table.marks
        ):
            return None
        return [
            (plain_name(quoted), type_, modifier)
            for _, quoted, type_, modifier, *_ in picture["columns"]
        ]

    def verify(self, *, progress: Callable[[int], None] | None = None) -> list[str]:
        """Reads all segments, and compares them with their checksums. Nothing is changed.

        The contents of each are counted again, and compared with its foot and the
        index. Problems that a receiver would refuse are errors, too.

        Args:
            progress: Is called with the number of bytes of each segment.

        Returns:
            The repairs that the next receiver will make, such as after a crash, each in words.

        Raises:
            LogError: A file is damaged or missing, so that a receiver would refuse it, too.
                `LogError.file` is its name.
        """
        repairs = self._log.check()
        for place in range(len(self._log)):
            self._log.verify(place)
            if progress is not None:
                progress(self._dict(place)["bytes"])
        return repairs

    def resume(self) -> str | None:
        """Lets a receiver go on that has found another server than the log's.

        Call it if the connection was to a wrong server. The next connection is checked
        again.

        Returns:
            The receiver's reason to stop, and the time. None if nothing had stopped it.

        Raises:
            LogError: The record of that cannot be removed.
        """
        found = resume(self.path)
        return None if found is None else f"{found.reason} (at {found.time})"

    def prune(self, end: At, *, force: bool = False) -> int:
        """Removes the segments that end at or before an LSN or a time. The last one stays.

        Later reads with a `start` before what was removed are a `LogError`, unless none
        of the removed changes after `start` belong to the tables that are read.

        Args:
            end: The LSN or time.
            force: Whether to remove what registered readers and the last loads of tables
                need.

        Returns:
            The number of removed segments.

        Raises:
            LogError: A reader or a load needs one of them (`held`): no segment is
                removed. Or a segment cannot be removed: call it again.
        """
        name_tables(self._log)
        return self._log.prune(self._log.lsn_of(end, "end"), force)

    def retain(
        self,
        *,
        age: Duration | None = None,
        bytes: Size | None = None,  # noqa: A002 - as in Segment
        forget_after: Duration | None = None,
        force: bool = False,
    ) -> Retained:
        """Removes the oldest segments, by age and size. The last one stays.

        Nothing is removed that a registered reader has not taken, and not the last load of
        a table: nobody could build the table again without it.

        Args:
            age: How long transactions are kept: seconds, a timedelta, or a text such as `"7d"`.
            bytes: How many bytes of segments are kept, or a text such as `"50GB"`. With
                an age too, segments beyond either limit are removed.
            forget_after: Readers that were not used for so long are forgotten first.
            force: Whether to remove what readers and loads need.

        Returns:
            The removed segments, and the holds that keep more.

        Raises:
            OptionError: They are no durations and no size, or negative.
            LogError: A segment cannot be removed. Call it again.
        """
        return Retention(age, bytes, forget_after).apply(self._log, force=force)

    def compact(self, *, segment_size: Size = "64MiB") -> Compacted:
        """Merges many small segments into few large ones.

        Readers and a writer may use the log meanwhile: they see the same changes. Its
        cost does not grow with earlier merges.

        Args:
            segment_size: The size of the stream of a segment, at most: bytes, or a text such as
                `"64MiB"`.

        Returns:
            Counts of the merged segments.

        Raises:
            LogError: A segment is damaged, or the file system refused something. Call it
                again.
            OptionError: It is no size, or less than 1 byte.
        """
        found = WriterOptions.segment_size.parse(segment_size)
        return Compacted(*self._log.compact(found))

    def erase(
        self,
        table: TableName,
        *,
        columns: Sequence[str] = (),
        keys: Sequence[Mapping[str, str | int | bool]] = (),
        force: bool = False,
    ) -> Erased:
        """Erases columns of a table, or all rows with a key, from all segments.

        Nobody may write to the log meanwhile: stop its receiver first. The LSNs and seqs of
        all other changes stay as they are. Call it again if it is interrupted: it goes on.
        Let all targets take the delete of the row first: `apply_changes` refuses one that has
        not. See docs/security.md.

        Args:
            table: The table: a name means the table that has it now, also under its earlier
                names, or if no table has it, the last table that had it.
            columns: Columns, which must not be part of the replica identity. They are erased
                under their earlier names, too.
            keys: Keys: columns and their values, in PostgreSQL's text. A row is erased if
                it has all values of one of them. An update to another key becomes an
                insert, and one from another key a delete of that. Needs pyarrow.
            force: Whether to erase rows of changes that registered readers have not taken.

        Returns:
            Counts of the erased changes.

        Raises:
            SchemaError: The log has no such table or column, or several tables that left had
                the name last.
            OptionError: There is nothing to erase, or a value is not a text.
            LogError: Another process writes to the log (`locked`), a transaction is
                prepared and not decided (`prepared`), a column is part of the replica
                identity (`key_column`), or a registered reader has not taken the change of a
                row (`held`): nothing is erased. A column may have had another name, which the
                log does not know (`earlier_name`).
        """
        done = erase(self.path, table, columns, keys, force=force)
        self._log = self._opened()
        return done

    def register(self, name: str, *, start: Lsn | int | str | None = None) -> LogReader:
        """Registers a reader, so that segments stay until it has taken them.

        Args:
            name: 1 to 64 bytes of UTF-8, without control characters.
            start: Where a new reader begins. Default: `start` of the log. A registered
                reader stays at its position.

        Returns:
            The reader. See `LogReader.advance`.

        Raises:
            LogError: What comes after `start` was removed (`pruned`), the log does not
                reach it (`past_end`), or the name is not one (`reader_name`).
        """
        return self._reader(self._log.register(reader_name(name), start))

    def readers(self) -> list[LogReader]:
        """Returns the registered readers, by name."""
        return [self._reader(found) for found in self._log.readers()]

    def forget(self, name: str) -> None:
        """Forgets a registered reader, or a table that left, which `walrow status` names no longer.

        Args:
            name: The name of the reader, which holds nothing back any more, or of the table.

        Raises:
            LogError: No reader is registered under the name, and no table of this name left
                (`no_reader`).
        """
        left = [it.oid for it in self.tables() if it.left and it.name == name]
        try:
            self._log.forget(reader_name(name))
        except LogError as error:
            if error.code not in ("no_reader", "reader_name") or not left:
                raise
            for oid in left:
                decide(self.path, oid, Ruling.FORGOTTEN, dt.datetime.now(dt.UTC))

    def _reader(self, found: tuple[str, Lsn, int | None]) -> LogReader:
        name, position, used = found
        return LogReader(self._log, name, position, used or 0)

    def _dict(self, place: int) -> dict[str, Any]:
        found = self._log.segment(place)
        if found is None:
            raise IndexError(f"no segment {place}")
        return found


def reopened(log: str | os.PathLike[str]) -> Log:
    """The log of a path, or a log as it is now."""
    if not isinstance(log, Log):
        return Log(log)
    return type(log)(log, storage_options=log._storage_options)
