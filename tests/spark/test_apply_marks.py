"""The marks of a table that keep it from being applied."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any, NamedTuple, cast

import pytest

from walrow._log.marks import Mark, Why
from walrow._log.net_refusals import problems
from walrow._lsn import Lsn


class Table(NamedTuple):
    marks: list[Mark]
    name: str = "public.t"
    left: None = None


HAD_ROWS = Mark(Why.HAD_ROWS, "it had rows", Lsn(0x1000))
DEFAULT = Mark(Why.DEFAULT, "column c was added", Lsn(0x1000))


@pytest.mark.parametrize(
    ("marks", "start", "is_refused"),
    [
        ([HAD_ROWS], 0x1000, False),
        ([HAD_ROWS], 0, True),
        # Only the first reason is excused, although both are of the slot's start.
        ([HAD_ROWS, DEFAULT], 0x1000, True),
        ([DEFAULT], 0x1000, True),
        ([replace(DEFAULT, until=Lsn(0x2000))], 0x1000, False),
        ([replace(DEFAULT, until=Lsn(0x4000))], 0x1000, True),
        ([replace(DEFAULT, accepted=dt.datetime.now(dt.UTC))], 0x1000, False),
        ([replace(DEFAULT, since=Lsn(0x4000))], 0x1000, False),
    ],
)
def test_a_target_that_began_elsewhere_excuses_rows_from_before_the_slot(
    *, marks: list[Mark], start: int, is_refused: bool
) -> None:
    table = cast("Any", Table(marks))
    found = problems("log", table, Lsn(start), Lsn(0x3000), Lsn(0x5000))
    assert {error.code for error, _ in found} == (
        {"incomplete"} if is_refused else set()
    )
