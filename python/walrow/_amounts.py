"""Sizes, durations, and places in a log or a stream, as users write them: one parser for each."""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from decimal import Decimal
from typing import SupportsIndex

from walrow._lsn import Lsn
from walrow._secrets import brief
from walrow.errors import OptionError


def size(value: int | str, option: str) -> int:
    """The bytes of a size.

    >>> size("64MiB", "segment_size"), size("1.5 GB", "bytes"), size(100, "bytes")
    (67108864, 1500000000, 100)
    >>> size("32m", "partitionBytes")
    33554432

    Args:
        value: A number of bytes, or a text with a unit: B, kB, MB, GB and TB are powers of 1000.
            KiB, MiB, GiB and TiB are powers of 1024. So are k, m, g and t, as in Spark. Only 0
            needs no unit. A part of a byte does not count.
        option: The name of the option, for the error.

    Raises:
        OptionError: It is no size, negative, or more than a file can have.
    """
    number, unit = _split(value)
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif unit in _BYTES or (number, unit) == ("0", ""):
        found = int(Decimal(number) * _BYTES.get(unit, 0))
    else:
        found = None
    if found is not None and 0 <= found <= _MOST_BYTES:
        return found
    raise OptionError(
        f"{option} must be a size: a number of bytes, or a text such as '64MiB' or '50GB'"
        if found is None
        else f"{option} is {brief(found)}: it must be from 0 to {_MOST_BYTES} bytes"
    )


def duration(value: object, option: str) -> float:
    """The seconds of a duration.

    >>> (
    ...     duration("12h", "age"),
    ...     duration(dt.timedelta(minutes=1), "age"),
    ...     duration(2.5, "age"),
    ... )
    (43200.0, 60.0, 2.5)

    Args:
        value: Seconds, a timedelta, or a text with a unit: s, m (minutes), h, d or w. A text
            without a unit is a number of seconds, and `inf` is without end.
        option: The name of the option, for the error.

    Raises:
        OptionError: It is no duration, negative, or more than a float can have.
    """
    seconds = math.nan
    if isinstance(value, dt.timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = _seconds(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            text = f"{option} is {brief(value)}: that is too long; math.inf has no end"
            raise OptionError(text) from None
    # Nothing is true of nan.
    if seconds >= 0:
        return seconds
    is_number = isinstance(value, int | float | dt.timedelta)
    raise OptionError(
        f"{option} is {brief(value)}: it must be from 0 seconds on"
        if is_number and not isinstance(value, bool)
        else f"{option} must be a duration: seconds, a timedelta, or a text such as '12h' or '7d'"
    )


def at(value: object, option: str) -> Lsn | dt.datetime:
    """The place that an LSN or a time means.

    >>> at("16/B374D848", "end"), at("2026-01-31T12:00:00Z", "end").isoformat()
    (Lsn('16/B374D848'), '2026-01-31T12:00:00+00:00')
    >>> at("-1h", "end") < at("5m ago", "end") < dt.datetime.now(dt.UTC)
    True
    >>> at("today", "end") == at(f"{dt.date.today()}", "end")
    True

    Args:
        value: An LSN, a datetime with a time zone, a text of either, or a text such as `-1h`
            or `1h ago`, or `today`, which begins at midnight. A text in ISO 8601 without an
            offset, and `today`, are in the zone of `TZ`.
        option: The name of the option, for the error.

    Raises:
        OptionError: It is neither, or a datetime without a time zone.
        TypeError: It has another type.
    """
    if isinstance(value, str):
        value = _read(value)
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            return value
        raise OptionError(
            f"{option}: the datetime needs a time zone: datetime.now(UTC), or "
            ".replace(tzinfo=UTC)"
        )
    text = (
        f'{option} must be an LSN, such as "16/B374D848", or a time: a datetime with a time zone, '
        'a text such as "2026-01-31T12:00:00Z", "-1h", "1h ago" or "today"'
    )
    if value is None:
        raise OptionError(text)
    try:
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            return Lsn(operator.index(value))
    except ValueError as error:
        raise OptionError(f"{option}: {error}") from None
    try:
        # A driver may have its own class of LSNs, which prints like PostgreSQL.
        return Lsn(str(value))
    except ValueError:
        raise TypeError(f"{text}, not {type(value).__name__}") from None


def _read(text: str) -> object:
    """The LSN or the time of a text. None if it is neither."""
    try:
        if "/" in text:
            return Lsn(text)
        if text == "today":
            return dt.datetime.combine(dt.date.today(), dt.time()).astimezone()
        before = text.removeprefix("-").removesuffix(" ago")
        if len(text) - len(before) in _BEFORE and before[-1:].isalpha():
            return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=_seconds(before))
        time = dt.datetime.fromisoformat(text)
        # Without an offset, it is in the local zone.
        return time if time.tzinfo is not None else time.astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _seconds(text: str) -> float:
    """The seconds of a number with its unit. NaN if the text has another form."""
    if text == "inf":
        return math.inf
    number, unit = _split(text)
    return float(number) * _SECONDS.get(unit, math.nan)


def _split(value: object) -> tuple[str, str]:
    """The number and the unit, in small letters. An unknown unit if the text has another form."""
    found = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    return (found[1], found[2].lower()) if found else ("0", "?")


_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([A-Za-z]*)", re.ASCII)
#: The lengths of the marks in `-1h` and `1h ago`. A text has only one of them.
_BEFORE = {len("-"), len(" ago")}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MOST_BYTES = (1 << 63) - 1
_BYTES = {"b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _BYTES |= {f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}
    _BYTES[_letter] = 1024**_power
