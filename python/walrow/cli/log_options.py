"""The options of the commands that write to a log."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Any

import click

from walrow._amounts import duration, size
from walrow._log.retention import Retention
from walrow.cli.arguments import Number
from walrow.errors import OptionError


class _Size(click.ParamType[int]):
    """A size, such as 64MiB. A number alone is in MiB."""

    name = "size"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Refuses other text."""
        try:
            return size(f"{value}MiB" if value[-1:].isdigit() else value, "")
        except OptionError:
            self.fail(f"{value} is not a size, such as 64MiB or 50GB", param, ctx)


class _Duration(click.ParamType[float]):
    """A duration in seconds, or with its unit, such as 7d."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuses other text."""
        with contextlib.suppress(TypeError, ValueError):
            value = float(value)
        try:
            return duration(value, "")
        except OptionError:
            self.fail(f"{value} is not a duration, such as 10s, 12h or 7d", param, ctx)


class _Kept(click.ParamType[Any]):
    """The transactions that a log keeps, by their age or their size."""

    name = "duration|size"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.timedelta | int:
        """Refuses other text, and numbers without a unit."""
        if not isinstance(value, str):
            kept: dt.timedelta | int = value
            return kept
        try:
            return dt.timedelta(seconds=duration(value, ""))
        except (OptionError, OverflowError):
            pass
        try:
            return size(value, "")
        except OptionError:
            self.fail(
                f"{value} is not a duration or a size, such as 7d, 12h, 50GB or 800MiB",
                param,
                ctx,
            )


SIZE = _Size()
DURATION = _Duration()
KEPT = _Kept()


def retention(
    kept: tuple[dt.timedelta | int, ...], forget_after: float | None
) -> Retention:
    """What `--retain` and `--keep` ask for."""
    ages = [each for each in kept if isinstance(each, dt.timedelta)]
    sizes = [each for each in kept if not isinstance(each, dt.timedelta)]
    if max(len(ages), len(sizes)) > 1:
        text = "give one age and one size at most"
        raise click.UsageError(text)
    return Retention(
        next(iter(ages), None), next(iter(sizes), None), forget_after=forget_after
    )


forget_after = click.option(
    "--forget-after",
    type=DURATION,
    metavar="DURATION",
    help="Forget readers that were not used for so long.",
)

log = click.option("--log", required=True, metavar="DIR", help="The log's directory.")

segment_size = click.option(
    "--segment-size",
    type=SIZE,
    default="64MiB",
    show_default=True,
    metavar="SIZE",
    help="The size of the stream after which a segment ends.",
)

level = click.option(
    "--level",
    type=Number(-131_072, 22),
    default=1,
    show_default=True,
    help="The compression level of zstd; levels below 0 are faster. 0 stores the stream as it is.",
)

spool_memory = click.option(
    "--spool-memory",
    type=SIZE,
    default="64MiB",
    show_default=True,
    metavar="SIZE",
    help="The memory of open transactions. Beyond it, they wait in files.",
)

spool_directory = click.option(
    "--spool-directory",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="The directory of these files. Default: the log's for receive, otherwise the system's.",
)

group_access = click.option(
    "--group-access", is_flag=True, help="Let the owner's group read the log."
)
