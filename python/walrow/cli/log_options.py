"""The retention of a log, as the command line writes it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import click

from walrow._amounts import duration, size
from walrow._log.retention import Retention
from walrow.errors import OptionError


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
        # Without a unit, it could be either.
        words = value if value[-1:].isalpha() else "?"
        try:
            return dt.timedelta(seconds=duration(words, ""))
        except (OptionError, OverflowError):
            pass
        try:
            return size(words, "")
        except OptionError:
            self.fail(
                f"{value} is not a duration or a size, such as 7d, 12h, 50GB or 800MiB",
                param,
                ctx,
            )


kept = click.option(
    "--retain",
    "kept",
    type=_Kept(),
    multiple=True,
    metavar="DURATION|SIZE",
    help="How long transactions are kept, such as 7d, or how many bytes, such as 50GB. With both, "
    "what is beyond one of them is removed. Default: everything is kept.",
)


def retention(
    kept: tuple[dt.timedelta | int, ...], forget_after: float | None
) -> Retention:
    """The retention that `--retain` asks for."""
    ages = [each for each in kept if isinstance(each, dt.timedelta)]
    sizes = [each for each in kept if not isinstance(each, dt.timedelta)]
    if max(len(ages), len(sizes)) > 1:
        raise click.UsageError("give one age and one size at most")
    return Retention(
        next(iter(ages), None), next(iter(sizes), None), forget_after=forget_after
    )
