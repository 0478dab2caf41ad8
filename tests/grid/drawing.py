"""Random values, as PostgreSQL's input takes them. Arrow can hold all of them."""

from __future__ import annotations

import ipaddress
import json
import math
import struct
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

from grid import printing

LETTERS = "abcXYZ019 _-.,;:!?(){}[]<>\"'\\/|&*@#$%=+~^`\t\n\r\v\f\x01\x7fäßé中文🦀\u200b\ufeff"
DATES = (-2_440_588, 2_145_042_905)
MICROS = (-2_440_588 * printing.DAY, (1 << 63) - 1)


def whole(low: int, high: int) -> Callable[[Random], str]:
    """Draws integers, with few digits as often as with many."""

    def draw(random: Random) -> str:
        size = random.randrange(1, 65)
        return str(min(high, max(low, random.randrange(-(1 << size), 1 << size))))

    return draw


def moment(random: Random, low: int, high: int) -> int:
    """Draws moments near today, near the limits and round numbers, and anywhere."""
    size = random.choice((1 << 20, 1 << 40, 1 << 51, high))
    drawn = min(high, max(low, random.randrange(-size, size)))
    return drawn // 1_000_000 * 1_000_000 if random.random() < 0.3 else drawn


def date(random: Random) -> str:
    size = random.choice((30_000, 4_000_000, DATES[1]))
    return printing.date(max(DATES[0], random.randrange(-size, size)))


def time(random: Random) -> str:
    drawn = random.randrange(printing.DAY)
    return printing.time(
        drawn - drawn % random.choice((1, 1000, 1_000_000, 60_000_000))
    )


def timetz(random: Random) -> str:
    # PostgreSQL refuses offsets beyond 15:59:59.
    offset = random.randrange(16 * 3600)
    offset -= offset % random.choice((1, 60, 900, 3600))
    return f"{time(random)}{random.choice('+-')}{printing.time(offset * 1_000_000)}"


def timestamp(random: Random) -> str:
    return printing.timestamp(moment(random, *MICROS))


def timestamptz(random: Random) -> str:
    return printing.timestamp(moment(random, *MICROS), "+00")


def interval(random: Random) -> str:
    # The most microseconds that fit 64 bits of nanoseconds.
    limit = ((1 << 63) - 1) // 1000
    months, days = (
        random.choice(
            (0, random.randrange(-50, 50), random.randrange(-(1 << 31) + 1, 1 << 31))
        )
        for _ in range(2)
    )
    return printing.interval(months, days, moment(random, -limit, limit))


def float8(random: Random) -> str:
    if random.random() < 0.3:
        return repr(round(random.uniform(-1000, 1000), random.randrange(6)))
    (value,) = struct.unpack("<d", random.randbytes(8))
    return repr(value) if math.isfinite(value) else "-0"


def float4(random: Random) -> str:
    if random.random() < 0.3:
        return repr(round(random.uniform(-1000, 1000), random.randrange(4)))
    (value,) = struct.unpack("<f", random.randbytes(4))
    return repr(value) if math.isfinite(value) else "NaN"


def half(random: Random) -> str:
    (value,) = struct.unpack("<e", random.randbytes(2))
    return repr(value) if math.isfinite(value) else "0.5"


def numeric(precision: int, scale: int) -> Callable[[Random], str]:
    """Draws numbers that fit a column of this precision and scale."""

    def draw(random: Random) -> str:
        digits = random.randrange(10 ** random.randrange(1, precision + 1))
        return random.choice(("", "-")) + printing.scaled(digits, scale)

    return draw


def any_numeric(random: Random) -> str:
    digits = random.randrange(10 ** random.randrange(1, 60))
    return random.choice(("", "-")) + printing.scaled(digits, random.randrange(-20, 60))


def text(random: Random) -> str:
    if random.random() < 0.05:
        return random.choice(
            ("", "NULL", "null", "empty", "{}", "()", "''", '""', "\\")
        )
    return "".join(random.choices(LETTERS, k=random.randrange(1, 24)))


def short(size: int) -> Callable[[Random], str]:
    def draw(random: Random) -> str:
        # PostgreSQL cuts trailing blanks from a value that is too long, so it may have some.
        return "".join(random.choices(LETTERS, k=random.randrange(size + 1)))

    return draw


def name(random: Random) -> str:
    return text(random)[:15]


def byte(random: Random) -> str:
    return chr(random.randrange(1, 127))


def bytea(random: Random) -> str:
    return "\\x" + random.randbytes(random.randrange(20)).hex()


def uuids(random: Random) -> str:
    return str(uuid.UUID(bytes=random.randbytes(16)))


def jsonb(random: Random) -> str:
    return json.dumps(_tree(random, 3), ensure_ascii=random.random() < 0.5)


def _tree(random: Random, depth: int) -> Any:
    kind = random.randrange(7 if depth else 5)
    if kind > 4:
        items = [_tree(random, depth - 1) for _ in range(random.randrange(4))]
        return items if kind > 5 else {text(random): item for item in items}
    return (None, True, text(random), random.randrange(-(10**30), 10**30), 1.5)[kind]


def bits(low: int, high: int) -> Callable[[Random], str]:
    def draw(random: Random) -> str:
        return "".join(random.choices("01", k=random.randint(low, high)))

    return draw


def address(random: Random) -> tuple[Any, int]:
    if random.random() < 0.5:
        return ipaddress.IPv4Address(random.randbytes(4)), 32
    words = [random.choice((b"\0\0", b"\0\1", random.randbytes(2))) for _ in range(8)]
    return ipaddress.IPv6Address(b"".join(words)), 128


def inet(random: Random) -> str:
    found, size = address(random)
    return f"{found}/{random.choice((size, random.randint(0, size)))}"


def cidr(random: Random) -> str:
    found, size = address(random)
    network = f"{found}/{random.choice((size, random.randint(0, size)))}"
    return str(ipaddress.ip_network(network, strict=False))


def mac(size: int) -> Callable[[Random], str]:
    return lambda random: random.randbytes(size).hex(":")


def lexemes(random: Random) -> str:
    def lexeme() -> str:
        quoted = (text(random) or "x").replace("\\", "\\\\").replace("'", "''")
        places = ",".join(
            f"{random.randrange(1, 16384)}{random.choice('ABCD')}"
            for _ in range(random.randrange(4))
        )
        return f"'{quoted}'" + (f":{places}" if places else "")

    return " ".join(lexeme() for _ in range(random.randrange(6)))


def query(random: Random, depth: int = 3) -> str:
    word = "".join(random.choices("abcé'", k=random.randrange(1, 5))).replace("'", "''")
    if depth == 0 or random.random() < 0.3:
        return f"'{word}'" + random.choice(("", ":*", ":A", ":*BC"))
    if random.random() < 0.2:
        return f"!({query(random, depth - 1)})"
    left, right = (query(random, depth - 1) for _ in range(2))
    return f"({left}) {random.choice(('&', '|', '<->', '<7>'))} ({right})"


def snapshot(random: Random) -> str:
    low = random.randrange(1, 1 << random.randrange(3, 62))
    high = low + random.randrange(100)
    inside = sorted(
        {random.randrange(low, high) for _ in range(3)} if high > low else []
    )
    return f"{low}:{high}:{','.join(map(str, inside))}"


def listed(
    item: Callable[[Random], str], write: str, low: int = 0
) -> Callable[[Random], str]:
    """Draws several values and joins them: `write` has the start, the separator and the end."""
    begin, joint, end = write.split("|")

    def draw(random: Random) -> str:
        items = [item(random) for _ in range(random.randrange(low, low + 6))]
        return begin + joint.join(items) + end

    return draw


def point(random: Random) -> str:
    return f"({float8(random)},{float8(random)})"


def line(random: Random) -> str:
    return f"{{{float4(random)},{random.randrange(1, 9)},{float8(random)}}}".replace(
        "NaN", "1"
    )


def circle(random: Random) -> str:
    return f"<{point(random)},{float8(random).lstrip('-')}>"


def path(random: Random) -> str:
    points = listed(point, "|,|", 1)(random)
    return f"({points})" if random.random() < 0.5 else f"[{points}]"


def span(
    bound: Callable[[Random], str], key: Callable[[str], Any]
) -> Callable[[Random], str]:
    """Draws ranges; `key` finds the lower one of two bounds."""

    def draw(random: Random) -> str:
        if random.random() < 0.05:
            return "empty"
        low, high = sorted((bound(random), bound(random)), key=key)
        left, right = (
            "" if random.random() < 0.1 else _doubled(text) for text in (low, high)
        )
        return f"{random.choice('[(')}{left},{right}{random.choice(')]')}"

    return draw


def spans(one: Callable[[Random], str]) -> Callable[[Random], str]:
    return lambda random: (
        "{" + ",".join(one(random) for _ in range(random.randrange(5))) + "}"
    )


def _doubled(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '""') + '"'


def hstore(random: Random) -> str:
    keys = {text(random) for _ in range(random.randrange(5))}
    values = (None if random.random() < 0.2 else text(random) for _ in keys)
    return printing.hstore(zip(keys, values, strict=True))


def label(random: Random) -> str:
    return "".join(random.choices("abcXYZ019_", k=random.randrange(1, 8)))


def small(random: Random) -> str:
    """Draws a number with few digits, which every float can hold."""
    return repr(random.randrange(-1 << 12, 1 << 12) / 16)


def sparse(random: Random) -> str:
    size = random.randrange(1, 1 << random.randrange(2, 16))
    places = sorted({random.randint(1, size) for _ in range(random.randrange(6))})
    numbers = (float4(random).replace("NaN", "1") for _ in places)
    pairs = ",".join(f"{p}:{n}" for p, n in zip(places, numbers, strict=True))
    return f"{{{pairs}}}/{size}"
