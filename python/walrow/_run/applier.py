"""Keeps the targets of a file current: looks at the log again and again."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from walrow._apply.engines import choose
from walrow._apply.holding import reader_of
from walrow._apply.items import Applied, Engine, Token
from walrow._apply.many import failure_of
from walrow._late import is_there
from walrow._log.readers import LogReader
from walrow._log.requests import request
from walrow._log.status_record import (
    Cause,
    Phase,
    PhaseName,
    StatusFile,
    TargetFacts,
    text_of,
)
from walrow._lsn import Lsn
from walrow._run.config import Loaded, Target
from walrow._run.engines import GoneError, Job, Tables, delta_tables, options_of
from walrow._run.facts import existing, facts_of, opened
from walrow._run.matching import Claim
from walrow._run.plan import Plan, doubtful, plan
from walrow._run.records import READER, Recorded, write_targets
from walrow.errors import ApplyError, Error, LogError, OptionError
from walrow.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome for one table.

    Attributes:
        table: The table, as `schema.name`.
        applied: The result. None if the call failed, or was not made.
        problem: Why the target is not current. None if it is.
        needs_load: Whether the problem is that the table needs a load.
        left: Why the table is not published any more. None if it is.
    """

    table: str
    target: str
    applied: Applied | None = None
    problem: str | None = None
    needs_load: bool = False
    left: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a round."""

    reports: tuple[Report, ...] = ()
    has_requested: bool = False

    @property
    def behind(self) -> tuple[Report, ...]:
        """The tables that are not current."""
        return tuple(it for it in self.reports if it.problem is not None)


class Applier:
    """The targets of a file, and what this process knows of them."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        stop: threading.Event,
        spark: Callable[[], Tables],
        listener: Callable[[Report], None],
        status: StatusFile,
    ) -> None:
        """Looks at nothing yet.

        Args:
            loaded: The file.
            stop: Ends it, after the table that is being applied.
            spark: Starts Spark, and returns what applies tables with it. It is called once.
            listener: Is called with each table that was applied, or that has another problem than
                before.
            status: The status record.
        """
        self._loaded = loaded
        self._stop = stop
        self._spark = spark
        self._listener = listener
        self._status, self._rounds = status, 0
        before = status.before
        #: The targets after the last round, and the errors that are not over, by OID.
        self._facts = {it.oid: it for it in before.targets} if before else {}
        self._errors = {
            oid: it for oid, it in self._facts.items() if it.problem is not None
        }
        #: When this process has committed to tables last.
        self._committed: dict[int, dt.datetime] = {}
        #: The phase after the last round.
        self._ended: Phase | None = None
        self._phase = Phase(PhaseName.CONNECTING)
        if before is not None and before.error is not None:
            # Until a round shows that it is over.
            self._phase = Phase.degraded(Cause.TARGET, before.error)
        self._publish(self._phase)
        self._engines: dict[Engine, Tables] = {"delta": delta_tables(stop)}
        self._due: dict[int, float] = {}
        #: The pauses of targets that are looked at soon.
        self._pauses: dict[int, float] = {}
        #: The last problem of each table. None without one. By place, why its table left.
        self._problems: dict[int | str, str | None] = {}
        #: The tables whose targets wait for a load.
        self._waiting: set[int] = set()
        #: The tables of new targets, which get a load if changes were removed from the log.
        self._new: set[int] = set()
        self._asked: dict[int, _Asked] = {}
        #: The tables that the file meant when it was compared last. None before.
        self._meant: frozenset[int] | None = None
        self._reader: LogReader | None = None
        self._recorded = self._released = float("-inf")

    def keep(self) -> None:
        """Applies until it is stopped.

        Raises:
            Error: The log cannot be read.
        """
        while not self._stop.is_set():
            with contextlib.suppress(FileNotFoundError):
                self.round()
            now = time.monotonic()
            pause = min(it.every for it in self._loaded.file.target)
            next_ = min(self._due.values(), default=now + pause)
            self._stop.wait(max(0.0, next_ - now))

    def round(self) -> Outcome:  # noqa: PLR0915 -- one step after the other
        """Applies all tables whose time has come.

        Raises:
            FileNotFoundError: There is no log yet.
            Error: The log cannot be read, or Spark has ended.
        """
        now = time.monotonic()
        targets = self._loaded.file.target
        due = {at for at in range(len(targets)) if self._due.get(at, now) <= now}
        for at in due:
            self._due[at] = now + targets[at].every
        try:
            log = opened(self._loaded.log)
        except FileNotFoundError:
            self._look_soon(due, now)
            raise
        facts = facts_of(log)
        places = doubtful(self._loaded, facts)
        found = plan(self._loaded, facts, existing(places))
        try:
            has_requested, trouble = self._request(found.load, now), ""
        except (Error, OSError) as error:
            has_requested = False
            trouble = f". It cannot be requested: {text_of(error)}"
        if has_requested:
            self._pauses.clear()
        waiting = {it.claim.at for it in found.waiting}
        self._look_soon(due - ({it.at for it in found.apply} - waiting), now)
        self._hold(log, found.apply)
        self._clear_others(found)
        reports: dict[int, Report] = {}
        recorded = {it.place: it for it in facts.recorded}
        anew = [it for it in found.apply if it.place in places]
        if anew:
            # Before their first commit: after a crash, their places are not new any more.
            recorded |= {it.place: _begun(targets[it.at], it) for it in anew}
            write_targets(self._loaded.log, recorded.values())
        self._new = {
            it.table.oid
            for it in found.apply
            if targets[it.at].load == "auto"
            and it.table.oid not in facts.needs
            and recorded.get(it.place, _begun(targets[it.at], it)).end is None
        }
        self._take_others(reports, found)
        claims = [it for it in (*found.apply, *found.rest) if it.at in due]
        gone = self._apply(log, claims, reports, recorded)
        self._take_left(reports, found)
        requested = facts.requested or ()
        lacking = set() if facts.requested is None else self._new & self._waiting
        if self._request(
            [
                it
                for it in claims
                if it.table.oid in lacking and it.table.name not in requested
            ],
            now,
        ):
            has_requested = True
            self._pauses.clear()
        for each in found.waiting:
            oid = each.claim.table.oid
            if oid not in reports or reports[oid].applied is None:
                reports[oid] = Report(
                    table=each.claim.table.name,
                    target=each.claim.place,
                    problem=f"it needs a load, because {each.reason}{trouble}",
                    needs_load=True,
                )
        for claim in (*found.apply, *(it.claim for it in found.waiting)):
            # So that `walrow status` knows that somebody wants it.
            known = recorded.get(claim.place) or _begun(targets[claim.at], claim)
            recorded[claim.place] = replace(known, load=targets[claim.at].load)
        self._record(found, facts.recorded, recorded)
        needed = [
            it.claim
            for it in (*found.refused, *found.unaccepted)
            if it.claim.table.oid in facts.changed
        ]
        self._advance(log, (*found.apply, *found.rest, *needed), recorded)
        self._publish_round(found, recorded)
        if gone is not None:
            raise gone
        return Outcome(reports=tuple(reports.values()), has_requested=has_requested)

    def end(self, error: BaseException | None) -> None:
        """Publishes why it has ended, and nothing more."""
        text = None if error is None else text_of(error)
        self._publish(Phase(PhaseName.STOPPED, text=text))
        self._status.close()

    # ------------------------------------------------------------------ the steps

    def _publish(self, phase: Phase, *, now: bool = True) -> None:
        self._phase = phase
        facts = {**self._facts, **self._errors}.values()
        # The first ones have room in any case.
        targets = sorted(facts, key=lambda it: (it.problem is None, it.table))
        self._status.post(phase, self._rounds, targets=tuple(targets), now=now)

    def _publish_round(self, found: Plan, recorded: dict[str, Recorded]) -> None:
        """Publishes the targets after a round: now, if something has changed."""
        before, self._facts = self._facts, {}
        self._rounds += 1
        for claim in found.claims:
            oid, known = claim.table.oid, recorded.get(claim.place)
            end = known.end if known is not None and known.oid == oid else None
            committed = self._committed.get(oid)
            self._facts[oid] = replace(_facts(claim), end=end, committed=committed)
        asked = [it.reason for it in found.waiting if it.is_asked]
        asked += [it.text for it in found.unaccepted]
        phase = Phase(PhaseName.IDLE)
        if self._errors:
            first = min(self._errors.values(), key=lambda it: it.table)
            text = f"{first.table}: {first.problem}"
            phase = Phase.degraded(Cause.TARGET, text)
        elif asked:
            phase = Phase(PhaseName.WAITING_FOR_PERSON, text=asked[0])
        self._publish(phase, now=before != self._facts or phase != self._ended)
        self._ended = phase

    def _look_soon(self, at: Iterable[int], now: float) -> None:
        """Looks soon at targets without a table yet, or with one that waits for its load.

        The pauses grow up to the option `every`.
        """
        for each in at:
            longest = self._loaded.file.target[each].every
            self._pauses[each] = min(
                self._pauses.get(each, _FIRST_LOOK / 2) * 2, longest
            )
            self._due[each] = now + self._pauses[each]

    def _apply(
        self,
        log: Log,
        claims: Sequence[Claim],
        reports: dict[int, Report],
        recorded: dict[str, Recorded],
    ) -> GoneError | None:
        """Applies tables, and notes the results. Returns the error of an engine that has ended."""
        targets = self._loaded.file.target
        if claims and self._phase.name is not PhaseName.DEGRADED:
            self._publish(Phase(PhaseName.CATCHING_UP), now=False)
        jobs: dict[Engine, list[Job]] = {}
        for claim in claims:
            try:
                target = targets[claim.at]
                engine = engine_of(target)
                job = Job(claim, engine, options_of(target, engine))
            except BaseException as error:
                self._take(reports, claim, failure_of(error))
            else:
                jobs.setdefault(job.engine, []).append(job)

        def done(job: Job, result: Applied | Exception) -> None:
            self._take(reports, job.claim, result)
            if isinstance(result, Applied):
                place = job.claim.place
                target = targets[job.claim.at]
                recorded[place] = _recorded(job, target, result, recorded.get(place))

        gone = None
        for engine, its in jobs.items():
            try:
                if engine not in self._engines:
                    self._engines[engine] = self._spark()
                self._engines[engine].apply(log, its, done)
            except BaseException as caught:
                failure = failure_of(caught)
                gone = failure if isinstance(failure, GoneError) else gone
                # An engine that is not there is an error of each of its tables.
                for job in its:
                    if job.claim.table.oid not in reports:
                        self._take(reports, job.claim, failure)
        return gone

    def _request(self, claims: Iterable[Claim], now: float) -> bool:
        """Requests the loads of tables, but not too often."""
        wanted = []
        for claim in claims:
            before = self._asked.get(claim.table.oid)
            if before is None or now >= before.again:
                wanted.append(claim)
        if not wanted:
            return False
        names = [it.table.name for it in wanted]
        request(self._loaded.log, names, is_automatic=True)
        for claim in wanted:
            before = self._asked.get(claim.table.oid, _Asked(now, _FIRST_PAUSE / 2))
            pause = min(before.pause * 2, _LONGEST_PAUSE)
            self._asked[claim.table.oid] = _Asked(now + pause, pause)
        return True

    def _take(
        self, reports: dict[int, Report], claim: Claim, result: Applied | Exception
    ) -> None:
        """Notes the result of a table."""
        oid = claim.table.oid
        if isinstance(result, Applied):
            self._errors.pop(oid, None)
            self._problems[oid] = None
            self._waiting.discard(oid)
            reports[oid] = Report(
                table=claim.table.name, target=claim.place, applied=result
            )
            if result.committed:
                self._committed[oid] = dt.datetime.now(dt.UTC)
                self._listener(reports[oid])
            return
        code = getattr(result, "code", None) or type(result).__name__
        needs_load = (isinstance(result, ApplyError) and code == "incomplete") or (
            code == "pruned" and oid in self._new
        )
        (self._waiting.add if needs_load else self._waiting.discard)(oid)
        text = text_of(result)
        reports[oid] = Report(
            table=claim.table.name,
            target=claim.place,
            problem=text,
            needs_load=needs_load,
        )
        if self._problems.get(oid) == text:
            return
        self._problems[oid] = text
        self._listener(reports[oid])
        if needs_load:
            # The marks of the log say it.
            self._errors.pop(oid, None)
            return
        known = self._errors.get(oid)
        if known is None or known.problem != text:
            self._errors[oid] = _facts(claim, text)
            self._publish(self._phase)

    def _take_others(self, reports: dict[int, Report], found: Plan) -> None:
        """Reports the tables that are not applied, each once to the listener."""
        for refused in (*found.refused, *found.unaccepted):
            self._take(reports, refused.claim, OptionError(refused.text))
        for undecided in found.unaccepted:
            # The marks of the log say it.
            self._errors.pop(undecided.claim.table.oid, None)

    def _take_left(self, reports: dict[int, Report], found: Plan) -> None:
        """Reports the tables that left, unless a target failed to get the earlier changes."""
        for claim, why in found.left:
            oid = claim.table.oid
            applied = reports[oid].applied if oid in reports else None
            if oid in reports and applied is None:
                continue
            remedy = why.remedy(str(self._loaded.log))
            reports[oid] = Report(
                table=claim.table.name,
                target=claim.place,
                applied=applied,
                problem=f"{why}: {remedy}" if why.needs_ruling else None,
                left=str(why),
            )
            if self._problems.get(claim.place) != str(why):
                self._problems[claim.place] = str(why)
                self._listener(reports[oid])

    def _clear_others(self, found: Plan) -> None:
        """Removes the errors of tables that the file does not mean any more."""
        meant = frozenset(it.table.oid for it in found.claims)
        if meant == self._meant:
            return
        self._meant = meant
        self._errors = {oid: it for oid, it in self._errors.items() if oid in meant}

    def _record(
        self, found: Plan, before: Sequence[Recorded], now: dict[str, Recorded]
    ) -> None:
        """Records the targets, if something has changed that must not wait."""
        removed = {it.place for it in found.removed}
        targets = [replace(it, in_file=it.place not in removed) for it in now.values()]
        if targets == list(before):
            return
        # A position that is a little old does no harm: the target's own record counts.
        is_only_later = [replace(it, end=None) for it in targets] == [
            replace(it, end=None) for it in before
        ]
        due = self._recorded + _RECORD_SECONDS
        if is_only_later and time.monotonic() < due and not self._stop.is_set():
            return
        write_targets(self._loaded.log, targets)
        self._recorded = time.monotonic()

    def _hold(self, log: Log, claims: Iterable[Claim]) -> None:
        """Registers the reader that keeps the segments which targets still need.

        Targets that were applied by hand before have their own readers, which are forgotten.
        """
        if self._reader is None:
            self._reader = log.register(READER)
            names = {reader_of(it.place) for it in claims}
            for reader in log.readers():
                if reader.name in names:
                    reader.unregister()

    def _advance(
        self,
        log: Log,
        claims: Iterable[Claim],
        recorded: dict[str, Recorded],
    ) -> None:
        """Releases the segments that the targets of all these tables have."""
        reader = self._reader
        now = time.monotonic()
        if reader is None or now < self._released + _RECORD_SECONDS:
            return
        ends = [log.end]
        for claim in claims:
            known = recorded.get(claim.place)
            if claim.table.oid in self._waiting:
                # Nothing before the load is needed.
                continue
            # Two tables may mean one place.
            if known is None or known.end is None or known.oid != claim.table.oid:
                ends.append(Lsn(0))
            else:
                ends.append(known.end)
        try:
            reader.advance(max(min(ends), reader.position))
        except LogError as error:
            if error.code != "no_reader":
                raise
            # Somebody has forgotten it.
            self._reader = None
        self._released = now


@dataclass(frozen=True, slots=True)
class _Asked:
    """When a load of a table may be requested again, and the pause before."""

    again: float
    pause: float


def engine_of(target: Target) -> Engine:
    """The engine that writes a target.

    Raises:
        OptionError: None can, or it is not installed.
    """
    return choose(
        target.engine,
        target.to,
        of_spark=[],
        has_delta=is_there("deltalake"),
        has_spark=is_there("pyspark"),
    ).engine


def _recorded(
    job: Job, target: Target, result: Applied, before: Recorded | None
) -> Recorded:
    token = Token.from_json(result.token)
    keys = token.keys if token is not None else () if before is None else before.keys
    begun = _begun(target, job.claim)
    return replace(begun, engine=job.engine, keys=tuple(keys), end=result.end)


def _begun(target: Target, claim: Claim) -> Recorded:
    """A target before its first commit."""
    return Recorded(
        oid=claim.table.oid,
        table=claim.table.name,
        place=claim.place,
        engine=target.engine,
        mode=target.mode,
        load=target.load,
    )


def _facts(claim: Claim, problem: str | None = None) -> TargetFacts:
    since = None if problem is None else dt.datetime.now(dt.UTC)
    table = claim.table
    return TargetFacts(table.oid, table.name, claim.place, problem=problem, since=since)


_RECORD_SECONDS = 1.0
_FIRST_LOOK = 1.0
#: The pauses between two requests for the load of one table.
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 3600.0
