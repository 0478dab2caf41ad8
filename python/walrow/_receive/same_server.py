"""Prepares the comparison of a server with the server that a log was received from.

The log's writer compares the changes that the server sends. This module decides where a connection
begins for that, and its options. It also judges the server's catalog: the status of the log's last
transaction, and the server's timelines.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from walrow._log.told import PREFIX
from walrow._lsn import Lsn


class Last(NamedTuple):
    """The last transaction or message that a log took. A server that starts at `resent_from` sends it again.

    `lsn` is where the record starts, or for a message, where it ends.
    """

    lsn: Lsn
    resent_from: Lsn
    xid: int | None
    is_prepare: bool


class Comparison(enum.Enum):
    """The purpose of a connection.

    Attributes:
        FIRST: The log takes changes once the server is compared.
        ONLY: The log takes no changes: it was received with other options, and the given ones
            come with the next connection.
        DONE: The server was compared by the connection before, with the other options.
    """

    FIRST = enum.auto()
    ONLY = enum.auto()
    DONE = enum.auto()


class SessionPlan(NamedTuple):
    """How a connection begins. A later slot starts later. `asked` are the options that matter."""

    start: Lsn
    comparison: Comparison
    asked: dict[str, str]


def asked_options(
    publications: Sequence[str],
    stream_options: Mapping[str, Any],
    *,
    has_trigger: bool = False,
) -> dict[str, str]:
    """The options of a stream that matter for what comes, as a log keeps them.

    With an event trigger, the log takes only its messages, unless all messages are asked for.
    """
    messages = bool(stream_options.get("messages")) or (has_trigger and PREFIX)
    return {
        "publications": json.dumps(sorted(set(publications))),
        "messages": json.dumps(messages),
        "two_phase": json.dumps(bool(stream_options.get("two_phase"))),
        "origin": json.dumps(
            "none" if stream_options.get("origin") == "none" else None
        ),
    }


def stream_arguments(
    asked: Mapping[str, str], stream_options: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a stream with these options, and otherwise with the given ones."""
    found = {**stream_options, **{name: json.loads(it) for name, it in asked.items()}}
    if found["messages"] == PREFIX:
        # Messages of rolled-back savepoints only add marks, so large transactions need not wait.
        streaming = True if found.get("streaming") is None else found["streaming"]
        found |= {"messages": True, "streaming": streaming}
    return found


def plan_session(
    *,
    durable: Lsn,
    last: Last | None,
    known: Mapping[str, str],
    wanted: Mapping[str, str],
    was_compared: bool,
) -> SessionPlan:
    """Decides how a connection begins.

    The log was received with the `known` options of the stream. Empty if they are not known. The
    connection before has compared the server with the others if it `was_compared`.
    """
    if not durable or not known or dict(known) == dict(wanted):
        comparison, asked = Comparison.FIRST, wanted
    elif was_compared:
        comparison, asked = Comparison.DONE, wanted
    else:
        comparison, asked = Comparison.ONLY, known
    if json.loads(asked.get("two_phase", "null")):
        # Prepared transactions may not be saved, although later transactions are.
        start = Lsn(0)
    elif comparison is Comparison.DONE:
        start = durable
    else:
        start = Lsn(0) if last is None else last.resent_from
    return SessionPlan(start, comparison, dict(asked))


def full_xid(xid: int, next_xid: int) -> int:
    """An ID of 64 bits: one of the 2³¹ before the next ID, or else after it."""
    ahead = (xid - next_xid) % _XIDS
    return next_xid + ahead if ahead < _XIDS // 2 else next_xid + ahead - _XIDS


def replaced(
    status: Literal["committed", "aborted", "in progress", "future"] | None,
    *,
    is_prepare: bool,
) -> str | None:
    """How a server shows that it does not have a transaction of a log. None if it may have it."""
    if status == "future":
        return "has not begun it yet"
    if is_prepare or status is None or status == "committed":
        return None
    return "has rolled it back" if status == "aborted" else "has not committed it"


def began_elsewhere(
    timeline: int,
    known: Lsn | None,
    now: int,
    history: Sequence[tuple[int, Lsn, Any]],
) -> tuple[Lsn, Lsn] | None:
    """Where a timeline of a log began, and where the server says that it began, if these differ.

    `history` has the ends of the timelines before `now`, oldest first.
    """
    # A timeline begins where the previous timeline ended.
    names = [each[0] for each in history[1:]] + [now]
    starts = dict(zip(names, (lsn for _, lsn, _ in history), strict=False))
    found = starts.get(timeline)
    if known is None or found is None or found == known:
        return None
    return known, found


_XIDS = 2**32
