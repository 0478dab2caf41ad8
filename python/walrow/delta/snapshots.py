"""A Delta table as one object of deltalake sees it: the same object reads and writes it."""

from __future__ import annotations

import datetime as dt
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from walrow._apply.engines import is_path
from walrow._apply.history import FEW, Entry, recorded
from walrow._apply.items import Token
from walrow._apply.places import check_place
from walrow._apply.statistics import statistics
from walrow._apply.targets import Commit, Conflict, Found
from walrow._late import pa
from walrow._sources.urls import is_url
from walrow.delta import threads
from walrow.delta.failures import by_spark, wrapped
from walrow.delta.files import writer_properties
from walrow.delta.guards import (
    State,
    bad_storage,
    doubtful_files,
    has_zones,
    refusal,
)
from walrow.delta.merging import added_to
from walrow.errors import OptionError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Literal, TypeVar

    from walrow._apply.merges import Merge

    T = TypeVar("T")


class Place:
    """Where a target is: its path or URL, and the options of an object store."""

    def __init__(self, target: Any, storage_options: Mapping[str, str] | None) -> None:
        """Checks the arguments.

        Raises:
            OptionError: The target is not a Delta table at a path or URL.
            ApplyError: Writers there would not see each other.
        """
        if not isinstance(target, str):
            kind = type(target).__name__
            text = f'target must be a text, such as "delta:/lake/orders", not {kind}'
            raise TypeError(text)
        if not is_path(target):
            raise OptionError(
                f'target {target!r} is not "delta:/path" or the URL of a Delta table: tables in '
                "catalogs need walrow.spark.apply_changes, or walrow apply --engine spark"
            )
        check_place(target)
        self.target = target
        self.uri = target.partition(":")[2]
        if not is_url(self.uri) and Path(self.uri).is_file():
            text = f"target {target} is a file, and a Delta table is a directory: name another"
            raise OptionError(text)
        self.storage_options = dict(storage_options or {})
        reason = bad_storage(target, self.storage_options, os.environ)
        if reason is not None:
            raise by_spark(target, reason)

    def look(self) -> Snapshot | None:
        """Opens the table, and reads its record. None if it does not exist.

        Raises:
            Conflict: Others have committed since it was opened.
        """

        def opened(_stopped: threading.Event) -> Snapshot | None:
            from deltalake import DeltaTable
            from deltalake.exceptions import TableNotFoundError

            try:
                table = DeltaTable(self.uri, storage_options=self.storage_options)
            except TableNotFoundError:
                return None
            snapshot = Snapshot(self, table)
            snapshot.read_record()
            return snapshot

        return self.call(opened)

    def call(
        self,
        function: Callable[[threading.Event], T],
        *,
        commits: bool = False,
        **wrapping: Any,
    ) -> T:
        """Makes a call of deltalake. Errors become walrow's own: see `wrapped`."""
        with wrapped(self.target, **wrapping):
            return threads.call(self.target, function, commits=commits)

    def create(
        self,
        schema: pa.Schema,
        partition_by: Sequence[str],
        properties: Mapping[str, str],
    ) -> None:
        """Creates it without rows. Another driver may do so at the same time."""

        def created(_stopped: threading.Event) -> None:
            from deltalake import DeltaTable

            DeltaTable.create(
                self.uri,
                schema,
                # Two drivers may both create it, and their first writes exclude each other.
                mode="ignore",
                partition_by=list(partition_by),
                configuration=dict(properties),
                storage_options=self.storage_options,
            )

        self.call(created, commits=True)


class Snapshot:
    """A version of the table. It changes with each commit that is made with it.

    Attributes:
        place: Where the table is.
        table: deltalake's object.
        schema: Its columns.
        state: The facts that guards look at.
    """

    def __init__(self, place: Place, table: Any) -> None:
        """Reads what deltalake has in memory."""
        self.place = place
        self.table = table
        self._found = _UNREAD
        self._transaction: tuple[tuple[int, str], int | None] | None = None
        self.schema = pa.schema(table.schema().to_arrow())
        protocol, metadata = table.protocol(), table.metadata()
        features = {
            *(protocol.reader_features or ()),
            *(protocol.writer_features or ()),
        }
        identities = [
            it["name"]
            for it in json.loads(table.schema().to_json())["fields"]
            if any(key.startswith("delta.identity.") for key in it["metadata"])
        ]
        self.state = State(
            frozenset(features),
            (protocol.min_reader_version, protocol.min_writer_version),
            metadata.configuration,
            self.schema,
            tuple(metadata.partition_columns),
            identities,
        )

    @property
    def version(self) -> int:
        """The version."""
        return int(self.table.version())

    def find(self) -> Found:
        """The record of the last batch, which is read once for a version.

        Raises:
            Conflict: Others have committed since the table was opened.
        """
        if self._found.version != str(self.version):
            self.place.call(lambda _: self.read_record())
        return self._found

    def read_record(self) -> None:
        """Reads the record of the last batch.

        Raises:
            Conflict: Others have committed since the table was opened.
        """

        def history(limit: int | None) -> list[Entry]:
            found = self.table.history(limit)
            if limit is not None and len(found) < min(limit, self.version + 1):
                # Commits of some writers have no entry, and are left out.
                found = self.table.history()
            entries = [
                Entry(
                    it["version"],
                    it.get("operation") or "",
                    _text(it.get("userMetadata")),
                )
                for it in found
            ]
            if entries and entries[-1].version < 0:
                # It lists later commits of others, too, and numbers all of them wrongly.
                raise Conflict
            return entries or [Entry(self.version, "", None)]

        # Each is a request, and other threads of Python wait for it.
        token, version, broken = recorded(history, (_LEAST, FEW))
        if token is not None:
            known = self.transaction(token)
            # The history is newer than the table.
            if known is not None and known != int(token.end) and broken is None:
                raise Conflict
        is_empty = token is None and not self._has_rows()
        self._found = Found(token, str(version), is_empty, broken)

    def transaction(self, token: Token) -> int | None:
        """Up to where the table has the changes of the token's application."""
        asked = (self.version, token.application)
        if self._transaction is None or self._transaction[0] != asked:
            # It reads the table's log again.
            found = self.table.transaction_version(token.application)
            self._transaction = (asked, found)
        return self._transaction[1]

    def age(self, token: Token) -> dt.timedelta:
        """How long ago a record was written. The whole history is read if that is long."""

        def read(_stopped: threading.Event) -> dt.timedelta:
            for it in self.table.history():
                if Token.from_json(_text(it.get("userMetadata"))) == token:
                    then = dt.datetime.fromtimestamp(it["timestamp"] / 1000, dt.UTC)
                    return dt.datetime.now(dt.UTC) - then
            return dt.timedelta.max

        return self.place.call(read)

    def _has_rows(self) -> bool:
        counts = self._files().column("num_records").to_pylist()
        return any(count is None or count > 0 for count in counts)

    def _files(self) -> pa.Table:
        return pa.table(self.table.get_add_actions(flatten=True))

    def guard(self, token: Token | None) -> None:
        """Refuses a table that deltalake would write or read wrongly. Its record may say so.

        Raises:
            ApplyError: It would.
        """
        with wrapped(self.place.target):
            files = self._files()
            recorded = () if token is None else token.features
            reason = refusal(self.state, files.column("path").to_pylist(), recorded)
            if reason is None and any(has_zones(it.type) for it in self.schema):
                reason = self.place.call(lambda _: self._old_times(files))
        if reason is not None:
            raise by_spark(self.place.target, reason)

    def _old_times(self, files: pa.Table) -> str | None:
        """Why times in files are read wrongly: Spark has written them as INT96."""
        doubtful = doubtful_files(self.schema, _with_numbers(files).to_pylist())
        unseen = [it for it in doubtful if (self.place.uri, it) not in _SEEN]
        if not unseen:
            return None
        with ThreadPoolExecutor(_READERS) as pool:
            for path, is_old in zip(
                unseen, pool.map(self._has_int96, unseen), strict=True
            ):
                if is_old:
                    return (
                        "Spark has written times with a zone as INT96, which deltalake reads "
                        "wrongly before 1677 and after 2262; an UPDATE in Spark with "
                        "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS rewrites them. "
                        "Until then"
                    )
                _SEEN.add((self.place.uri, path))
        return None

    def _has_int96(self, path: str) -> bool:
        import pyarrow.parquet as pq
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        handler = DeltaStorageHandler.from_table(self.table._table)
        system = PyFileSystem(handler)
        with system.open_input_file(unquote(path)) as file:
            schema = pq.ParquetFile(file).schema
            return any(
                schema.column(at).physical_type == "INT96" for at in range(len(schema))
            )

    def set_statistics(self, schema: pa.Schema) -> bool:
        """Leaves columns out of the statistics that deltalake would write wrongly.

        Args:
            schema: The columns that the table has, or gets.

        Returns:
            Whether it has made a commit.
        """
        wanted = statistics(schema, self.state.partition_by, self.state.properties)
        if not wanted:
            return False
        self.commit(lambda _: self.table.alter.set_table_properties(wanted))
        return True

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Adds columns, in a separate commit."""

        def added(_stopped: threading.Event) -> None:
            from deltalake import Schema

            self.table.alter.add_columns(Schema.from_arrow(pa.schema(fields)).fields)

        self.commit(added)

    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of this version, with these columns."""
        # `to_pyarrow_dataset` has NULL in all columns of a table with column mapping.
        with wrapped(self.place.target):
            reader = self.place.call(lambda _: self.table.scan(columns=list(columns)))
            kinds = pa.schema([self.schema.field(name) for name in columns])
            for batch in pa.RecordBatchReader.from_stream(reader):
                # Texts come as views. pyarrow lacks functions for views.
                yield batch.select(list(columns)).cast(kinds)

    def merge(
        self,
        rows: pa.Table,
        parts: Merge,
        token: Token,
        *,
        streamed: bool,
        **wrapping: Any,
    ) -> Commit:
        """Merges rows, in one commit with the record. If `streamed`, no file is left out for its keys."""
        before = self.version

        def merged(_stopped: threading.Event) -> Mapping[str, int]:
            merge = self.table.merge(
                rows,
                parts.on,
                source_alias="s",
                target_alias="t",
                streamed_exec=streamed,
                writer_properties=writer_properties(self.schema),
                commit_properties=_properties(token),
            )
            counts: Mapping[str, int] = added_to(merge, parts).execute()
            return counts

        counts = self.commit(merged, **wrapping)
        if self.version == before:
            # deltalake makes no commit if nothing changes.
            self.record_only(token)
        return Commit(
            True,
            counts["num_target_rows_inserted"],
            counts["num_target_rows_updated"],
            counts["num_target_rows_deleted"],
        )

    def write(
        self,
        schema: pa.Schema,
        batches: Callable[[threading.Event], Iterator[pa.RecordBatch]],
        token: Token,
        *,
        mode: Literal["overwrite", "append"],
        replaced: str = "true",
        widens: bool = False,
        **wrapping: Any,
    ) -> None:
        """Replaces rows, or adds rows, in one commit with the record.

        Args:
            schema: The columns of the rows.
            batches: Returns the rows, until its event is set.
            token: The record.
            mode: The effect on other rows.
            replaced: The condition for rows that an overwrite replaces.
            widens: Whether columns get other types.
            **wrapping: As in `wrapped`.
        """

        def written(stopped: threading.Event) -> None:
            from deltalake import write_deltalake

            write_deltalake(
                self.table,
                pa.RecordBatchReader.from_batches(schema, batches(stopped)),
                mode=mode,
                # Without it, rows stay that another writer has just appended.
                predicate=replaced if mode == "overwrite" else None,
                schema_mode="overwrite" if widens else None,
                writer_properties=writer_properties(schema),
                commit_properties=_properties(token),
            )

        self.commit(written, **wrapping)

    def record_only(self, token: Token) -> None:
        """Writes a record, and no rows."""

        def written(_stopped: threading.Event) -> None:
            self.table.create_write_transaction(
                [],
                "append",
                self.table.schema(),
                commit_properties=_properties(token),
            )
            self.table.update_incremental()

        self.commit(written)

    def commit(self, function: Callable[[threading.Event], T], **wrapping: Any) -> T:
        """Makes a call that commits. Errors become walrow's own."""
        constraints = self.state.constraints
        return self.place.call(
            function, commits=True, constraints=constraints, **wrapping
        )


def _properties(token: Token) -> Any:
    """The record, as part of a commit: the same as Spark's."""
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        custom_metadata={"userMetadata": token.to_json()},
        app_transactions=[Transaction(token.application, int(token.end))],
    )


def _with_numbers(files: pa.Table) -> pa.Table:
    """Files with the statistics of times, as numbers: Python has no years before 1 and after 9999."""
    found = {}
    for field in files.schema:
        name, column = field.name, files.column(field.name)
        if pa.types.is_timestamp(field.type):
            found[name] = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        elif name in ("path", "num_records") or name.startswith("null_count."):
            found[name] = column
    return pa.table(found)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_READERS = 8
#: Before the record was read.
_UNREAD = Found(None, "", is_empty=False, refusal=None)
#: The commit of the last batch, and the commit before it.
_LEAST = 3
#: Files without INT96, by the place of their table and their path there. Names are unique.
_SEEN: set[tuple[str, str]] = set()
