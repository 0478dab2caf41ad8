"""The parts that the targets of all engines share: their states, and the errors of rows."""

# ruff: noqa: S608  (a sentence is not SQL)

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from walrow._apply.items import COLUMNS, Token
from walrow._apply.modes import beside
from walrow._apply.options import ApplyOptions
from walrow.errors import ApplyError, Error, Remedy, SchemaError

#: Before the number of the column: in a MERGE that was to insert a value that was never sent.
NEVER_SENT = "walrow: never sent: "
#: The text for NULL in paths of Hive and Spark.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
#: Texts that become NULL as values of partitions.
LOST_TEXTS = ("", HIVE_NULL)
_LOST = f"an empty text there, or {HIVE_NULL}: Delta would write NULL"
#: The maximum length of a name in file systems, in bytes.
NAME_BYTES = 255
TOO_LONG = (
    f"a text there that is too long for the name of a directory ({NAME_BYTES} bytes)"
)


class Conflict(Exception):  # noqa: N818 - it is caught, and the batch done again
    """Another writer has committed to the target meanwhile."""


class Found(NamedTuple):
    """The state of a target before a batch.

    Attributes:
        token: Its record. None without a record.
        version: The version or snapshot that is read.
        is_empty: Whether it has no rows, if it records nothing.
        refusal: Why the record does not say what the target's rows are.
    """

    token: Token | None
    version: str
    is_empty: bool
    refusal: str | None


class Commit(NamedTuple):
    """The result of a commit.

    Attributes:
        is_first: Whether this call has committed. False if another commit has done the
            same.
        inserted: The number of new rows, if known.
        updated: The number of replaced rows, if known.
        deleted: The number of removed rows, if known.
    """

    is_first: bool
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None


def refuse_marker(table: str, columns: Iterable[str], rules: ApplyOptions) -> None:
    """Refuses a table that has a column of the name of a column that the target has beside.

    Raises:
        SchemaError: It has.
    """
    own = {it.lower() for it in columns}
    for field in beside(rules.mode):
        if field.name.lower() in own:
            raise SchemaError(
                f'{table} has a column {field.name} itself, which mode="{rules.mode}" adds',
                table=table,
                column=field.name,
                advice="; leave it out with ",
                remedies=(COLUMNS,),
            )
    name = rules.deleted_column
    if rules.deletes == "soft" and name.lower() in own:
        text = f"{table} has a column {name} itself"
        remedies = (Remedy("deleted_column"),)
        raise SchemaError(text, table=table, column=name, remedies=remedies)


def refuse_unknown(
    option: str, names: Iterable[str], table: str, columns: Iterable[str]
) -> None:
    """Refuses names of columns in an option that the table does not have.

    Raises:
        SchemaError: It lacks one.
    """
    columns = [*columns]
    known = {it.lower() for it in columns}
    for name in names:
        if name.lower() not in known:
            text = f"{option} names {name}, and {table} has no such column; its "
            text += f"columns are {', '.join(columns)}"
            raise SchemaError(text, table=table, column=name)


def never_sent_error(
    error: BaseException, table: str, columns: Sequence[str]
) -> ApplyError | None:
    """The error of a MERGE that was to insert a value that was never sent."""
    found = re.search(rf"{NEVER_SENT}(\d+)", str(error))
    return None if found is None else never_sent(table, columns[int(found[1])])


def violated(error: BaseException, table: str, target: str) -> ApplyError | None:
    """The error of a constraint of the target. Delta's own has the row's values."""
    found = re.search(_CONSTRAINT, str(error))
    if found is None:
        return None
    name = found[1] or found[2]
    text = (
        f"{target}: a row of {table} violates a constraint of the target, {name}: change "
        "the row, or drop the constraint"
    )
    return ApplyError(text, code="constraint", table=table, target=target)


def unwritable(error: BaseException, target: str) -> Error | None:
    """The error of a file system that has no room for a file, or for its name."""
    for pattern, reason in _FILES.items():
        if pattern in str(error):
            return Error(f"{target}: {reason}")
    return None


def never_sent(table: str, column: str) -> ApplyError:
    """The error for a value that was never sent."""
    text = (
        f"{table}: no value of column {column} was ever sent for a row that the target does "
        "not have: an update made it match a row filter and left a large value as "
        "it was, or the row is from before the log. Load the table again, or set "
        "REPLICA IDENTITY FULL"
    )
    return ApplyError(
        text,
        code="never_sent",
        table=table,
        column=column,
        advice="; or take NULL with ",
        remedies=(Remedy("never_sent", None, "null"),),
    )


def lost_in_path(table: str, target: str, column: str, what: str = _LOST) -> ApplyError:
    """The error of a row with a text that would not come back from the path of a partition."""
    text = (
        f"{target}: it is partitioned by column {column}, and a row of {table} has {what}. "
        "Change the row"
    )
    return ApplyError(
        text,
        code="partition",
        table=table,
        column=column,
        target=target,
        advice=", or use a new target with ",
        remedies=(
            Remedy("partition_by", code="[...]"),
            Remedy("cluster_by", code="[...]"),
        ),
    )


_FILES = {
    "No space left on device": "no space is left on a disk of the target or of Spark",
    "DELTA_CANNOT_MODIFY_APPEND_ONLY": "it is append-only, and takes no updates and deletes: set "
    'delta.appendOnly to false, or use a new target, or mode="changes"',
    "File name too long": "a value of a partition is too long for the name of a directory",
}
_CONSTRAINT = (
    r"CHECK constraint (\S+)[^\n]* violated by row with values"
    r"|NOT NULL constraint violated for column: ([^\n]+?)\.?(?:\n|$)"
)
