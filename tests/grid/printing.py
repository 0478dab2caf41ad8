"""PostgreSQL's text of numbers, moments and containers, written from plain values.

It is slow on purpose and shares no code with the decoder. It uses the pinned settings: ISO
dates, `postgres` intervals, the shortest floats, UTC.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction

DAY = 86_400_000_000
#: Days from 0001-01-01, which is number 1, to 1970-01-01.
_EPOCH = datetime.date(1970, 1, 1).toordinal()
#: The calendar repeats after 400 years.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097


def date(days: int) -> str:
    """Writes the date this number of days after 1970-01-01."""
    cycles, rest = divmod(_EPOCH + days - 1, _CYCLE_DAYS)
    within = datetime.date.fromordinal(rest + 1)
    year = within.year + cycles * _CYCLE_YEARS
    era = "" if year > 0 else " BC"
    # There is no year 0: 1 BC is the one before 1.
    shown = year if year > 0 else 1 - year
    return f"{shown:04}-{within.month:02}-{within.day:02}{era}"


def time(micros: int) -> str:
    """Writes a time of day without zeros at the end of the fraction."""
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}{_fraction(fraction)}"


def timestamp(micros: int, zone: str = "") -> str:
    """Writes the moment this number of microseconds after 1970-01-01."""
    days, rest = divmod(micros, DAY)
    day, before, era = date(days).partition(" BC")
    return f"{day} {time(rest)}{zone}{before}{era}"


def interval(months: int, days: int, micros: int) -> str:
    """Writes an interval; a unit after a negative one has a sign."""
    years = abs(months) // 12 * (1 if months > 0 else -1)
    said: list[str] = []
    negative = False
    for value, unit in ((years, "year"), (months - 12 * years, "mon"), (days, "day")):
        if value:
            sign = "+" if negative and value > 0 else ""
            plural = "" if value == 1 else "s"
            said.append(f"{sign}{value} {unit}{plural}")
            negative = value < 0
    if micros or not said:
        sign = "-" if micros < 0 else "+" if negative else ""
        said.append(sign + time(abs(micros)))
    return " ".join(said)


def decimal(value: Decimal) -> str:
    """Writes all digits without an exponent."""
    return format(value, "f")


def float8(value: float) -> str:
    """Writes the shortest digits that are nearer to this number than to any other."""
    return _float(value, repr(value), struct.Struct("<d"), struct.Struct("<q"), 15)


def float4(value: float) -> str:
    """Like `float8`, for a number of 32 bits."""
    # Nine digits always suffice; `_digits` finds fewer.
    return _float(value, f"{value:.8e}", struct.Struct("<f"), struct.Struct("<i"), 6)


def array(items: Iterable[str | None], delimiter: str = ",") -> str:
    """Writes a list, with ambiguous items in quotes."""
    special = '{}"\\' + delimiter + " \t\n\r\v\f"

    def item(text: str | None) -> str:
        if text is None:
            return "NULL"
        if text and text.upper() != "NULL" and not any(c in special for c in text):
            return text
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "{" + delimiter.join(map(item, items)) + "}"


def row(fields: Iterable[str | None]) -> str:
    """Writes a composite value; an empty field is null."""

    def field(text: str | None) -> str:
        return "" if text is None else _doubled(text, '(),"\\ \t\n\r\v\f')

    return "(" + ",".join(map(field, fields)) + ")"


def bounds(
    lower: str | None, upper: str | None, *, inclusive: tuple[bool, bool]
) -> str:
    """Writes a range; None is no bound."""

    def bound(text: str | None) -> str:
        return "" if text is None else _doubled(text, '()[],"\\ \t\n\r\v\f')

    return (
        f"{'[' if inclusive[0] else '('}{bound(lower)},"
        f"{bound(upper)}{']' if inclusive[1] else ')'}"
    )


def hstore(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Writes the pairs of an hstore."""

    def quoted(text: str | None) -> str:
        if text is None:
            return "NULL"
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return ", ".join(f"{quoted(key)}=>{quoted(value)}" for key, value in pairs)


def _doubled(text: str, special: str) -> str:
    if text and not any(c in special for c in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _fraction(micros: int) -> str:
    return f".{micros:06}".rstrip("0") if micros else ""


def _float(
    value: float, exact: str, form: struct.Struct, bits: struct.Struct, fixed: int
) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0"
    digits, exponent = _digits(abs(value), exact.lstrip("-"), form, bits)
    if not -4 <= exponent < fixed:
        point = "." if len(digits) > 1 else ""
        mark = "-" if exponent < 0 else "+"
        return f"{sign}{digits[0]}{point}{digits[1:]}e{mark}{abs(exponent):02}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    rest = digits[exponent + 1 :]
    return f"{sign}{whole}.{rest}" if rest else sign + whole


def _digits(
    value: float, exact: str, form: struct.Struct, bits: struct.Struct
) -> tuple[str, int]:
    """Finds the digits, and the power of ten of the first one."""
    (pattern,) = bits.unpack(form.pack(value))
    here = Fraction(value)
    below = _number(pattern - 1, form, bits)
    above = _number(pattern + 1, form, bits)
    # PostgreSQL never writes a decimal halfway between two numbers. Python's repr does.
    low, high = (here + below) / 2, (here + above) / 2
    exponent = Decimal(exact).adjusted()
    # Python's digits are the fewest with such decimals, so no fewer digits are possible without.
    fewest = len(Decimal(exact).normalize().as_tuple().digits) if form.size == 8 else 1
    for size in range(fewest, 18):
        unit = Fraction(10) ** (exponent - size + 1)
        floor = here // unit
        found = [n for n in (floor, floor + 1) if low < n * unit < high]
        if found:
            nearest = min(found, key=lambda n: (abs(n * unit - here), n % 2))
            text = str(nearest)
            shift = len(text) - size
            return text.rstrip("0"), exponent + shift
    raise AssertionError(value)


def _number(pattern: int, form: struct.Struct, bits: struct.Struct) -> Fraction:
    (value,) = form.unpack(bits.pack(pattern))
    if math.isinf(value):
        # Where the next number would be, if the exponent went on.
        last = _number(pattern - 1, form, bits)
        return last + (last - _number(pattern - 2, form, bits))
    return Fraction(value)


def scaled(digits: int, scale: int) -> str:
    """Writes an integer divided by a power of ten, with its number of digits after the point."""
    with localcontext() as context:
        context.prec = 200_000
        return decimal(Decimal(digits).scaleb(-scale))
