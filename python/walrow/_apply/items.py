"""The options of `apply_changes`, its record in the target, and its result."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from walrow._log.items import SourceIdentity
from walrow._log.tables import KEYS
from walrow._lsn import Lsn
from walrow._results import Result, result
from walrow.errors import Remedy
from walrow.typing import Deletes, Mode, NeverSent, Truncates

__all__ = ["KEYS", "Deletes", "Mode", "NeverSent", "Truncates"]

#: The engine that writes a target.
Engine: TypeAlias = Literal["spark", "delta"]
#: Before the names of columns beside a table's own, so that tables may have columns such as `_seq`.
PREFIX = "_walrow_"
#: The remedy: other columns.
COLUMNS = Remedy("columns", code="[...]")


class Op:
    """The effect of a net change on a key. Negative numbers are not changes."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    TALLY = -1
    #: Changes of keys that rows leave and get, which are joined later.
    ENTANGLED = -2


@result
class Applied(Result):
    """The result of one call for one target.

    Attributes:
        table: The table, as `schema.name`.
        target: The target, as it was given.
        start: Up to where the target had all changes before.
        end: Up to where it has them now.
        committed: Whether this call has written. False if the log has no new changes of the
            table, or another driver was first.
        overwritten: Whether the target's rows were replaced: after a load or a truncate.
        rows: The number of change rows that were read.
        net_rows: The number of rows after the fold: at most one for each key.
        inserted: The number of rows that the target got, if its format reports it.
        updated: The number of replaced rows, if its format reports it.
        deleted: The number of removed rows, if its format reports it.
        never_sent: The number of rows with NULLs for values that the server never sent. See
            `never_sent`.
        token: The target's record of the call, in JSON. None if it records nothing yet.
        engine: The engine that wrote the target: `"spark"` or `"delta"`.
        engine_reason: Why `walrow apply` chose the engine. None if the caller's function says it.
        mode: The kind of target.
        since: From when a history is true: it has no earlier versions. None for other targets,
            and before the first load.
        erased: The number of rows that were removed from a history, or from changes, because they
            were erased from the log.
    """

    table: str
    target: str
    start: Lsn
    end: Lsn
    committed: bool = False
    overwritten: bool = False
    rows: int = 0
    net_rows: int = 0
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    never_sent: int = 0
    token: str | None = None
    engine: Literal["spark", "delta"] = "spark"
    engine_reason: str | None = None
    mode: Mode = "current"
    since: dt.datetime | None = None
    erased: int = 0

    def then(self, other: Applied) -> Applied:
        """The result of two commits, or of one commit if no work was left."""
        if not other.committed:
            return replace(self, end=other.end)

        def added(a: int | None, b: int | None) -> int | None:
            return None if a is None or b is None else a + b

        return replace(
            other,
            start=self.start,
            overwritten=self.overwritten or other.overwritten,
            rows=self.rows + other.rows,
            net_rows=self.net_rows + other.net_rows,
            inserted=added(self.inserted, other.inserted),
            updated=added(self.updated, other.updated),
            deleted=added(self.deleted, other.deleted),
            never_sent=self.never_sent + other.never_sent,
            since=other.since or self.since,
            erased=self.erased + other.erased,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON has them: `token` is an object."""
        token = None if self.token is None else json.loads(self.token)
        return Result.to_dict(self) | {"token": token}


class Token(NamedTuple):
    """Up to where a target has the changes of a table. It is part of the target's commit.

    Attributes:
        source: Where the changes come from.
        table: The table, as `schema.name`.
        oid: Its OID.
        keys: The key columns.
        end: Up to where the target has all changes.
        line: The line of commits that it belongs to. `resume_from` begins another line,
            with the target's version or snapshot at that time as its name.
        run: The call that wrote it.
        version: The target's version or snapshot that it read before.
        columns: The columns that were chosen. None if all were.
        deleted_column: The column that marks deleted rows. None if they are removed.
        features: Features such as `"typeWidening"` and `"clustering"`: only Spark writes a Delta
            table that has one of them.
        mode: The kind of target.
        time: The greatest commit time of all transactions up to `end`, in microseconds since
            1970. None if the target has no times, or the log had no transactions.
        since: The commit time when a history begins to be true, in microseconds since 1970.
        erasures: How many erasures of the log the target has followed.
        begin: Where the changes begin that it has ever had: a target that keeps old rows may
            begin with a load.
    """

    source: SourceIdentity
    table: str
    oid: int
    keys: tuple[str, ...]
    end: Lsn
    line: str
    run: str
    version: str | None = None
    columns: tuple[str, ...] | None = None
    deleted_column: str | None = None
    features: tuple[str, ...] = ()
    mode: Mode = "current"
    time: int | None = None
    since: int | None = None
    erasures: int = 0
    begin: int = 0

    @property
    def application(self) -> str:
        """The name under which transactional targets count its versions."""
        of = self.source
        source = (of.system_identifier or "", of.database or "", of.slot or "")
        return "walrow:" + ":".join((*source, str(self.oid), self.line))

    @property
    def true_since(self) -> dt.datetime | None:
        """From when a history is true."""
        if self.since is None:
            return None
        return _EPOCH + dt.timedelta(microseconds=self.since)

    def to_json(self) -> str:
        """Writes it for a commit's metadata.

        Versions of walrow that know only `current` do not take another mode for their own.
        """
        more = {
            "mode": self.mode,
            "time": self.time,
            "since": self.since,
            "erasures": self.erasures,
            "begin": self.begin,
        }
        return json.dumps(
            {
                "walrow": 1 if self.mode == "current" else 2,
                "source": self.source.to_dict(),
                "table": self.table,
                "oid": self.oid,
                "keys": self.keys,
                "end": str(self.end),
                "line": self.line,
                "run": self.run,
                "version": self.version,
                "columns": self.columns,
                "deleted_column": self.deleted_column,
                "features": self.features,
                **({} if self.mode == "current" else more),
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str | None) -> Token | None:
        """Reads the metadata of a commit. None if it is another program's."""
        try:
            found = json.loads(text or "")
            if found["walrow"] not in (1, 2):
                return None
            mode: Mode = found.get("mode", "current")
            if mode not in get_args(Mode):
                return None
            chosen = found.get("columns")
            return cls(
                SourceIdentity(**found["source"]),
                found["table"],
                int(found["oid"]),
                tuple(found["keys"]),
                Lsn(found["end"]),
                found["line"],
                found["run"],
                found.get("version"),
                None if chosen is None else tuple(chosen),
                found.get("deleted_column"),
                tuple(found.get("features", ())),
                mode,
                found.get("time"),
                found.get("since"),
                found.get("erasures", 0),
                int(found.get("begin", 0)),
            )
        except (ValueError, KeyError, TypeError):
            return None


class Barrier(NamedTuple):
    """A load or truncate, by commit LSN and number in its transaction: changes up to it do not count."""

    lsn: int
    seq: int
    is_load: bool


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
