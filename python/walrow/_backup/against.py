"""Compares a base backup with a log: a server that recovers a copy of it answers for the backup.

```text
backup ─► copy ─► server, recovered to its end ─► digests of tables ┐
log ────────────────────► states as of this LSN ─► digests ─────────┴─► differences
```
Both come from one server, on two ways: as files, and as changes. So if they have the same rows, both
are right: the backup can be restored, and the log has lost nothing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from walrow._backup.against_items import (
    AgainstProgress,
    Comparison,
)
from walrow._backup.against_rules import (
    BackupEnd,
    end_of,
    monetary_locale,
    parse_history,
    timeline_problem,
    unknown_tables,
)
from walrow._backup.against_tables import Sides, compare
from walrow._backup.base_contents import MANIFEST
from walrow._backup.base_manifest import parse_manifest
from walrow._backup.programs import account_of, find_programs, read_control
from walrow._backup.scratch_copy import copy_backup, read_origin
from walrow._backup.scratch_server import (
    ScratchServer,
    refuse_out_of_reach,
    scratch_directory,
)
from walrow._backup.scratch_settings import Recovery
from walrow._backup.scratch_wal import refuse_new_tablespaces
from walrow._log.needs import read_record
from walrow._lsn import Lsn
from walrow._postgres.connecting import psycopg_or_refuse
from walrow._sources.logs import is_named
from walrow.errors import BackupError, LogError, OptionError, SchemaError
from walrow.log import reopened

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from walrow._backup.programs import Control
    from walrow._log.items import LogTable
    from walrow.log import Log
    from walrow.typing import TableName

__all__ = ["verify_against"]


def verify_against(
    backup: str | os.PathLike[str],
    log: str | os.PathLike[str] | Log,
    *,
    bin_dir: str | os.PathLike[str] | None = None,
    wal: str | os.PathLike[str] | None = None,
    tables: Sequence[TableName] | None = None,
    end_lsn: Lsn | int | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    run_as: str | None = None,
    user: str = "postgres",
    database: str | None = None,
    timeout: float = 3600.0,
    progress: Callable[[AgainstProgress], None] | None = None,
) -> Comparison:
    """Compares the tables of a base backup with the states of a log at the same LSN.

    A private server recovers a copy of the backup. No other user can reach this server, and it is
    removed at the end. The backup itself is only read. See docs/backup.md.

    ```python
    found = walrow.backup.verify_against("backups/monday", "log/")
    for table in found.tables:
        print(table.name, table.result, table.differences)
    ```

    Args:
        backup: The backup: a data directory, or archives (`base.tar`).
        log: The log of the same server: its path or URL, or a `walrow.Log`.
        bin_dir: The directory of PostgreSQL's programs, of the backup's major version. Default:
            the directory of postgres in PATH, or as pg_config says.
        wal: A directory with the WAL that the backup does not have itself.
        tables: The tables that are compared. Default: all of the log.
        end_lsn: Up to where the backup is recovered. Default: to its end.
        scratch: The directory for the copy. Default: beside the backup.
        run_as: The user as whom the server runs, if this process is root's.
        user: The name of a superuser in the backup.
        database: The database. Default: the log's database.
        timeout: The seconds that a recovery may take.
        progress: Is called with each step.

    Returns:
        The tables and what differs: see `Comparison.equal`.

    Raises:
        BackupError: The directory is not a backup, the backup cannot be recovered, PostgreSQL's
            programs of its version are missing, or it is of another server or timeline than the
            log.
        LogError: The log does not reach the end of the backup (`past_end`), or is damaged.
        SchemaError: The log has no such table.
        ReplicationError: The superuser or the database does not exist.
        OptionError: The options are invalid.
        OSError: A file cannot be read or written.
    """
    psycopg_or_refuse()
    _pyarrow_or_refuse()
    tell = progress or _nothing
    place = Path(backup).absolute()
    found, reached = _opened(log)
    _chosen(found.tables(), tables)
    database = database or found.source.database
    if database is None:
        text = "the log does not say of which database it is: name the database"
        raise OptionError(text)
    end = _end_of(place)
    target = None if end_lsn is None else Lsn(end_lsn)
    least = target or (end.lsn if end is not None else Lsn(0))
    if end is not None and least < end.lsn:
        text = f"end_lsn is {target}, and the backup is complete only at {end.lsn}"
        raise OptionError(text)
    # Before anything is copied.
    _refuse_short(reached, least)
    account = account_of(run_as)
    archive = None if wal is None else Path(wal).absolute()
    if archive is not None and not archive.is_dir():
        text = f"{archive} is not a directory of WAL"
        raise OptionError(text)
    if account is not None and archive is not None:
        refuse_out_of_reach(archive, account)
    origin = read_origin(place)
    programs = find_programs(origin.major, bin_dir, account)
    home = place.parent if scratch is None else Path(scratch)
    with scratch_directory(home, account) as made:
        data = copy_backup(
            place,
            made.directory,
            progress=lambda done, total: tell(AgainstProgress("copy", done, total)),
        )
        control = read_control(programs, data)
        timeline = control.timeline if end is None else end.timeline
        _refuse_other(found, reached, control, data, timeline=timeline, lsn=least)
        is_current = end is None or len(end.ranges) == 1
        recovery = Recovery(
            target,
            None if is_current else timeline,
            archive,
            least,
            may_wait=origin.is_standby and target is None,
        )
        if end is not None:
            *earlier, last = end.ranges
            ranges = [*earlier, replace(last, end=max(last.end, least))]
            places = [data / "pg_wal", *filter(None, [archive])]
            refuse_new_tablespaces(programs, ranges, places, made.directory)
        locale = monetary_locale(_configurations(data, place))
        with ScratchServer(
            made, programs, control, recovery, account=account, user=user
        ) as server:
            server.recover(
                timeout=timeout,
                progress=lambda it: tell(AgainstProgress("recovery", it, None)),
            )
            # Its receiver has gone on meanwhile.
            found, reached = _opened(log)
            _refuse_short(reached, server.lsn)
            _refuse_other(
                found, reached, control, data, timeline=timeline, lsn=server.lsn
            )
            with server.connect(database) as conn:
                sides = Sides(
                    found,
                    read_record(found.read_object),
                    server,
                    conn,
                    server.lsn,
                    _has_money(conn, locale),
                )
                compared = compare(sides, _chosen(found.tables(), tables), tell)
            backed_up = compared.backed_up
            return Comparison(
                backup=str(place),
                log=found.location,
                database=database,
                server_version=programs.version,
                system_identifier=control.system_identifier,
                timeline=timeline,
                lsn=server.lsn,
                tables=tuple(compared.tables),
                not_in_log=tuple(
                    unknown_tables(backed_up, {it.oid for it in found.tables()})
                ),
                not_in_backup=tuple(compared.missing),
                dropped=tuple(compared.dropped),
            )


def _nothing(_progress: AgainstProgress) -> None:
    pass


def _pyarrow_or_refuse() -> None:
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        text = "comparing rows needs pyarrow: pip install 'walrow[arrow]'"
        raise ModuleNotFoundError(text, name="pyarrow") from None


def _chosen(
    tables: Sequence[LogTable], names: Sequence[TableName] | None
) -> list[LogTable]:
    ordered = sorted(tables, key=lambda it: (it.name, it.oid))
    if names is None:
        return ordered
    for name in names:
        if not any(is_named(name, it.oid, it.name) for it in tables):
            text = f"the log has no table {name!r}"
            raise SchemaError(text, table=str(name))
    return [
        it for it in ordered if any(is_named(name, it.oid, it.name) for name in names)
    ]


def _end_of(backup: Path) -> BackupEnd | None:
    """Where the backup ends. None if it has no manifest: then a server finds its end."""
    try:
        return end_of(parse_manifest((backup / MANIFEST).read_bytes()))
    except FileNotFoundError:
        return None


class Reached(NamedTuple):
    """Up to where a log has everything, also if its database is quiet.

    Attributes:
        position: Up to where the server has sent everything. No transaction came after the
            last segment.
        has_more: Whether more came, which is not published yet.
        timeline: The last timeline of the log, and where it began, if it is known.
    """

    position: Lsn
    has_more: bool
    timeline: tuple[int, Lsn | None] | None


def _opened(log: str | os.PathLike[str] | Log) -> tuple[Log, Reached]:
    """The log as it is now, and up to where it has everything."""
    for _ in range(_MOST_OPENINGS):
        found = reopened(log)
        if (known := found._log.reached()) is not None:
            return found, Reached(*known)
        # A segment was published in between.
    return found, Reached(found.end, has_more=True, timeline=None)


def _refuse_short(reached: Reached, lsn: Lsn) -> None:
    if reached.position >= lsn:
        return
    end = f"the log ends at {reached.position}, before {lsn}, the end of the backup"
    remedy = (
        "its receiver has more, which it publishes soon: try again"
        if reached.has_more
        else "let its receiver go on"
    )
    text = f"{end}: {remedy}"
    raise LogError(text, code="past_end", lsn=reached.position)


def _refuse_other(
    log: Log, reached: Reached, control: Control, data: Path, *, timeline: int, lsn: Lsn
) -> None:
    identifier = log.source.system_identifier
    if identifier is not None and identifier != control.system_identifier:
        text = (
            f"the backup is of the server {control.system_identifier}, and the log of "
            f"{identifier}"
        )
        raise BackupError(text, code="other_server")
    try:
        history = (data / "pg_wal" / f"{timeline:08X}.history").read_text(
            "utf-8", "replace"
        )
    except FileNotFoundError:
        history = ""
    source = log._log.source
    last, began = reached.timeline or (source["timeline"], source["timeline_start"])
    problem = timeline_problem(
        last,
        began,
        timeline,
        parse_history(history),
        lsn,
    )
    if problem is not None:
        raise BackupError(problem, code="timeline")


def _configurations(*places: Path) -> list[str]:
    """The configuration of the backup, as far as it has it."""
    found = []
    for name in ("postgresql.conf", "postgresql.auto.conf"):
        for place in places:
            path = place / name
            if path.is_file():
                found.append(path.read_text("utf-8", "replace"))
                break
    return found


def _has_money(conn: psycopg.Connection[Any], locale: str) -> bool:
    """Whether the text of money is as on the backup's server."""
    try:
        conn.execute("SELECT set_config('lc_monetary', %s, false)", [locale])
    except psycopg.Error:
        return False
    return True


_MOST_OPENINGS = 5
