"""The MERGEs of targets, as clauses. Each engine writes them in its own SQL.

The target is `t`, and its source `s`. Names in clauses are quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from walrow._apply.erased_rows import IMAGE
from walrow._apply.items import Op
from walrow._apply.modes import IS_CURRENT, LSN, SEQ, VALID_FROM, VALID_TO
from walrow._apply.net_table import GONE, OP
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import AppliedTable
from walrow._apply.versions import MERGE_KEY
from walrow._late import pa


class Clause(NamedTuple):
    """A clause of a MERGE. The first clause that fits a row applies to it.

    Attributes:
        condition: The condition for rows. None for all.
        values: The new values by column. Empty for a delete.
    """

    rows: Literal["matched", "not_matched", "not_matched_by_source"]
    action: Literal["delete", "update", "insert"]
    condition: str | None
    values: Mapping[str, str] = {}


class Merge(NamedTuple):
    """A MERGE: the condition for matching rows, and its clauses."""

    on: str
    clauses: Sequence[Clause]

    @property
    def reaches_others(self) -> bool:
        """Whether rows change that the source lacks."""
        return any(it.rows == "not_matched_by_source" for it in self.clauses)


class Words(NamedTuple):
    """The words of an engine.

    Attributes:
        quoted: A name.
        moment: A time, in microseconds since 1970.
        names: The name of each column in the target, where the names may differ.
    """

    quoted: Callable[[str], str]
    moment: Callable[[int], str]
    names: Mapping[str, str] = {}

    def own(self, name: str) -> str:
        """The target's name of a column."""
        return self.quoted(self.names.get(name, name))


def net_changes(
    applied: AppliedTable,
    rules: ApplyOptions,
    words: Words,
    *,
    overwrites: bool,
    lacks_marks: bool,
    kept: Mapping[str, str],
    inserted: Mapping[str, str],
) -> Merge:
    """The MERGE of net changes, whose columns have the target's names.

    They replace all others if it `overwrites`. If it `lacks_marks`, rows may not say yet whether they
    were deleted. `kept` has the condition for a row that keeps the target's value of a column, and
    `inserted` the values of new rows that are not simply the source's.
    """
    sets, values = {}, {}
    for name in applied.columns:
        # A key of -0.0 is found as 0.0.
        is_set = pa.types.is_floating(applied.schema.field(name).type)
        column = words.own(name)
        value = f"s.{column}"
        values[column] = inserted.get(name, value)
        if name in kept:
            value = f"CASE WHEN {kept[name]} THEN t.{column} ELSE {value} END"
        if is_set or name not in applied.keys:
            sets[column] = value
    op, gone = f"s.{words.quoted(OP)}", f"s.{words.quoted(GONE)}"
    is_row = f"{op} <> {Op.DELETE}"
    is_new = is_row
    others = []
    if rules.deletes == "soft":
        marker = words.own(rules.deleted_column)
        sets[marker] = values[marker] = gone
        # A change that only marks a row has no values for a new row.
        is_new = f"NOT ({gone} AND {op} = {Op.UPDATE})"
        if overwrites:
            others = [_others("update", None, {marker: "true"})]
        elif lacks_marks:
            others = [_others("update", f"t.{marker} IS NULL", {marker: "false"})]
    clauses = [Clause("not_matched", "insert", is_new, values), *others]
    if sets:
        clauses.insert(0, Clause("matched", "update", is_row, sets))
    if rules.deletes == "apply":
        clauses.insert(0, Clause("matched", "delete", f"{op} = {Op.DELETE}"))
    keys = map(words.own, applied.keys)
    return Merge(" AND ".join(f"t.{key} = s.{key}" for key in keys), clauses)


def versions(
    keys: Sequence[str], inserted: Sequence[str], closed: int | None, words: Words
) -> Merge:
    """The MERGE of `merge_rows`, which closes versions and opens others.

    All other open versions end at `closed`, in microseconds since 1970. They stay if it is None.
    """
    current, since, until = map(words.own, (IS_CURRENT, VALID_FROM, VALID_TO))
    begins, ends = (f"s.{words.quoted(it)}" for it in (VALID_FROM, VALID_TO))
    matches = [
        f"t.{words.own(key)} = s.{words.quoted(f'{MERGE_KEY}{at}')}"
        for at, key in enumerate(keys)
    ]
    is_open = f"t.{current} = true"
    values = {words.own(name): f"s.{words.quoted(name)}" for name in inserted}
    clauses = [
        # It would be empty: a later transaction has the same time.
        Clause("matched", "delete", f"t.{since} >= {ends}"),
        Clause("matched", "update", None, {until: ends, current: "false"}),
        Clause("not_matched", "insert", f"{begins} IS NOT NULL", values),
    ]
    if closed is not None:
        time = words.moment(closed)
        clauses += [
            _others("delete", f"{is_open} AND t.{since} >= {time}"),
            _others("update", is_open, {until: time, current: "false"}),
        ]
    return Merge(" AND ".join([*matches, is_open]), clauses)


def erasing(
    columns: Sequence[tuple[str, int]], words: Words, *, has_images: bool
) -> Merge:
    """The MERGE that removes rows, and values that columns had before an LSN.

    With `has_images`, a change may have two rows: before it and after it.
    """
    lsn, seq = (f"t.{words.own(name)}" for name in (LSN, SEQ))
    on = f"{lsn} = s.{words.quoted(LSN)} AND {seq} = s.{words.quoted(SEQ)}"
    if has_images:
        is_old = f"t.{words.own('_change_type')} IN ('delete', 'update_preimage')"
        on += f" AND ({is_old}) = s.{words.quoted(IMAGE)}"
    clauses = [Clause("matched", "delete", None)]
    if columns:
        # Only the first clause that fits counts, so all columns are in one.
        named = [(words.quoted(name), end) for name, end in columns]
        which = (f"({lsn} < {end} AND t.{it} IS NOT NULL)" for it, end in named)
        values = {
            it: f"CASE WHEN {lsn} < {end} THEN NULL ELSE t.{it} END"
            for it, end in named
        }
        clauses.append(_others("update", " OR ".join(which), values))
    return Merge(on, clauses)


def _others(
    action: Literal["delete", "update"],
    condition: str | None,
    values: Mapping[str, str] = {},
) -> Clause:
    return Clause("not_matched_by_source", action, condition, values)
