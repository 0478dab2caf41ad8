"""Frames for people: which of them are shown, and each as a line of text. docs/log.md lists walrow's facts."""

from __future__ import annotations

import datetime as dt
import difflib
import itertools
import json
import sys
from collections.abc import Mapping
from typing import Any

from walrow._core import UNCHANGED
from walrow._lsn import Lsn
from walrow.cli.terminal import line_printer, printable
from walrow.errors import Error, SchemaError
from walrow.typing import Frame


def is_clock(key: str, value: Any) -> bool:
    """Whether a field is a clock, in microseconds since 2000."""
    return isinstance(value, int) and (key == "clock" or key.endswith("_time"))


def clock(value: int) -> str | int:
    """Writes a clock as a time in UTC. Python lacks times outside of the years 1 to 9999."""
    time = time_of(value)
    return value if time is None else f"{time:%Y-%m-%dT%H:%M:%S.%fZ}"


class FrameLines:
    """Prints frames as lines, in colour on a terminal.

    Args:
        full: Whether to print values and lines in full on a terminal too.
    """

    def __init__(self, *, full: bool) -> None:
        self._tables: dict[int, tuple[str, list[str]]] = {}
        is_terminal = sys.stdout.isatty()
        self._longest = _SHORT if is_terminal and not full else None
        self._print = line_printer(whole=full)
        self._heading = True

    def skip(self, frame: Frame) -> None:
        """Remembers the relation in a frame that is not printed, for later rows."""
        message = frame.message
        if message is not None and message.kind == "R":
            self._relation(message.fields)

    def write(self, frame: Frame) -> None:
        """Prints a frame."""
        if self._heading:
            head = f"{'OFFSET':>12}  {'LSN':>12}  {'FRAME':<17} "
            self._print(head, "bold", "CONTENTS", False)
            self._heading = False
        fields = frame.fields
        message = frame.message
        lsn = fields.get("start", fields.get("end", ""))
        name = frame.name if message is None else message.name
        is_error = frame.kind in "EN"
        if message is not None:
            style = _STYLES.get(message.kind, "")
            text = self._message(message)
        elif is_error:
            style = "bold red" if frame.kind == "E" else "yellow"
            text = _server_message(fields)
        else:
            style = "dim"
            text = self._fields(fields)
        head = f"{frame.offset:>12}  {lsn!s:>12}  {name:<17} "
        self._print(printable(head), style, printable(text), is_error)

    def _message(self, message: Any) -> str:
        """Summarizes a message. Remembers relations for their rows."""
        fields = message.fields
        if message.kind == "R":
            return self._relation(fields)
        if message.kind in "IUD":
            unknown = (f"relation {fields['relation']}", list[str]())
            name, names = self._tables.get(fields["relation"], unknown)
            parts = [name]
            if fields.get("xid") is not None:
                parts.append(f"xid={fields['xid']}")
            parts += [
                f"{key}({self._row(fields[key], names)})"
                for key in ("key", "old", "new")
                if fields.get(key) is not None
            ]
            return " ".join(parts)
        if message.kind == "T":
            known = self._tables
            names = [
                known[oid][0] if oid in known else str(oid)
                for oid in fields["relations"]
            ]
            rest = {key: fields[key] for key in ("xid", "options")}
            return f"{self._fields(rest)} {', '.join(names)}"
        if message.kind == "M" and (fact := fact_of(fields)) is not None:
            return in_words(fact)
        return self._fields(fields)

    def _relation(self, fields: dict[str, Any]) -> str:
        name = f"{printable(fields['namespace'])}.{printable(fields['name'])}"
        names = [printable(column["name"]) for column in fields["columns"]]
        self._tables[fields["oid"]] = (name, names)
        listed = ", ".join(
            names[at] + ("*" if column["flags"] & 1 else "")
            for at, column in enumerate(fields["columns"])
        )
        identity = fields["replica_identity"]
        return f"{name} oid={fields['oid']} identity={identity} ({listed})"

    def _row(self, cells: list[Any], names: list[str]) -> str:
        pairs = itertools.zip_longest(names, cells, fillvalue="?")
        return ", ".join(f"{name}={self._value(cell)}" for name, cell in pairs)

    def _fields(self, fields: dict[str, Any]) -> str:
        return " ".join(
            self._field(key, value)
            for key, value in fields.items()
            if value is not None
        )

    def _field(self, key: str, value: Any) -> str:
        if is_clock(key, value):
            return f"{key}={clock(value)}"
        if isinstance(value, bytes) and key != "content":
            # Text that is not UTF-8. The content of a message is always bytes.
            return f"{key}={self._cut(_quoted(value))}"
        return f"{key}={self._value(value)}"

    def _value(self, value: Any) -> str:
        if value is None:
            return "NULL"
        if value is UNCHANGED:
            return "(unchanged)"
        end = None if self._longest is None else self._longest + 2
        if isinstance(value, bytes):
            return self._cut("\\x" + value[:end].hex())
        if isinstance(value, str):
            return self._cut(repr(value[:end]))
        return str(value) if isinstance(value, int) else self._cut(ascii(value))

    def _cut(self, text: str) -> str:
        if self._longest is None or len(text) <= self._longest:
            return text
        return f"{text[: self._longest - 1]}…"


def _server_message(fields: dict[str, Any]) -> str:
    """Writes an error or a notice in full."""
    names = {_PARTS.get(code, code): value for code, value in fields.items()}
    return " ".join(
        f"{printable(name)}={_quoted(value)}" for name, value in names.items()
    )


def _quoted(value: str | bytes) -> str:
    return repr(value) if isinstance(value, str) else f"'{printable(value)}'"


_SHORT = 40
_STYLES = {"I": "green", "U": "yellow", "D": "red", "T": "red", "R": "cyan"}
_PARTS = {
    "S": "severity",
    "V": "severity_english",
    "C": "sqlstate",
    "M": "message",
    "D": "detail",
    "H": "hint",
    "P": "position",
    "p": "internal_position",
    "q": "internal_query",
    "W": "where",
    "s": "schema",
    "t": "table",
    "c": "column",
    "d": "data_type",
    "n": "constraint",
    "F": "file",
    "L": "line",
    "R": "routine",
}


def fact_of(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fact that a logical message is. None for a message of a user.

    No server sends a message at LSN 0/0.
    """
    if fields.get("prefix") != "walrow" or fields.get("lsn") != 0:
        return None
    try:
        found = json.loads(fields["content"])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "fact" in found else None


def in_words(fact: Mapping[str, Any]) -> str:
    """Writes a fact in words, with its values."""
    kind = fact["fact"]
    words = _WORDS.get(kind, "a fact of a later version of walrow")
    rest = " ".join(
        f"{name}={_value(value)}"
        for name, value in fact.items()
        if name != "fact" and value not in (None, [], {})
    )
    return f"walrow's fact {kind}: {words}{f' ({rest})' if rest else ''}"


def _value(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"{len(value)} entries" if len(value) > _MOST else json.dumps(value)
    return str(value)


_MOST = 3
_WORDS = {
    "segment": "a segment of the log begins",
    "catalog": "definitions of types and tables that the segment uses",
    "prepared": "how the next transaction was prepared",
    "snapshot": "the next transaction is a load: a truncate, and all rows at one moment",
    "rolled_back": "savepoints of the next transaction were rolled back",
    "part": "the next transaction continues one of an earlier segment",
    "seq": "changes of the current transaction were erased here",
    "continues": "the current transaction continues in the next segment",
    "position": "everything up to this LSN is in the log",
    "undecided": "a transaction was prepared, and its rows are a file of the log",
    "decided": "a prepared transaction was committed or rolled back",
    "timeline": "what comes next was received on this timeline",
    "asked": "the options of the stream from here on",
    "taken": "a transaction was prepared, and nothing came after it",
    "gap": "the server did not send the changes of a range",
    "slot_start": "where the slot was when the log was begun",
    "prepared_before": "what may have been prepared before the slot was there",
}


def time_of(micros: int) -> dt.datetime | None:
    """The time of a clock. None if Python has no such time."""
    try:
        return _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        return None


#: Clocks in the protocol are microseconds since then.
_EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


class FrameFilter:
    """Decides frame by frame. Errors and notices of the server always pass.

    Args:
        table: A table's name, with or without its schema.
        xid: A transaction's ID, or a subtransaction's ID in a streamed transaction.
        since: The least commit LSN, or the least commit time. A streamed change is
            compared by its own LSN, or by the time when it was sent.
    """

    def __init__(
        self, table: str | None, xid: int | None, since: Lsn | dt.datetime | None
    ) -> None:
        self._table = table
        self._xid = xid
        self._since = since
        #: Names by OID.
        self._tables: dict[int, tuple[str, str]] = {}
        #: ID of the plain transaction or the stream block around the next frame.
        self._open: int | None = None
        #: Whether a plain transaction is since then. None outside.
        self._is_late: bool | None = None
        self._found = False
        self._has_seen_xid = False

    def __call__(self, frame: Frame) -> bool:
        """Whether to show the frame."""
        message = frame.message
        if message is None:
            if frame.kind == "W":
                self._open = self._is_late = None
            if frame.kind in "EN":
                return True
            bare = self._table is None and self._xid is None
            return bare and self._is_since(frame.fields, {})
        kind, fields = message.kind, message.fields
        if kind == "R":
            name = _text(fields["namespace"]), _text(fields["name"])
            self._tables[fields["oid"]] = name
        if kind in "BbS":
            self._open = fields["xid"]
        if kind in "Bb":
            self._is_late = self._is_since(frame.fields, fields)
        # Both, because each notes what the capture has.
        is_chosen = [self._has_table(kind, fields), self._has_xid(fields)]
        shown = all(is_chosen) and self._is_since(frame.fields, fields)
        if kind in "CPE":
            self._open = self._is_late = None
        return shown

    def check(self) -> None:
        """Raises an error if the table or the transaction did not appear."""
        if self._xid is not None and not self._has_seen_xid:
            raise Error(f"no transaction with XID {self._xid} in the capture")
        if self._table is None or self._found:
            return
        names = {f"{schema}.{name}" for schema, name in self._tables.values()}
        names |= {name for _, name in self._tables.values()}
        close = difflib.get_close_matches(self._table, sorted(names), n=1)
        hint = f"; did you mean {printable(close[0])}?" if close else ""
        text = f"no table {self._table} in the capture{hint}"
        raise SchemaError(text, table=self._table)

    def _has_table(self, kind: str, fields: dict[str, Any]) -> bool:
        if self._table is None:
            return True
        if kind == "T":
            oids = fields["relations"]
        elif kind in "IUD":
            oids = [fields["relation"]]
        elif kind == "R":
            oids = [fields["oid"]]
        else:
            return False
        names = [self._tables[oid] for oid in oids if oid in self._tables]
        found = any(self._table in {name, f"{schema}.{name}"} for schema, name in names)
        self._found |= found
        return found

    def _has_xid(self, fields: dict[str, Any]) -> bool:
        if self._xid is None:
            return True
        found = self._xid in {self._open, fields.get("xid"), fields.get("subxid")}
        self._has_seen_xid |= found
        return found

    def _is_since(self, frame: dict[str, Any], message: dict[str, Any]) -> bool:
        if self._since is None:
            return True
        if self._is_late is not None:
            return self._is_late
        if isinstance(self._since, Lsn):
            names = ("final_lsn", "commit_lsn", "prepare_lsn")
            lsns = [message[name] for name in names if name in message]
            lsns += [frame[name] for name in ("start", "end") if name in frame]
            return not lsns or lsns[0] >= self._since
        times = ("commit_time", "prepare_time")
        clocks = [message[name] for name in times if name in message]
        # The clock comes with a connection.
        clocks += [frame["clock"]] if frame.get("clock") else []
        time = time_of(clocks[0]) if clocks else None
        return time is None or time >= self._since


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode(errors="surrogateescape")
