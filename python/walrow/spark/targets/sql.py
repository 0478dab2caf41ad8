"""The SQL of targets, which their formats share."""

# ruff: noqa: S608  (statements are put together here, from what `quoted` and `literal` return)

from __future__ import annotations

import copy
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from walrow._apply.items import Op, Token
from walrow._apply.merges import Merge, Words, net_changes
from walrow._apply.net_table import OP, UNSENT
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import NEVER_SENT, Commit, Found
from walrow._late import types
from walrow.errors import OptionError


class Target(ABC):
    """A table that is kept current, in its own session.

    Attributes:
        session: The session.
        name: The target, as it was given.
        parts: The parts of its name.
        reserved: Names that its columns cannot have, in lower case.
        fed: Those that they cannot have if it has a change data feed.
        has_path_values: Whether the values of partitions become parts of paths.
        conflicts: A pattern of the errors that say that another writer was first.
    """

    conflicts: str
    reserved: frozenset[str] = frozenset()
    fed: frozenset[str] = frozenset()
    has_path_values = False
    session: Any
    name: str
    parts: tuple[str, ...]

    @property
    def table(self) -> str:
        """Its name in SQL."""
        return quoted(*self.parts)

    def other_kind(self) -> OptionError:
        """The error if something else has its name."""
        text = (
            f"{self.name}: this name belongs to something that is not a table of the format, or "
            "to a catalog that cannot have one: name another target, with its catalog"
        )
        return OptionError(text)

    def trial(self) -> Target | None:
        """A table like this one, which is dropped again. None if it could not be."""
        found = copy.copy(self)
        found.parts = (
            *self.parts[:-1],
            f"{self.parts[-1]}{_TRIAL}{uuid.uuid4().hex[:12]}",
        )
        return found

    def drop(self) -> None:
        """Drops it."""
        self.session.sql(f"DROP TABLE IF EXISTS {self.table}")

    @abstractmethod
    def create(
        self,
        fields: Sequence[Any],
        partition_by: Sequence[str],
        cluster_by: Sequence[str],
    ) -> None:
        """Creates it without rows."""

    @abstractmethod
    def look(self) -> Found | None:
        """Reads the record of its last batch. None if it does not exist."""

    @abstractmethod
    def find(self) -> Found:
        """Reads the record of its last batch."""

    def has_rows(self) -> bool:
        """Whether it has a row."""
        rows = self.session.sql(f"SELECT 1 FROM {self.table} LIMIT 1")
        return bool(rows.collect())

    def columns(self) -> list[Any]:
        """Its columns, as Spark's fields."""
        return list(self.session.table(self.table).schema.fields)

    def partitions(self) -> Sequence[str]:
        """The columns whose values become parts of paths."""
        return ()

    def add_columns(self, fields: Sequence[Any]) -> None:
        """Adds columns."""
        self.session.sql(f"ALTER TABLE {self.table} ADD COLUMNS ({defined(fields)})")

    def is_conflict(self, error: BaseException) -> bool:
        """Whether another writer was first."""
        return re.search(self.conflicts, condition_of(error)) is not None

    def features(self) -> tuple[str, ...]:
        """Its features that only Spark writes, and deltalake does not."""
        return ()

    def is_widened(self) -> bool:
        """Whether other writers expect wider types."""
        return True

    def widen(self, column: str, kind: str) -> None:
        """Changes the type of a column."""
        self.session.sql(
            f"ALTER TABLE {self.table} ALTER COLUMN {quoted(column)} TYPE {kind}"
        )

    def at(self, version: str) -> Any:
        """Its rows as of a version, or a snapshot."""
        return self.session.sql(f"SELECT * FROM {self.table} VERSION AS OF {version}")

    @abstractmethod
    def commit(self, writing: Writing, token: Token, found: Found) -> Commit:
        """Writes rows and the token, in one commit.

        Raises:
            Conflict: Another writer was first. Nothing is written.
        """


class Merging(NamedTuple):
    """Rows of a view are merged into the target."""

    view: str
    merge: Merge

    def statement(self, table: str) -> str:
        """The MERGE into a table, by its name in SQL."""
        lines = [f"MERGE INTO {table} t USING {self.view} s ON {self.merge.on}"]
        for it in self.merge.clauses:
            when = it.rows.replace("_", " ").upper()
            condition = "" if it.condition is None else f" AND ({it.condition})"
            sets = ", ".join(f"t.{name} = {value}" for name, value in it.values.items())
            values = (
                f"({', '.join(it.values)}) VALUES ({', '.join(it.values.values())})"
            )
            action = {"delete": "", "update": f" SET {sets}", "insert": f" {values}"}
            lines.append(
                f"WHEN {when}{condition} THEN {it.action.upper()}{action[it.action]}"
            )
        return "\n".join(lines)


class Replacing(NamedTuple):
    """Rows of a view replace all rows of the target."""

    view: str


class Appending(NamedTuple):
    """Rows of a view are added to the target."""

    view: str


#: How rows are written.
Writing: TypeAlias = Merging | Replacing | Appending


def filter_by_keys(session: Any, rows: int) -> None:
    """Makes joins with this many rows leave out other rows of a target before they are shuffled.

    Spark then makes a Bloom filter of the keys. By itself, it does so for very large tables only.
    A broadcast would not help: rows that the target does not have must not be lost.
    """
    prefix = "spark.sql.optimizer.runtime.bloomFilter"
    for name, value in {
        "spark.sql.autoBroadcastJoinThreshold": -1,
        f"{prefix}.enabled": str(rows <= _MOST_KEYS).lower(),
        f"{prefix}.applicationSideScanSizeThreshold": 0,
        f"{prefix}.maxNumItems": _MOST_KEYS,
        f"{prefix}.maxNumBits": _MOST_KEYS * _BITS,
        f"{prefix}.expectedNumItems": min(max(rows, 1), _MOST_KEYS),
        f"{prefix}.numBits": min(max(rows, _FEW_KEYS), _MOST_KEYS) * _BITS,
    }.items():
        session.conf.set(name, value)


def defined(fields: Sequence[Any]) -> str:
    """Columns and their types, as in CREATE TABLE."""
    return ", ".join(
        f"{quoted(field.name)} {_type_of(field.dataType)}" for field in fields
    )


def _type_of(kind: Any) -> str:
    """A type in SQL. What `timestamp` means there is a setting of the session."""
    if isinstance(kind, types.TimestampType):
        return "timestamp_ltz"
    if isinstance(kind, types.ArrayType):
        return f"array<{_type_of(kind.elementType)}>"
    if isinstance(kind, types.StructType):
        parts = (f"{quoted(it.name)}: {_type_of(it.dataType)}" for it in kind.fields)
        return f"struct<{', '.join(parts)}>"
    return str(kind.simpleString())


def quoted(*parts: str) -> str:
    """A name of one or several parts in SQL, in the sessions of `own_session`."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(text: str) -> str:
    """A text in SQL, in the sessions of `own_session`."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def name_parts(name: str) -> tuple[str, ...]:
    """The parts of a name such as ``catalog.schema.`the table` ``.

    Raises:
        OptionError: It is no name.
    """
    if re.fullmatch(rf"{_PART}(?:\.{_PART})*", name) is None:
        raise OptionError(
            f"{name!r} is not the name of a table: join its parts with dots, and put "
            "those that have dots or backticks into backticks"
        )
    found = re.findall(_PART, name)
    return tuple(
        part[1:-1].replace("``", "`") if part.startswith("`") else part
        for part in found
    )


def full_parts(caller: Any, name: str) -> tuple[str, ...]:
    """The parts of a table's name with its catalog, as USE of the caller's session completes it.

    Clones of the session do not know its USE.
    """
    parts = name_parts(name)
    settings = f"spark.sql.catalog.{parts[0]}"
    if len(parts) > _NAMESPACED or (
        len(parts) == _NAMESPACED and caller.conf.get(settings, None) is not None
    ):
        return parts
    if len(parts) == 1 and (schema := caller.catalog.currentDatabase()):
        parts = (*name_parts(schema), *parts)
    return (caller.catalog.currentCatalog(), *parts)


def condition_of(error: BaseException) -> str:
    """The error condition of Spark's exception, and its text."""
    condition = ""
    for name in ("getCondition", "getErrorClass"):
        if hasattr(error, name):
            condition = str(getattr(error, name)())
            break
    return f"{condition} {error}"


def keeping(
    applied: AppliedTable, rules: ApplyOptions, kept: Sequence[str], **more: bool
) -> Merge:
    """The MERGE of net changes. Some of them keep values of columns: `more` is for `net_changes`."""
    keeps, inserted = {}, {}
    for name in kept:
        keeps[name] = (
            f"s.{OP} = {Op.UPDATE} AND array_contains(s.{UNSENT}, {literal(name)})"
        )
        if name not in applied.nullable and rules.never_sent != "null":
            refusal = f"raise_error('{NEVER_SENT}{applied.columns.index(name)}')"
            inserted[name] = (
                f"CASE WHEN {keeps[name]} THEN {refusal} ELSE s.{quoted(name)} END"
            )
    return net_changes(applied, rules, WORDS, kept=keeps, inserted=inserted, **more)


#: The words of Spark.
WORDS = Words(quoted, lambda time: f"timestamp_micros({time})")
_TRIAL = "_walrow_trial_"
#: The parts of a name with a schema, and without a catalog.
_NAMESPACED = 2
_PART = r"(?:`(?:[^`]|``)+`|[^.`]+)"
#: Bits of a Bloom filter for each key: one of a hundred other rows passes it.
_BITS = 10
_FEW_KEYS = 1000
#: The filter has 40 MB then. Spark sends it to all executors.
_MOST_KEYS = 32 << 20
