"""A change as one line: for people, or as JSON for programs.

The values are PostgreSQL's own text, so each type has one spelling, and no value is refused.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping

from walrow._core import Batch
from walrow._lsn import Lsn
from walrow._results import Result, result
from walrow.cli.terminal import line_printer, print_json, printable
from walrow.errors import OptionError
from walrow.typing import ChangesOptions

#: How changes are read: all tables in the order of their commits.
OPTIONS: ChangesOptions = {
    "envelope": True,
    "metadata": (
        "change_type",
        "commit_lsn",
        "seq",
        "commit_timestamp",
        "xid",
        "unsent",
        "loaded",
    ),
}


@result
class Change(Result):
    """A change of one row, or a TRUNCATE.

    Attributes:
        table: The table, as `schema.name`.
        change: `insert`, `update`, `delete` or `truncate`.
        lsn: The LSN of the commit.
        time: The time of the commit.
        xid: The transaction's ID.
        seq: The number of the change in its transaction.
        key: The values of the replica identity, after an update. None without one.
        old: The values that the server sent of the row before it.
        new: The values that it sent of the row after it.
        unsent: The columns of the new row whose values it did not send.
        loaded: Whether it is a part of a load.
    """

    table: str
    change: str
    lsn: Lsn
    time: dt.datetime
    xid: int
    seq: int
    key: Mapping[str, str | None] | None
    old: Mapping[str, str | None] | None
    new: Mapping[str, str | None] | None
    unsent: tuple[str, ...]
    loaded: bool


def changes_of(batch: Batch) -> Iterator[Change]:
    """The changes of a batch that was read with `OPTIONS`, in order."""
    import pyarrow as pa

    old: dict[str, str | None] | None = None
    for row in pa.record_batch(batch).to_pylist():
        kind, data = row["_change_type"], row["data"]
        values = None if data is None else dict(data)
        if kind == "update_preimage":
            # The other image is the next row of the batch.
            old = values
            continue
        is_delete = kind == "delete"
        yield Change(
            table=f"{row['schema_name']}.{row['table_name']}",
            change=kind.removesuffix("_postimage"),
            lsn=Lsn(row["_commit_lsn"]),
            time=row["_commit_timestamp"],
            xid=row["_xid"],
            seq=row["_seq"],
            key=None if row["key"] is None else dict(row["key"]),
            old=values if is_delete else old,
            new=None if is_delete else values,
            unsent=tuple(row["_unsent"] or ()),
            loaded=row["_loaded"],
        )
        old = None


def key_filter(wanted: Mapping[str, str]) -> Callable[[Change], bool]:
    """Chooses the changes of one key: its columns, and their values in PostgreSQL's text.

    A TRUNCATE changes every row. An update to another key belongs to both.

    Raises:
        OptionError: A column is not part of the key, so that old rows may lack it. It is raised
            with the first change.
    """

    def is_chosen(change: Change) -> bool:
        if change.change == "truncate":
            return True
        key = change.key or {}
        for name in wanted:
            if name not in key:
                text = (
                    f"--where {name}: it is not in the key of {change.table}, which is "
                    f"{', '.join(key) or 'none'}. Only a key is in all rows: name its columns"
                )
                raise OptionError(text)
        images = [image for image in (change.old, change.new) if image is not None]
        return any(wanted.items() <= image.items() for image in images)

    return is_chosen


def json_line(change: Change) -> None:
    """Prints a change as one JSON object."""
    print_json(change.to_dict())
    sys.stdout.flush()


def text_lines(*, full: bool) -> Callable[[Change], None]:
    """Prints each change as one line, in colour and shortened on a terminal.

    Args:
        full: Whether lines and values are whole on a terminal, too.
    """
    is_terminal = sys.stdout.isatty()
    write = line_printer(whole=full)
    longest = _SHORT if is_terminal and not full else None

    def show(change: Change) -> None:
        word = f"load {change.change}" if change.loaded else change.change
        head = f"{change.time:%Y-%m-%dT%H:%M:%S}Z {change.lsn!s:>12} {word:<8} "
        row = " ".join(_cells(change, longest))
        style = "dim" if change.loaded else _STYLES[change.change]
        write(head, style, f"{printable(change.table)} {row}", False)
        sys.stdout.flush()

    return show


def _cells(change: Change, longest: int | None) -> Iterator[str]:
    old, new = change.old or {}, change.new
    if new is None:
        new, old = old, {}
    for name, value in new.items():
        now = _value(value, longest)
        before = _value(old[name], longest) if name in old else now
        arrow = "" if before == now else f"{before}→"
        yield f"{printable(name)}={arrow}{now}"
    for name in change.unsent:
        yield f"{printable(name)}=(not sent)"


def _value(value: str | None, longest: int | None) -> str:
    """NULL, or the text, in quotes if it could be read as something else."""
    if value is None:
        return "NULL"
    if longest is not None and len(value) > longest:
        value = f"{value[: longest - 1]}…"
    if _PLAIN.fullmatch(value) and value != "NULL":
        return printable(value)
    return printable(json.dumps(value, ensure_ascii=False))


_PLAIN = re.compile(r"[^\s\"'=→()]+")
_SHORT = 40
_STYLES = {"insert": "green", "update": "yellow", "delete": "red", "truncate": "red"}
