"""Iceberg tables: the token is a property of the snapshot, and a tag keeps the snapshot.

A batch is written to its own branch. `fast_forward` then makes it the table's, only if
there was no other commit meanwhile: so one of two drivers wins. The last token is in
the nearest earlier snapshot that has a token. Snapshots that were expired are looked up
in the table's older metadata files, so maintenance does not hide that one came before
another.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Collection, Sequence
from typing import Any

from walrow._apply.items import Token
from walrow._apply.targets import Commit, Conflict, Found
from walrow._late import f
from walrow._waiting import pause
from walrow.errors import OptionError
from walrow.spark.targets.sql import (
    Appending,
    Merging,
    Target,
    Writing,
    condition_of,
    defined,
    full_parts,
    literal,
    name_parts,
    quoted,
)

#: The tag that keeps the snapshot of the last batch.
TAG = "walrow"
_PROPERTY = "walrow.token"
_STALE = "CommitFailed"


class IcebergTarget(Target):
    """An Iceberg table, by its name with its catalog."""

    conflicts = f"{_STALE}|AlreadyExistsException|TABLE_OR_VIEW_ALREADY_EXISTS"
    # Its metadata columns, and columns that Spark's MERGE adds to rows: with such a name, a table can be
    # created, and its MERGE fails, or gives the column other values.
    reserved = frozenset(
        {
            "__row_from_source",
            "__row_from_target",
            "__row_id",
            "__row_operation",
            "_deleted",
            "_file",
            "_last_updated_sequence_number",
            "_partition",
            "_pos",
            "_row_id",
            "_spec_id",
        }
    )

    def __init__(self, session: Any, name: str, place: str, caller: Any) -> None:
        self.session = session
        self.name = name
        self.parts = full_parts(caller, place)

    def look(self) -> Found | None:
        """Reads the record of its last batch. None if it does not exist.

        Raises:
            OptionError: The session lacks Iceberg's SQL extensions, or the name belongs to
                something else.
        """
        self._require_extensions()
        try:
            if self.session.catalog.tableExists(self.table):
                return self.find()
            # In a catalog of another kind, CREATE TABLE may make what no batch can be written to.
            self._procedure(TAG)
        except Exception as error:
            text = condition_of(error)
            if _NO_TABLE in text:
                return None
            if re.search(_OTHER, text):
                raise self.other_kind() from error
            raise
        return None

    def _require_extensions(self) -> None:
        """Refuses a session that cannot make branches and tags."""
        if EXTENSIONS in (self.session.conf.get("spark.sql.extensions", "") or ""):
            return
        try:
            # A platform may have added them in another way. There is no such branch.
            self.session.sql(f"ALTER TABLE {self.table} DROP BRANCH IF EXISTS {TAG}_")
        except Exception as error:
            if "PARSE_SYNTAX_ERROR" not in condition_of(error):
                return
            raise OptionError(
                f"{self.name}: the session lacks Iceberg's SQL extensions: start it with "
                f"spark.sql.extensions={EXTENSIONS}"
            ) from None

    def create(
        self,
        fields: Sequence[Any],
        partition_by: Sequence[str],
        cluster_by: Sequence[str],
    ) -> None:
        """Creates it without rows, merge-on-read."""
        known = {field.name.lower() for field in fields}
        transforms = ", ".join(_transform(part, known) for part in partition_by)
        parts = f"PARTITIONED BY ({transforms})" if partition_by else ""
        properties = ", ".join(
            f"'write.{each}.mode' = 'merge-on-read'"
            for each in ("merge", "update", "delete")
        )
        self.session.sql(
            f"CREATE TABLE IF NOT EXISTS {self.table} ({defined(fields)}) USING iceberg {parts} "
            f"TBLPROPERTIES ('format-version' = '2', {properties})"
        )
        if cluster_by:
            order = ", ".join(map(quoted, cluster_by))
            self.session.sql(f"ALTER TABLE {self.table} WRITE ORDERED BY {order}")

    def drop(self) -> None:
        """Drops it, with its files."""
        self.session.sql(f"DROP TABLE IF EXISTS {self.table} PURGE")

    def find(self) -> Found:
        """Follows the snapshots back to the last token."""
        # Catalogs keep tables for a while.
        self.session.catalog.refreshTable(self.table)
        # One job for both: each costs more than it reads.
        names = self._metadata("refs").selectExpr(
            "name", "snapshot_id", "CAST(NULL AS bigint) parent_id", "'' token"
        )
        snapshots = self._metadata("snapshots").selectExpr(
            "CAST(NULL AS string) name",
            "snapshot_id",
            "parent_id",
            f"summary['{_PROPERTY}'] token",
        )
        rows = names.unionAll(snapshots).collect()
        refs = {row.name: row.snapshot_id for row in rows if row.name is not None}
        current = refs.get("main")
        if current is None:
            # A branch needs a snapshot to begin with.
            self.session.sql(
                f"INSERT INTO {self.table} SELECT * FROM {self.table} WHERE false"  # noqa: S608
            )
            return self.find()
        known = {
            row.snapshot_id: (row.parent_id, row.token)
            for row in rows
            if row.name is None
        }
        tagged = Token.from_json(known[refs[TAG]][1]) if TAG in refs else None
        token, place, is_complete = _nearest(known, current)
        if token is None and not is_complete:
            every = self._expired() | known
            token, place, is_complete = _nearest(every, current)
        refusal = None
        if tagged is not None and (token is None or token.end < tagged.end):
            # It belongs to a rollback, or to a history that was removed.
            refusal = (
                f"the snapshot of the last batch, which ended at {tagged.end}, is not known "
                "to come before the current one: a rollback"
                if is_complete or token is not None
                else f"the snapshots since the last batch, which ended at {tagged.end}, "
                "are not known any more"
            )
            token = tagged
        elif token is None and not is_complete:
            refusal = "older snapshots were expired"
        elif place in known and refs.get(TAG) != place:
            # The call that wrote it died before it moved the tag.
            self._keep(place)
        is_empty = token is None and not self.has_rows()
        return Found(token, str(current), is_empty, refusal)

    def commit(self, writing: Writing, token: Token, found: Found) -> Commit:
        """Writes rows and the token to a branch, and makes it the table's."""
        branch = f"{TAG}_{token.run}"
        setting = f"spark.sql.iceberg.snapshot-property.{_PROPERTY}"
        # A call that dies here leaves the branch, which expire_snapshots removes.
        self._alter(
            f"CREATE BRANCH {quoted(branch)} AS OF VERSION {found.version} RETAIN 1 DAYS"
        )
        try:
            self.session.conf.set(setting, token.to_json())
            self._write(f"{self.table}.branch_{branch}", writing)
            self._refuse_moved(found)
            self._keep(self._fast_forward(branch))
        finally:
            # Another commit of this session must not claim what this one has.
            self.session.conf.unset(setting)
            with contextlib.suppress(Conflict):
                self._alter(f"DROP BRANCH {quoted(branch)}")
        return Commit(is_first=True)

    def _refuse_moved(self, found: Found) -> None:
        """Raises `Conflict` if the batch was made for another snapshot.

        `fast_forward` would undo a rollback to a snapshot before that one.
        """
        self.session.catalog.refreshTable(self.table)
        main = self._metadata("refs").where("name = 'main'").select("snapshot_id")
        if [str(row.snapshot_id) for row in main.collect()] != [found.version]:
            raise Conflict

    def _keep(self, snapshot: int | None) -> None:
        """Moves the tag to the snapshot of the last token, so that nothing expires it."""
        # If others are always faster, the next call does it.
        with contextlib.suppress(Conflict):
            self._alter(f"CREATE OR REPLACE TAG {quoted(TAG)} AS OF VERSION {snapshot}")

    def _alter(self, change: str) -> None:
        self._commit_again(f"ALTER TABLE {self.table} {change}")

    def _commit_again(self, statement: str) -> list[Any]:
        """Executes a statement that changes references, until no other one comes first.

        Raises:
            Conflict: Others were always first, or `main` has moved.
        """
        for attempt in range(_ATTEMPTS):
            try:
                rows: list[Any] = self.session.sql(statement).collect()
            except Exception as error:
                text = condition_of(error)
                is_last = attempt == _ATTEMPTS - 1
                if re.search(_MOVED, text) or (is_last and re.search(_STALE, text)):
                    raise Conflict from error
                if not re.search(_STALE, text):
                    raise
                pause(random.uniform(0.05, 0.3))  # noqa: S311
                self.session.catalog.refreshTable(self.table)
            else:
                return rows
        raise AssertionError

    def _write(self, branch: str, writing: Writing) -> None:
        if isinstance(writing, Merging):
            self._commit_again(writing.statement(branch))
            return
        rows = self.session.table(writing.view).writeTo(branch)
        if isinstance(writing, Appending):
            rows.append()
        else:
            rows.overwrite(f.lit(True))

    def _fast_forward(self, branch: str) -> int:
        """Makes a branch the table's, and returns its snapshot."""
        return int(self._procedure(branch)[0].updated_ref)

    def _procedure(self, branch: str) -> list[Any]:
        catalog, *rest = self.parts
        return self._commit_again(
            f"CALL {quoted(catalog)}.system.fast_forward("
            f"{literal(quoted(*rest))}, 'main', {literal(branch)})"
        )

    def _metadata(self, name: str) -> Any:
        return self.session.table(f"{self.table}.{name}")

    def _expired(self) -> dict[int, tuple[int | None, str | None]]:
        """The snapshots of older metadata files."""
        files = [row.file for row in self._metadata("metadata_log_entries").collect()]
        schema = (
            "snapshots array<struct<`snapshot-id`: bigint, `parent-snapshot-id`: bigint, "
            "summary: map<string, string>>>"
        )
        rows = (
            self.session.read.schema(schema)
            .option("multiLine", True)
            .option("mode", "PERMISSIVE")
            .json(files)
            .selectExpr("inline(snapshots)")
            .selectExpr(
                "`snapshot-id` AS id",
                "`parent-snapshot-id` AS parent",
                f"summary['{_PROPERTY}'] AS token",
            )
            .distinct()
            .collect()
        )
        return {row.id: (row.parent, row.token) for row in rows}


def _nearest(
    snapshots: dict[int, tuple[int | None, str | None]], current: int
) -> tuple[Token | None, int | None, bool]:
    """The nearest token and its snapshot, and whether the way back there has no gap."""
    place: int | None = current
    while place is not None:
        if place not in snapshots:
            return None, None, False
        parent, text = snapshots[place]
        token = Token.from_json(text)
        if token is not None:
            return token, place, True
        place = parent
    return None, None, True


def _transform(part: str, known: Collection[str]) -> str:
    """A column in SQL, or a transform such as `days(at)` or `bucket(16, id)`."""
    found = None if part.lower() in known else _TRANSFORM.fullmatch(part)
    if found is None:
        return quoted(part)
    function, before, name, after = found.groups()
    column = quoted(*((name,) if name.lower() in known else name_parts(name)))
    return f"{function}({', '.join(filter(None, [before, column, after]))})"


_ATTEMPTS = 8
#: Branches and tags need them.
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
#: A function of a column, with a number before or after it.
_TRANSFORM = re.compile(
    r"\s*([A-Za-z]\w*)\s*\(\s*(?:(\d+)\s*,\s*)?(.+?)\s*(?:,\s*(\d+)\s*)?\)\s*",
    re.ASCII | re.DOTALL,
)
_MOVED = "not an ancestor"
#: Of procedures.
_NO_TABLE = "Couldn't load table"
#: A catalog without Iceberg's procedures, or something that has no metadata of Iceberg.
_OTHER = (
    "MISSING_CATALOG_ABILITY|FAILED_TO_LOAD_ROUTINE|ROUTINE_NOT_FOUND|TABLE_OR_VIEW_NOT_FOUND"
    "|REQUIRES_SINGLE_PART_NAMESPACE|NoSuchTable"
)
