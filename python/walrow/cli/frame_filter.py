"""Which frames `walrow inspect` shows: of a table, of a transaction, since an LSN or a time."""

from __future__ import annotations

import datetime as dt
import difflib
from typing import Any

from walrow._lsn import Lsn
from walrow.cli.terminal import printable
from walrow.errors import Error, SchemaError
from walrow.typing import Frame


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
            text = f"no transaction with XID {self._xid} in the capture"
            raise Error(text)
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
        # Without a connection, there is no clock.
        clocks += [frame["clock"]] if frame.get("clock") else []
        time = time_of(clocks[0]) if clocks else None
        return time is None or time >= self._since


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode(errors="surrogateescape")
