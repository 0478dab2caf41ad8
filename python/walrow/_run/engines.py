"""How tables are applied: all that are due in one call, by deltalake or by Spark."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from walrow._apply.items import Applied, Engine, Token
from walrow._apply.options import DeltaApplyOptions, SparkApplyOptions
from walrow._apply.units import LogContents
from walrow._log.names import NamedTables
from walrow._lsn import Lsn
from walrow._run.config import Target, shared
from walrow._run.matching import Claim
from walrow.errors import Error
from walrow.log import Log


class Job(NamedTuple):
    """A table that is to be applied."""

    claim: Claim
    engine: Engine
    options: dict[str, Any]


def options_of(target: Target, engine: Engine) -> dict[str, Any]:
    """The options of `apply_changes` that a target has. An empty one has its default."""
    found = shared(
        target, SparkApplyOptions if engine == "spark" else DeltaApplyOptions
    )
    return {name: value for name, value in found.items() if value not in ((), {})}


class GoneError(Error):
    """An engine has ended, and this process cannot start it again."""


class _Stopped(Exception):  # noqa: N818 - it is no error
    """Somebody has stopped the process."""


class Tables:
    """The tables that one engine writes, and the results so far.

    A target is not looked at before the log has something new for it. Its own record counts as soon
    as there is.
    """

    def __init__(
        self,
        apply_all: Callable[..., Any],
        *,
        stop: threading.Event,
        wrapped: Callable[[Exception, str], Exception] | None = None,
    ) -> None:
        """Has applied no table yet.

        Args:
            apply_all: `apply_all` of an engine, without the argument for a session.
            stop: Ends it before the next table.
            wrapped: Makes an error of the engine, for a target, one without values of rows.
        """
        self._apply_all = apply_all
        self._stop = stop
        self._wrapped = wrapped
        self._known: dict[int, Applied] = {}
        # Spark applies several tables at once.
        self._lock = threading.Lock()

    def apply(
        self,
        log: Log,
        jobs: Sequence[Job],
        done: Callable[[Job, Applied | Exception], None],
    ) -> None:
        """Applies all changes that the log has for tables."""
        contents = LogContents(log)
        # The targets of tables that left still get the earlier changes.
        tables = contents.tables.tables.values()
        contents.tables = NamedTables(
            (replace(it, left=None) for it in tables), contents.record
        )
        by_oid: dict[int, Job] = {}
        for job in jobs:
            known = self._known.get(job.claim.table.oid)
            if known is None or _has_news(contents, job, known):
                by_oid[job.claim.table.oid] = job
            else:
                done(job, _quiet(known, log.end))
        if not by_oid:
            return

        def listener(oid: int, result: Applied | Exception) -> None:
            job = by_oid[oid]
            with self._lock:
                if isinstance(result, Applied):
                    self._known[oid] = result
                else:
                    self._known.pop(oid, None)
                    if self._wrapped is not None and not isinstance(result, Error):
                        result = self._wrapped(result, job.claim.place)
                done(job, result)
            if self._stop.is_set():
                raise _Stopped

        with contextlib.suppress(_Stopped):
            self._apply_all(
                contents,
                {oid: job.claim.place for oid, job in by_oid.items()},
                options={oid: job.options for oid, job in by_oid.items()},
                listener=listener,
            )


def _has_news(contents: LogContents, job: Job, known: Applied) -> bool:
    """Whether a log may have something for a target since its last call."""
    log, oid, token = contents.log, job.claim.table.oid, Token.from_json(known.token)
    return (
        token is None
        or token.source != log.source
        # Another place is another target.
        or known.target != job.claim.place
        or known.end > log.end
        or known.end < contents.erased.get(oid, 0)
        # Histories and changes follow erasures.
        or (token.mode != "current" and token.erasures != contents.erasures.get(oid, 0))
        or any(it.end > known.end for it in contents.stretches(oid))
        or any(it.holds_at(log.end, log.end) for it in contents.record.marks_of(oid))
    )


def _quiet(known: Applied, end: Lsn) -> Applied:
    """The result for a target without news since its last call."""
    return replace(
        known,
        start=known.end,
        end=end,
        committed=False,
        overwritten=False,
        rows=0,
        net_rows=0,
        inserted=None,
        updated=None,
        deleted=None,
        never_sent=0,
        erased=0,
    )


def delta_tables(stop: threading.Event) -> Tables:
    """The tables that deltalake writes."""

    def apply_all(*given: Any, **options: Any) -> None:
        # Spark needs no deltalake.
        from walrow.delta.modes import apply_all

        apply_all(*given, **options)

    return Tables(apply_all, stop=stop)


def spark_tables(
    session: Any,
    stop: threading.Event,
    wrapped: Callable[[Exception, str], Exception],
) -> Tables:
    """The tables that Spark writes, in one session."""

    def apply_all(*given: Any, **options: Any) -> None:
        from walrow.spark.apply_all import apply_all

        apply_all(session, *given, **options)
        _refuse_gone(session)

    return Tables(apply_all, stop=stop, wrapped=wrapped)


def _refuse_gone(session: Any) -> None:
    """Refuses a session whose Java process has ended: each call of it would fail.

    Raises:
        GoneError: It has ended.
    """
    # A session of Spark Connect has no Java here.
    java = getattr(session, "_jvm", None)
    try:
        if java is not None:
            java.java.lang.System.currentTimeMillis()
    except Exception:
        text = "Spark has ended: its Java process is gone"
        raise GoneError(text) from None
