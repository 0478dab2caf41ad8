"""The marks of a table that keep it from being applied."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any, cast

import pytest

from walrow._apply.tables import refuse_incomplete
from walrow._log.marks import Mark, Why
from walrow._lsn import Lsn
from walrow.errors import ApplyError


class Table:
    name = "public.t"


class Log:
    location = "log"
    slot_start = Lsn(0x1000)


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
    arguments = cast("Any", (Log, Table, marks, Lsn(start), Lsn(0x3000)))
    if is_refused:
        with pytest.raises(ApplyError) as caught:
            refuse_incomplete(*arguments)
        assert caught.value.code == "incomplete"
    else:
        refuse_incomplete(*arguments)
