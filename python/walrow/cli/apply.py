"""`walrow apply`: keeps a Delta or Iceberg table as a table of a log, with or without Spark."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from walrow._apply.engines import Choice, choose
from walrow._apply.items import Applied
from walrow._apply.options import ApplyOptions, DeltaApplyOptions, SparkApplyOptions
from walrow._apply.places import check_target
from walrow._late import is_there
from walrow._options import DURATION, Option
from walrow._results import counted
from walrow._waiting import pause
from walrow.cli.arguments import (
    OrByFile,
    Value,
    as_json,
    options_of,
    pairs,
    repeatable,
)
from walrow.cli.places import resolved
from walrow.cli.source import is_quiet, note, quiet
from walrow.cli.terminal import print_json, say
from walrow.errors import ApplyError, OptionError
from walrow.log import Log


@click.command(cls=OrByFile, by_file="apply_by_file")
@click.argument("log", metavar="LOG")
@options_of(ApplyOptions)
@click.option(
    "--engine",
    type=click.Choice(("auto", "delta", "spark")),
    default="auto",
    show_default=True,
    help="What writes the target. auto: for delta:PATH, deltalake if it is installed; for others, "
    "and with --conf, --cluster-by or --widen-types, Spark.",
)
@options_of(SparkApplyOptions, only=("cluster_by", "widen_types"))
@options_of(DeltaApplyOptions, only=("memory",))
@click.option(
    "--every",
    type=Value(Option("", DURATION, least=0.001)),
    metavar="DURATION",
    help="Apply again and again, with this pause, until it is stopped. It goes on if other "
    "writers were first.",
)
@repeatable(
    "--conf",
    "settings",
    metavar="NAME=VALUE",
    help="A setting of Spark, such as spark.jars.packages. Repeatable.",
)
@repeatable(
    "--storage-option",
    "storage",
    metavar="NAME=VALUE",
    help="Without Spark: an option of the target's object store, as deltalake takes it, such as "
    "AWS_REGION. Those of the environment count, too: keep secrets there. Repeatable.",
)
@as_json("Print what was done as JSON.")
@quiet
def apply(
    *,
    log: str,
    engine: str,
    every: float | None,
    settings: tuple[str, ...],
    storage: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Applies the changes of a table to a Delta or Iceberg table, exactly once.

    The target records how far it is. Run the command again after a crash, or whenever you
    like. Delta tables at a path or URL need no Spark. With Spark, its own settings apply, such
    as spark-defaults.conf and --conf.
    """
    given = pairs("--conf", settings)
    memory = options.pop("memory")
    own = {name: options.pop(name) for name in ("cluster_by", "widen_types")}
    of_spark = ["--conf"] if given else []
    of_spark += [f"--{name.replace('_', '-')}" for name, value in own.items() if value]
    check_target(options["target"])
    choice = choose(
        engine,
        options["target"],
        of_spark=of_spark,
        has_delta=is_there("deltalake"),
        has_spark=is_there("pyspark"),
    )
    if engine == "auto":
        note(f"walrow: engine {choice.engine}: {choice.reason}")
    if choice.engine == "spark":
        context = click.get_current_context()
        of_delta = {
            "--memory": context.get_parameter_source("memory")
            is ParameterSource.COMMANDLINE,
            "--storage-option": bool(storage),
        }
        for name, is_given in of_delta.items():
            if is_given:
                text = f"only --engine delta has {name}, and the engine is spark: {choice.reason}"
                raise OptionError(text)
        from walrow.cli.apply_spark import applier
        from walrow.spark.modes import check_call

        check_call(log, **options, **own)
        with applier(given, options["target"]) as (one, check):
            _repeat(
                one, check, log, options | own, choice, every=every, as_json=as_json
            )
        return
    from walrow.delta.applying import require
    from walrow.delta.modes import apply_changes

    require()
    options["memory"] = memory
    options["storage_options"] = _storage(storage)
    if sys.stderr is not None and sys.stderr.isatty() and not is_quiet():
        options["progress"] = _Progress()
    with _said():
        _repeat(
            apply_changes,
            lambda: None,
            log,
            options,
            choice,
            every=every,
            as_json=as_json,
        )


class _Progress:
    """Says now and then how many rows were read."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, rows: int) -> None:
        now = time.monotonic()
        if now - self._last >= _PAUSE:
            self._last = now
            say(f"walrow: {counted(rows, 'row')} read")


def _storage(items: Sequence[str]) -> dict[str, str]:
    """Splits each NAME=VALUE. A value may be a secret, which no message shows."""
    found = dict(item.partition("=")[::2] for item in items)
    if not all(found) or any("=" not in item for item in items):
        raise click.UsageError("--storage-option: expected NAME=VALUE")
    return found


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """Prints what an interruption leaves open."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as interruption:
        for note in getattr(interruption, "__notes__", ()):
            say(f"walrow: {note}")
        raise


def _repeat(
    one: Callable[..., Applied],
    check: Callable[[], None],
    log: str,
    options: dict[str, Any],
    choice: Choice,
    *,
    every: float | None,
    as_json: bool,
) -> None:
    """Applies once, or every so many seconds. `check` raises an interruption that was not seen yet."""
    end, place = options["end"], None
    while True:
        if isinstance(end, dt.datetime):
            # Later, the log may reach further.
            place = options["end"] = resolved(Log(log)._log, "--end", end, place)
        try:
            done = one(log, **options)
        except ApplyError as error:
            if every is None or error.code != "conflict":
                raise
            say(f"walrow: {error}: the next attempt is in {every:g} seconds")
        else:
            _show(replace(done, engine_reason=choice.reason), as_json=as_json)
            if done.token is not None:
                # From now on, a target without its record was set back.
                options["resume_from"] = None
        check()
        if every is None:
            return
        pause(every)


def _show(done: Applied, *, as_json: bool) -> None:
    if as_json:
        print_json(done.to_dict())
    else:
        what = counted(done.net_rows, "row") if done.committed else "nothing new"
        since = "" if done.since is None else f", true since {done.since.isoformat()}"
        note(f"walrow: {what}, {done.target} is at {done.end}{since}")


#: The seconds between two lines.
_PAUSE = 5
