"""`walrow receive --config` and `walrow apply --config`: the parts of `walrow run`, alone."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from walrow._log.retention import Retention
from walrow._log.status_record import Part, StatusFile
from walrow._receive.options import ReceiveOptions
from walrow._receive.receiving import receive as receive_into_log
from walrow._results import counted
from walrow._run.applier import Applier, Outcome, Report
from walrow._run.config import Loaded, shared
from walrow._run.engines import Tables, spark_tables
from walrow._run.parent import from_parent
from walrow._run.reading import read
from walrow._run.records import RunFolder
from walrow._run.status import PartStatus, part_of
from walrow._run.supervisor import LEFT, REQUESTED
from walrow.cli.source import is_quiet, note, quiet
from walrow.cli.states import Notes, is_trouble
from walrow.cli.stopping import stopped_by_signals
from walrow.cli.terminal import print_json, printable, say
from walrow.errors import Error

F = TypeVar("F", bound="Callable[..., Any]")


def _by_file(function: F) -> F:
    """Adds the options that both commands have by a file."""
    for option in (
        quiet,
        click.option(
            "--json", "as_json", is_flag=True, help="Print JSON, line by line."
        ),
        # Only `walrow run` gives it.
        click.option("--supervised", "is_supervised", is_flag=True, hidden=True),
        click.option(
            "--config",
            "path",
            required=True,
            metavar="FILE",
            help="The file of walrow run.",
        ),
    ):
        function = option(function)
    return function


@click.command()
@_by_file
@click.option(
    "--until",
    type=click.Choice(["now"]),
    help="End when everything that is committed by now is in the log.",
)
# Only `walrow run` gives it.
@click.option("--again", "is_again", is_flag=True, hidden=True)
def receive_by_file(
    *,
    path: str,
    is_supervised: bool,
    until: Literal["now"] | None,
    is_again: bool,
    as_json: bool,
) -> None:
    """Receives as the file of `walrow run` says, until it is stopped."""
    loaded = _loaded(path, is_supervised=is_supervised)
    source, log = loaded.file.source, loaded.file.log
    retention = Retention(log.retain_age, log.retain_size, log.forget_after)
    stop = threading.Event()
    shown = _Receiving(as_json=as_json, is_again=is_again)
    with stopped_by_signals(stop):
        received = receive_into_log(
            source.dsn,
            log=loaded.log,
            until=until,
            retain=retention if retention != Retention() else None,
            progress=shown,
            stop=stop,
            cross_gap=source.on_gap == "snapshot",
            **shared(source, ReceiveOptions),
            **shared(log, ReceiveOptions),
        )
    for each in received.left:
        say(f"walrow receive: the log lacks {printable(str(each))}")
    if received.left:
        raise click.exceptions.Exit(LEFT)


@click.command()
@_by_file
@click.option(
    "--once", is_flag=True, help="Apply once, and name the tables that are behind."
)
# Only `walrow run` gives these.
@click.option("--may-request", is_flag=True, hidden=True)
@click.option("--incomplete", "is_incomplete", is_flag=True, hidden=True)
def apply_by_file(
    *,
    path: str,
    is_supervised: bool,
    once: bool,
    may_request: bool,
    is_incomplete: bool,
    as_json: bool,
) -> None:
    """Keeps targets current as the file of `walrow run` says, until it is stopped."""
    loaded = _loaded(path, is_supervised=is_supervised)
    folder = RunFolder(loaded.log)
    stop = threading.Event()
    outcome: Outcome | None = None
    with contextlib.ExitStack() as stack:
        if not is_supervised:
            stack.enter_context(_locked(loaded, folder))
        stack.enter_context(stopped_by_signals(stop))
        stack.enter_context(folder.applying(stop, _wait))

        def spark() -> Tables:
            from walrow.cli.apply_spark import session, without_text

            found = stack.enter_context(session(loaded.file.spark))
            return spark_tables(
                found, stop, lambda error, target: without_text(error, found, target)
            )

        applier = Applier(
            loaded,
            stop=stop,
            spark=spark,
            listener=lambda report: _show(report, as_json=as_json),
            status=StatusFile(loaded.log, Part.APPLY),
        )
        stack.push(lambda _, error, __: applier.end(error))
        if once:
            try:
                outcome = applier.round()
            except FileNotFoundError:
                raise _no_log(loaded) from None
        else:
            applier.keep()
    if outcome is None:
        return
    if outcome.has_requested and may_request:
        raise click.exceptions.Exit(REQUESTED)
    receiver = part_of(loaded.log, Part.RECEIVE, is_wanted=False)
    reasons = list(receiver.reasons)
    if is_incomplete and not reasons:
        reasons.append("the receiver has failed before it could publish why")
    _summary(outcome, receiver, reasons, as_json=as_json)
    if outcome.behind or reasons:
        raise click.exceptions.Exit(1)


def _wait() -> None:
    note("walrow apply: waits for the end of an earlier applier of this log")


def _loaded(path: str, *, is_supervised: bool) -> Loaded:
    return from_parent(Path(path)) if is_supervised else read(path)


def _no_log(loaded: Loaded) -> Error:
    return Error(f"there is no log in {loaded.log} yet: run walrow receive first")


@contextlib.contextmanager
def _locked(loaded: Loaded, folder: RunFolder) -> Iterator[None]:
    if not loaded.log.is_dir():
        raise _no_log(loaded)
    with folder.locked():
        yield


class _Receiving(Notes):
    """Shows the states of a receiver."""

    def __init__(self, *, as_json: bool, is_again: bool) -> None:
        super().__init__()
        self._as_json = as_json
        #: Whether an earlier receiver, seconds ago, has shown the findings of the preflight.
        self._is_again = is_again
        #: Whether the last line said so, or followed from it.
        self._is_streaming = False

    def __call__(self, status: Any) -> None:
        if self._as_json:
            print_json({"part": Part.RECEIVE.value} | status.to_dict())
            return
        if (
            not self.has_news(status)
            or (is_quiet() and not is_trouble(status))
            or (self._is_again and _FINDING.match(status.note or ""))
            or (status.note is None and self._is_streaming)
        ):
            return
        self._is_streaming = status.state == "streaming"
        # A note of one that streams, or that has all, is about something else.
        is_telling = status.note is None or status.state not in _AT_WORK
        parts: list[str] = [status.state] if is_telling else []
        parts += [] if status.note is None else [printable(status.note)]
        say(": ".join(["walrow receive", *parts]))


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        print_json(record_of(report))
    elif report.problem is not None:
        say(f"walrow apply: {report.table}: {report.problem}")
    elif report.left is not None:
        note(f"walrow apply: {report.table}: {report.left}")
    elif report.applied is not None:
        rows = counted(report.applied.net_rows, "row")
        note(f"walrow apply: {report.table}: {rows}, up to {report.applied.end}")


def record_of(report: Report) -> dict[str, Any]:
    """A table's outcome as JSON."""
    applied = report.applied
    return {
        "part": Part.APPLY.value,
        "table": report.table,
        "target": report.target,
        "end": None if applied is None else str(applied.end),
        "net_rows": None if applied is None else applied.net_rows,
        "engine": None if applied is None else applied.engine,
        "problem": report.problem,
        "needs_load": report.needs_load,
        "left": report.left,
    }


def _summary(
    outcome: Outcome, receiver: PartStatus, reasons: list[str], *, as_json: bool
) -> None:
    """Prints the tables that are current, and the others. The reasons keep all of them from that."""
    if as_json:
        record = {
            "part": "run",
            "is_current": not (outcome.behind or reasons),
            "reasons": reasons,
            "receiver": receiver.to_dict(),
            "tables": [record_of(it) for it in outcome.reports],
        }
        print_json(record)
        return
    for each in outcome.behind:
        say(f"walrow: {each.table} is not current: {each.problem}")
    for each in outcome.reports:
        if each.left is not None and each.problem is None:
            note(f"walrow: {each.table} has left: {each.left}")
    present = [it for it in outcome.reports if it.left is None]
    applied = sum(it.problem is None for it in present)
    for reason in reasons:
        say(f"walrow: no table is known to be current: {reason}")
    what = "have all of the log" if reasons else "are current"
    note(f"walrow: tables that {what}: {applied} of {len(present)}")


_AT_WORK = ("streaming", "stopping")
#: A finding of the preflight, with its code.
_FINDING = re.compile(r"warning: .* \[[a-z0-9-]+\](: |$)")
