"""SHOW: the value of a setting, as text and as a number."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

import psycopg

from walrow._core import parse_setting, show_command
from walrow._postgres.hints import Command
from walrow._postgres.running import row_of, run
from walrow._postgres.session import text_of
from walrow.errors import BackupError


def show(conn: psycopg.Connection[Any], setting: str) -> str:
    """Returns the value of a setting of the session, with its unit: `16MB`.

    ```python
    with psycopg.connect("dbname=shop", replication="true") as conn:
        print(walrow.postgres.show(conn, "wal_segment_size"))
    ```

    Args:
        conn: A psycopg connection of any kind.
        setting: The setting's name.

    Raises:
        ReplicationError: There is no such setting, or the role may not see it.
        OptionError: The connection cannot be used.
    """
    failed = f'cannot show setting "{setting}"'
    result = run(conn, show_command(setting), failed, Command.QUERY)
    return text_of(conn, parse_setting(row_of(result)))


def show_amount(conn: psycopg.Connection[Any], setting: str) -> int:
    """Returns the value of a setting that has a unit, in bytes or milliseconds."""
    return _amount(show(conn, setting))


def wal_segment_size(conn: psycopg.Connection[Any]) -> int:
    """The size of the server's segments, if it is one that a server can have."""
    try:
        size = show_amount(conn, "wal_segment_size")
    except (KeyError, ValueError):
        size = 0
    if size not in _SEGMENT_SIZES:
        text = "the server's wal_segment_size is not a power of 2 from 1 MB to 1 GB"
        raise BackupError(text, code="protocol")
    return size


def _amount(text: str) -> int:
    """A setting as SHOW writes it, in bytes or milliseconds.

    >>> _amount("16MB"), _amount("1min"), _amount("0")
    (16777216, 60000, 0)
    """
    number = text.rstrip(ascii_letters)
    return int(number) * _UNITS[text[len(number) :]]


#: From 1 MB to 1 GB.
_SEGMENT_SIZES = frozenset(1 << power for power in range(20, 31))
_UNITS = {
    "": 1,
    "B": 1,
    "kB": 1 << 10,
    "MB": 1 << 20,
    "GB": 1 << 30,
    "ms": 1,
    "s": 1_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
