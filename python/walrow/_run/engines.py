"""How tables are applied: all that are due in one call, by deltalake or by Spark."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from walrow._apply.items import Applied, Token
from walrow._apply.units import LogContents
from walrow.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from walrow._run.matching import Claim
    from walrow.log import Log
    from walrow.typing import Engine

__all__ = ["GoneError", "Job", "Pass", "Tables", "delta_pass", "spark_pass"]


class Job(NamedTuple):
    """A table that is to be applied.

    Attributes:
        claim: The table and its target.
        engine: The engine that writes the target.
        options: Options of `apply_changes`.
    """

    claim: Claim
    engine: Engine
    options: dict[str, Any]


class Pass(Protocol):
    """Applies tables by their OIDs, as `apply_all` does."""

    def __call__(
        self,
        log: Log,
        targets: Mapping[int, str],
        options: Mapping[int, Mapping[str, Any]],
        known: Mapping[int, Applied],
        listener: Callable[[Any, Applied | Exception], None],
        /,
    ) -> None: ...


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
        one_pass: Pass,
        *,
        stop: threading.Event,
        wrapped: Callable[[Exception, str], Exception] | None = None,
    ) -> None:
        """Has applied no table yet.

        Args:
            one_pass: Applies tables.
            stop: Ends it before the next table.
            wrapped: Makes an error of the engine, for a target, one without values of rows.
        """
        self._pass = one_pass
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
        """Applies all changes that the log has for tables.

        Args:
            log: The log.
            jobs: The tables.
            done: Is called with the result of each table, or its error.
        """
        by_oid = {job.claim.table.oid: job for job in jobs}

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

        # Another place is another target.
        known = {
            oid: it
            for oid, it in self._known.items()
            if oid in by_oid and by_oid[oid].claim.place == it.target
        }
        with contextlib.suppress(_Stopped):
            self._pass(
                log,
                {oid: job.claim.place for oid, job in by_oid.items()},
                {oid: job.options for oid, job in by_oid.items()},
                known,
                listener,
            )


def delta_pass(
    log: Log,
    targets: Mapping[int, str],
    options: Mapping[int, Mapping[str, Any]],
    known: Mapping[int, Applied],
    listener: Callable[[Any, Applied | Exception], None],
) -> None:
    """Applies tables with deltalake, one after the other."""
    from walrow.delta.applying import apply_changes, require

    require()
    contents = LogContents(log)
    for oid, target in targets.items():
        before = known.get(oid)
        result: Applied | Exception
        if before is not None and not _has_news(contents, oid, before):
            result = Applied(
                table=before.table,
                target=target,
                start=before.end,
                end=max(before.end, log.end),
                token=before.token,
                engine="delta",
            )
        else:
            try:
                result = apply_changes(log, table=oid, target=target, **options[oid])
            except Exception as error:
                result = error
        listener(oid, result)


def _has_news(contents: LogContents, oid: int, known: Applied) -> bool:
    """Whether a log may have something for a target since its last call."""
    log, token = contents.log, Token.from_json(known.token)
    return (
        token is None
        or token.source != log.source
        or known.end > log.end
        or known.end < contents.erased.get(oid, 0)
        or any(it.end > known.end for it in contents.stretches(oid))
        or any(it.holds_at(log.end) for it in contents.marks.get(oid, ()))
    )


def spark_pass(session: Any) -> Pass:
    """Applies tables with Spark, in one session.

    Args:
        session: The session.
    """

    def one_pass(
        log: Log,
        targets: Mapping[int, str],
        options: Mapping[int, Mapping[str, Any]],
        known: Mapping[Any, Applied],
        listener: Callable[[Any, Applied | Exception], None],
        /,
    ) -> None:
        from walrow._apply.many import AllApplied
        from walrow.spark.apply_all import apply_all

        apply_all(
            session,
            log,
            targets,
            options=options,
            previous=AllApplied({**known}, {}, {}, {}),
            listener=listener,
        )
        _refuse_gone(session)

    return one_pass


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
