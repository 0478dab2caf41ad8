"""The committed transactions of a recording of any protocol version.

A model to compare walrow with: it keeps every message of an open transaction in a list
and decides at the end. Plain (B…C), streamed (S…E, c, A) and prepared (b…P, p, K, r)
transactions all become the same. It is strict: input that no server sends is a
`ValueError`.

A logical message in a chunk does not name its subtransaction: it has the top-level xid
even if the subtransaction is rolled back. The model keeps such a message.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from reference import reader as r


@dataclass(frozen=True)
class Change:
    """One committed change of one relation.

    Attributes:
        seq: Its number in the transaction; relations of one truncate share it.
        kind: `insert`, `update`, `delete` or `truncate`.
        relation: The definition at that time, without its xid.
        old_kind: `K`, `O`, or None without an old row.
        old: The old row.
        new: The new row.
        options: A truncate's options.
    """

    seq: int
    kind: str
    relation: r.Relation
    old_kind: str | None = None
    old: r.Row = ()
    new: r.Row = ()
    options: int = 0


@dataclass(frozen=True)
class LogicalMessage:
    """A logical message; `seq` is that of the next change, None outside transactions."""

    seq: int | None
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True)
class Transaction:
    """One committed transaction; `gid` if it was sent at its PREPARE."""

    xid: int
    commit_lsn: int
    end_lsn: int
    commit_time: int
    origin: str | None
    gid: str | None
    changes: tuple[Change, ...]
    messages: tuple[LogicalMessage, ...]


@dataclass
class History:
    """The contents of a recording.

    Attributes:
        transactions: The committed ones, in the order of their commits.
        messages: Logical messages outside transactions, in the order of arrival.
        undecided: The gids of prepared transactions that are neither committed nor
            rolled back.
        forms: How many transactions came in each way: `plain`, `streamed`, `prepared`,
            `streamed and prepared`; and how many streams were `aborted`,
            subtransactions `discarded` and prepared ones `rolled back`.
    """

    transactions: list[Transaction] = field(default_factory=list)
    messages: list[LogicalMessage] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    forms: dict[str, int] = field(default_factory=dict)


def committed(data: bytes) -> list[Transaction]:
    """Returns the committed transactions of a recording.

    Raises:
        ValueError: The recording is not one that a server makes.
    """
    return history(data).transactions


def history(data: bytes) -> History:
    """Returns the contents of a recording.

    Raises:
        ValueError: The recording is not one that a server makes.
    """
    model = _Model()
    for frame, message in r.messages(data):
        if frame.kind == "W":
            model.new_session()
        elif message is not None:
            model.take(message)
    model.result.undecided = [prepared.gid or "" for prepared in model.prepared]
    return model.result


@dataclass
class _Open:
    """An open or prepared transaction. Its changes have no seq yet."""

    xid: int
    form: str
    begin: Any = None
    gid: str | None = None
    end_lsn: int = 0
    origin: str | None = None
    # Each with the xid of the subtransaction that made it.
    entries: list[tuple[int, Change | LogicalMessage]] = field(default_factory=list)
    relations: dict[int, r.Relation] = field(default_factory=dict)
    #: OIDs that were defined outside while this stream was open.
    outdated: set[int] = field(default_factory=set)


class _Model:
    def __init__(self) -> None:
        self.result = History()
        self.prepared: list[_Open] = []
        self.position = 0
        self.new_session()

    def new_session(self) -> None:
        self.relations: dict[int, r.Relation] = {}
        self.streams: dict[int, _Open] = {}
        self.plain: _Open | None = None
        self.chunk: _Open | None = None

    @property
    def current(self) -> _Open | None:
        return self.chunk or self.plain

    def take(self, message: Any) -> None:  # noqa: PLR0912
        match message:
            case r.Begin():
                self._begin(_Open(message.xid, "plain", message))
            case r.BeginPrepare():
                self._begin(_Open(message.xid, "prepared", message, message.gid))
            case r.Commit():
                self._commit(message)
            case r.Prepare():
                self._prepare(message)
            case r.StreamStart():
                self._start(message)
            case r.StreamStop():
                self.chunk = None
            case r.StreamCommit():
                self._finish(self._stream(message.xid), message)
            case r.StreamAbort():
                self._abort(message)
            case r.StreamPrepare():
                stream = self._stream(message.xid)
                stream.gid, stream.end_lsn = message.gid, message.end_lsn
                stream.form = "streamed and prepared"
                self.prepared.append(stream)
            case r.CommitPrepared():
                found = self._decide(message.gid, message.xid)
                self._finish(found, message)
            case r.RollbackPrepared():
                found = self._decide(message.gid, message.xid)
                _check(found.end_lsn == message.prepare_end_lsn, message)
                self._count("rolled back")
            case r.Origin():
                _check(self.current is not None, message)
                if self.current is not None:
                    _check(self.current.origin is None, message)
                    self.current.origin = message.name
            case r.Relation():
                self._relation(message)
            case r.Type():
                pass
            case r.Message() if not message.flags:
                self.result.messages.append(
                    LogicalMessage(None, message.lsn, message.prefix, message.content)
                )
            case _:
                self._change(message)

    def _begin(self, opened: _Open) -> None:
        _check(self.current is None, opened)
        self.plain = opened

    def _commit(self, message: r.Commit) -> None:
        plain, self.plain = self.plain, None
        if plain is None or self.chunk is not None or plain.form != "plain":
            raise _impossible(message)
        begin = plain.begin
        _check(begin.final_lsn == message.commit_lsn, message)
        _check(begin.commit_time == message.commit_time, message)
        self._finish(plain, message)

    def _prepare(self, message: r.Prepare) -> None:
        plain, self.plain = self.plain, None
        if plain is None or self.chunk is not None or plain.form != "prepared":
            raise _impossible(message)
        said = replace(plain.begin)
        _check(
            (said.gid, said.xid, said.prepare_lsn, said.end_lsn, said.prepare_time)
            == (
                message.gid,
                message.xid,
                message.prepare_lsn,
                message.end_lsn,
                message.prepare_time,
            ),
            message,
        )
        plain.end_lsn = message.end_lsn
        self.prepared.append(plain)

    def _start(self, message: r.StreamStart) -> None:
        _check(self.current is None, message)
        _check((message.xid not in self.streams) == (message.first == 1), message)
        if message.first:
            self.streams[message.xid] = _Open(message.xid, "streamed")
        self.chunk = self.streams[message.xid]

    def _stream(self, xid: int) -> _Open:
        """A stream that ends. From version 19 on, a server does not describe its tables again."""
        _check(self.current is None and xid in self.streams, xid)
        stream = self.streams.pop(xid)
        for oid, relation in stream.relations.items():
            if oid not in stream.outdated:
                self.relations[oid] = relation
        return stream

    def _abort(self, message: r.StreamAbort) -> None:
        _check(self.current is None, message)
        stream = self.streams.get(message.xid)
        if stream is None:
            # Servers also send the end of transactions that they never streamed.
            return
        if message.xid == message.subxid:
            del self.streams[message.xid]
            self._count("aborted")
            return
        # The server sends each definition again before a later row needs it.
        stream.relations.clear()
        stream.outdated.clear()
        kept = [entry for entry in stream.entries if entry[0] != message.subxid]
        if len(kept) != len(stream.entries):
            self._count("discarded")
        stream.entries = kept

    def _decide(self, gid: str, xid: int) -> _Open:
        for prepared in self.prepared:
            if (prepared.gid, prepared.xid) == (gid, xid):
                self.prepared.remove(prepared)
                return prepared
        msg = f"{gid!r} is not prepared"
        raise ValueError(msg)

    def _relation(self, message: r.Relation) -> None:
        relation = replace(message, xid=None)
        if self.chunk is not None:
            self.chunk.relations[relation.oid] = relation
            self.chunk.outdated.discard(relation.oid)
            return
        self.relations[relation.oid] = relation
        for stream in self.streams.values():
            stream.outdated.add(relation.oid)

    def _change(self, message: Any) -> None:
        current = self.current
        if current is None:
            raise _impossible(message)
        xid = current.xid if message.xid is None else message.xid
        if isinstance(message, r.Message):
            entry = LogicalMessage(0, message.lsn, message.prefix, message.content)
            current.entries.append((xid, entry))
            return
        if isinstance(message, r.Truncate):
            for number, oid in enumerate(message.relations):
                relation = self._known(current, oid)
                # Only the first relation counts. -1 marks the others.
                seq = -1 if number else 0
                change = Change(seq, "truncate", relation, options=message.options)
                current.entries.append((xid, change))
            return
        relation = self._known(current, message.relation)
        kind = type(message).__name__.lower()
        change = Change(
            0,
            kind,
            relation,
            getattr(message, "old_kind", None),
            getattr(message, "old", ()),
            getattr(message, "new", ()),
        )
        for row in (change.old, change.new):
            _check(not row or len(row) == len(relation.columns), message)
        current.entries.append((xid, change))

    def _known(self, current: _Open, oid: int) -> r.Relation:
        found = current.relations.get(oid) or self.relations.get(oid)
        if found is None:
            msg = f"a change of relation {oid}, which is not defined"
            raise ValueError(msg)
        return found

    def _finish(
        self, opened: _Open, message: r.Commit | r.StreamCommit | r.CommitPrepared
    ) -> None:
        if message.end_lsn <= self.position:
            # A new session may send earlier transactions again.
            return
        self.position = message.end_lsn
        self._count(opened.form)
        changes: list[Change] = []
        messages: list[LogicalMessage] = []
        seq = 0
        for _, entry in opened.entries:
            if isinstance(entry, LogicalMessage):
                messages.append(replace(entry, seq=seq))
            elif entry.seq < 0:
                changes.append(replace(entry, seq=seq - 1))
            else:
                changes.append(replace(entry, seq=seq))
                seq += 1
        self.result.transactions.append(
            Transaction(
                opened.xid,
                message.commit_lsn,
                message.end_lsn,
                message.commit_time,
                opened.origin,
                opened.gid,
                tuple(changes),
                tuple(messages),
            )
        )

    def _count(self, form: str) -> None:
        self.result.forms[form] = self.result.forms.get(form, 0) + 1


def _check(condition: object, what: object) -> None:
    if not condition:
        raise _impossible(what)


def _impossible(what: object) -> ValueError:
    return ValueError(f"a server does not send this here: {what}")
