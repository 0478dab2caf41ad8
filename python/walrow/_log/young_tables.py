"""Tables that were created, got rows and were altered before the receiver looked at them.

If a publication has all tables, the stream has all rows of a new table. But it does not have what
`ALTER TABLE` does to existing rows. For a table that the receiver knows, it compares the columns of two
looks. For a new table, it compares the columns at the first look with the columns of the rows in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from walrow._log.items import LogColumn, LogVersion
from walrow._log.marks import Reason, Why
from walrow._log.new_files import Pending
from walrow._lsn import Lsn


class FirstRow(NamedTuple):
    """The first row of a table in a log."""

    xid: int
    #: The LSN of the transaction's commit.
    commit: Lsn
    #: The number of columns that the table had.
    columns: int


class YoungTable(NamedTuple):
    """A table at the receiver's first look at it."""

    #: The published ones: number, name as SQL, type, type modifier, and whether rows may have got a
    #: value when it was added.
    columns: list[list[Any]]
    pending: Pending
    #: A type of its columns was altered after the table was created.
    has_altered_types: bool
    #: By ALTER TABLE.
    is_rewritten: bool
    #: Files that are younger than the table, by OID: see `NewFiles`.
    files: dict[int, str]
    #: See `PublishedTable`.
    altered: list[int]
    dropped: list[list[int]]
    #: It was empty, but may have had rows that the log lacks.
    is_doubted: bool = True
    #: One of these files has rows.
    has_rows: bool = True

    def alteration(
        self,
        versions: Iterable[LogVersion],
        columns: Iterable[Sequence[Any]],
        first_row: Callable[[], FirstRow | None],
    ) -> Reason | None:
        """How rows in the log, by its versions, were changed without a message.

        Columns that it has now may be newer than the first look.
        """
        numbers = {
            plain_name(column[1]): column[0] for column in (*columns, *self.columns)
        }
        for version in versions:
            if self.has_altered_types:
                return TYPE_ALTERED
            if self.is_rewritten:
                return REWRITTEN
            reason = self._difference(version.columns)
            if reason := reason or self._return(version.columns, numbers, first_row):
                return reason
        return None

    def _return(
        self,
        columns: Sequence[LogColumn],
        numbers: Mapping[str, int],
        first_row: Callable[[], FirstRow | None],
    ) -> Reason | None:
        """Whether a column was renamed, or dropped and added again, since a version.

        A version has its columns in the order of their numbers, but not the numbers. A column that
        came later has a greater number than there were columns then, or at the first row.
        """
        least = 0
        free = [number for number, _ in self.dropped]
        for column in columns:
            least += 1
            number = numbers.get(column.name)
            # It was dropped, or has its number still.
            later = (it for it in free if it >= least)
            taken = min(later, default=0) if number is None else number
            if taken < least:
                text = f"column {column.name} has another place: columns were renamed"
                return Reason(Why.RENAMED, text)
            dropped = [xid for it, xid in self.dropped if least <= it < taken]
            # Rows that came after the column was dropped never had it.
            if (
                taken > len(columns)
                and number is not None
                and dropped
                and (first := first_row()) is not None
                and taken > first.columns
                and any(_is_before(first.xid, xid) for xid in dropped)
            ):
                text = f"column {column.name} may have been dropped and added again"
                return Reason(Why.RETURNED, text)
            least = taken
        return None

    def _difference(self, columns: Iterable[LogColumn]) -> Reason | None:
        now = {plain_name(column[1]): column for column in self.columns}
        then = {column.name: column for column in columns}
        came = [name for name in now if name not in then]
        gone = [name for name in then if name not in now]
        if came and gone:
            text = f"column {gone[0]} disappeared and {came[0]} appeared"
            return Reason(Why.RENAMED, text)
        for name in came:
            if now[name][4]:
                text = f"column {now[name][1]} was added with a value for existing rows"
                return Reason(Why.DEFAULT, text)
            if now[name][0] in self.altered:
                text = f"column {now[name][1]} may have been a generated column"
                return Reason(Why.EXPRESSION, text)
        for name, column in then.items():
            type_ = [column.type_oid, column.type_modifier]
            if name in now and may_differ(type_, now[name][2:4], bool(self.files)):
                return Reason(Why.RETYPED, f"column {now[name][1]} has another type")
        return None


def may_differ(then: Sequence[int], now: Sequence[int], is_rewritten: bool) -> bool:  # noqa: FBT001
    """Whether a column's other type, each an OID and a modifier, may have changed its values."""
    return then != now and (is_rewritten or not _TEXTS.issuperset([then[0], now[0]]))


def plain_name(quoted: str) -> str:
    """Removes the quotes from a name in SQL."""
    return quoted[1:-1].replace('""', '"') if quoted.startswith('"') else quoted


def _is_before(one: int, other: int) -> bool:
    """Whether a transaction ID is older, although they wrap around."""
    return 0 < (other - one) % (1 << 32) < 1 << 31


#: The OIDs of text and varchar.
_TEXTS = frozenset({25, 1043})
#: Why a table is incomplete whose columns are still the same.
TYPE_ALTERED = Reason(Why.TYPE, "a type of its columns was altered")
REWRITTEN = Reason(
    Why.REWRITTEN,
    "it was rewritten, as by ALTER TABLE: existing rows may have other values",
)
