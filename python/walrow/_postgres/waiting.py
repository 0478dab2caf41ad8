"""The transactions that the creation of a slot waits for."""

from __future__ import annotations

import datetime as dt
from typing import Any

import psycopg

from walrow._postgres.connecting import again, connect
from walrow._postgres.session import records
from walrow._results import Result, result
from walrow.errors import Error


@result
class OpenTransaction(Result):
    """A transaction that has written and has not ended.

    The server hides some attributes of other roles' sessions, unless the role is a
    member of pg_read_all_stats. They are None then.

    Attributes:
        xid: Its transaction ID.
        pid: The process of its session. None for a prepared transaction.
        gid: The name of a prepared transaction. None for others.
        application: The session's application_name.
        user: The session's role, or the role that prepared the transaction.
        database: Its database.
        state: The session's state, such as `idle in transaction`. A prepared
            transaction has its locks on published tables here, if they were asked for.
        since: When it began, or when it was prepared.
    """

    xid: int
    pid: int | None
    gid: str | None
    application: str | None
    user: str | None
    database: str | None
    state: str | None
    since: dt.datetime | None

    def __str__(self) -> str:
        """Describes it in words, with how to end it."""
        since = f" since {self.since:%Y-%m-%d %H:%M:%S%z}" if self.since else ""
        by = f" of {self.user}" if self.user else ""
        place = f" in database {self.database}" if self.database else ""
        state = f", {self.state}" if self.state else ""
        if self.pid is None:
            name = "another server's" if self.gid is None else f"'{self.gid}'"
            return (
                f"prepared transaction {name}{by}{place}{since}{state}:"
                " COMMIT PREPARED or ROLLBACK PREPARED ends it"
            )
        application = f", application {self.application}" if self.application else ""
        return f"process {self.pid}{by}{place}{application}{state}{since}"


@result
class Waiting(Result):
    """The transactions that the creation of a slot waits for.

    Attributes:
        seconds: The time since the command was sent.
        transactions: Transactions that have not ended, oldest first. The creation waits
            for the oldest ones. None if they cannot be read.
        standby: Whether the server is a standby. It also waits for a record of its
            primary: there, `SELECT pg_log_standby_snapshot()` sends one at once.
    """

    seconds: float
    transactions: list[OpenTransaction] | None
    standby: bool

    def __str__(self) -> str:
        """Describes it in words: one line."""
        waited = f"waiting for {self.seconds:.0f} s"
        if self.standby:
            return (
                f"{waited}: a standby waits for the next record of its primary:"
                " there, SELECT pg_log_standby_snapshot() sends it at once"
            )
        if not self.transactions:
            return f"{waited} for transactions that write, in any database, to end"
        shown = "; ".join(map(str, self.transactions[:_SHOWN]))
        more = len(self.transactions) - _SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        return f"{waited} for transactions to end: {shown}{rest}"


class Observer:
    """A second connection to a server, on which the first one waits for a result."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        """Remembers where the connection goes. Connects at the first question."""
        self._parameters = {**again(conn), "connect_timeout": _TIMEOUT}
        self._pid = conn.info.backend_pid
        self._conn: psycopg.Connection[Any] | None = None

    def look(self, seconds: float) -> Waiting:
        """Reads which transactions are open."""
        try:
            if self._conn is None:
                self._conn = connect(
                    self._parameters, server_encoding="UTF8", replication=None
                )
            (found,) = records(self._conn, _TRANSACTIONS, {"waiting": self._pid})
        except (Error, psycopg.Error):
            # There may be no connection left for it. The first one goes on waiting.
            return Waiting(seconds, None, standby=False)
        transactions = [
            OpenTransaction(**it | {"since": time_of(it["since"])})
            for it in found["transactions"]
        ]
        return Waiting(seconds, transactions, standby=found["standby"])

    def close(self) -> None:
        """Closes the connection."""
        if self._conn is not None:
            self._conn.close()


def time_of(text: str | None) -> dt.datetime | None:
    """Reads a time that PostgreSQL wrote into JSON."""
    return None if text is None else dt.datetime.fromisoformat(text)


#: More transactions are only counted.
_SHOWN = 5
_TIMEOUT = 5

# Every transaction that has written holds a lock on its ID, which every role can see. So
# do its subtransactions, whose IDs are later ones.
_TRANSACTIONS = """
SELECT jsonb_build_object(
    'standby', pg_is_in_recovery(),
    'transactions', coalesce(jsonb_agg(to_jsonb(open) ORDER BY age(xid) DESC), '[]')
)::text
FROM (
    SELECT DISTINCT ON (l.virtualtransaction)
        l.transactionid AS xid, l.pid, p.gid,
        nullif(a.application_name, '') AS application,
        coalesce(a.usename, p.owner) AS "user",
        coalesce(a.datname, p.database) AS database,
        a.state, coalesce(a.xact_start, p.prepared) AS since
    FROM pg_locks l
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    LEFT JOIN pg_prepared_xacts p ON p.transaction = l.transactionid
    WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
        AND l.pid IS DISTINCT FROM %(waiting)s
    ORDER BY l.virtualtransaction, age(l.transactionid) DESC
) open
"""
