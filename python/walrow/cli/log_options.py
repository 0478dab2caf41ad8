"""The options of the commands that write to a log."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from walrow._log.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Amount(click.ParamType[Any]):
    """An amount of time or of bytes, such as 7d or 50GB."""

    def __init__(
        self, name: str, units: Mapping[str, dt.timedelta | int], example: str
    ) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.timedelta | int:
        """Refuses other text."""
        if not isinstance(value, str):
            converted: dt.timedelta | int = value
            return converted
        found = _AMOUNT.fullmatch(value)
        number, unit = found.groups() if found else ("0", "")
        amount: dt.timedelta | int | None = None
        with contextlib.suppress(OverflowError, KeyError):
            one = self._units[unit.lower()]
            # A part of a byte does not count.
            amount = (
                float(number) * one
                if isinstance(one, dt.timedelta)
                else int(Decimal(number) * one)
            )
        if amount is None:
            self.fail(f"{value} is not {self._example}", param, ctx)
        return amount


def retention(
    kept: tuple[dt.timedelta | int, ...], forget_after: dt.timedelta | None
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


_AMOUNT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([A-Za-z]+)", re.ASCII)
_TIMES: dict[str, dt.timedelta | int] = {
    "s": dt.timedelta(seconds=1),
    "m": dt.timedelta(minutes=1),
    "h": dt.timedelta(hours=1),
    "d": dt.timedelta(days=1),
    "w": dt.timedelta(weeks=1),
}
_SIZES: dict[str, dt.timedelta | int] = {"b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _SIZES |= {f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}
AGE = _Amount("age", _TIMES, "an age, such as 30d or 12h")
AGE_OR_SIZE = _Amount(
    "age|size", _TIMES | _SIZES, "an age or a size, such as 7d, 12h, 50GB or 800MiB"
)

forget_after = click.option(
    "--forget-after",
    type=AGE,
    metavar="AGE",
    help="Forget readers that were not used for so long.",
)

log = click.option("--log", required=True, metavar="DIR", help="The log's directory.")

segment_size = click.option(
    "--segment-size",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    metavar="MIB",
    help="The size of the stream after which a segment ends.",
)

level = click.option(
    "--level",
    type=click.IntRange(-131_072, 22),
    default=1,
    show_default=True,
    help="The compression level of zstd; levels below 0 are faster. 0 stores the stream as it is.",
)

spool_memory = click.option(
    "--spool-memory",
    type=click.IntRange(min=0),
    default=64,
    show_default=True,
    metavar="MIB",
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
