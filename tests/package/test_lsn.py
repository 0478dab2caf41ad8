"""`walrow.Lsn`: an int that prints as PostgreSQL prints an LSN."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

import walrow
from captures import capture
from walrow import Lsn

TEXTS = [
    (0, "0/0"),
    (0x16_B374_D848, "16/B374D848"),
    (1 << 32, "1/0"),
    ((1 << 64) - 1, "FFFFFFFF/FFFFFFFF"),
]


@pytest.mark.parametrize(("number", "text"), TEXTS)
def test_text_and_number_are_the_same_lsn(number: int, text: str) -> None:
    lsn = Lsn(text)
    assert lsn == Lsn(number) == Lsn(lsn) == Lsn(text.lower()) == number
    assert (str(lsn), repr(lsn), f"{lsn}") == (text, f"Lsn({text!r})", text)
    assert int(lsn) == number
    assert type(int(lsn)) is int


def test_formats_of_numbers_show_the_number_and_others_the_text() -> None:
    lsn = Lsn("1/A")
    assert f"{lsn:d} {lsn:#x} {lsn:,d}" == "4294967306 0x10000000a 4,294,967,306"
    assert f"{lsn:>5}|{lsn:<5}|{lsn:s}" == "  1/A|1/A  |1/A"
    assert f"{lsn!r}" == "Lsn('1/A')"
    assert json.dumps([lsn]) == "[4294967306]"


def test_it_is_an_int_elsewhere() -> None:
    lsn = Lsn("1/A")
    numbers: dict[int, int] = {lsn: 1}
    assert numbers[4294967306] == 1
    assert sorted([lsn, 5, Lsn(7)]) == [5, 7, lsn]
    for result in (lsn + 1, 1 + lsn, lsn - Lsn("1/0"), lsn >> 32, max(lsn, 5) - 0):
        assert type(result) is int
    assert lsn - Lsn("1/0") == 10
    assert range(3)[Lsn(1)] == 1


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_pickled_and_copied(protocol: int) -> None:
    lsn = Lsn("16/B374D848")
    for other in (pickle.loads(pickle.dumps(lsn, protocol)), copy.deepcopy(lsn)):
        assert other == lsn
        assert type(other) is Lsn


@pytest.mark.parametrize("text", ["", "/", "0", "1A2B", "0/+1", "0/123456789", "0x1/2"])
def test_other_texts_are_value_errors(text: str) -> None:
    with pytest.raises(ValueError, match="an LSN is two hexadecimal numbers"):
        Lsn(text)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (-1, ValueError),
        (1 << 64, ValueError),
        (True, TypeError),
        (1.0, TypeError),
        (None, TypeError),
        (b"0/1", TypeError),
    ],
)
def test_other_values_are_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="an LSN is"):
        Lsn(value)


def test_all_lsns_are_of_the_class_lsn() -> None:
    rows = capture("rows")
    reader = walrow.read(rows.path)
    assert type(reader.position) is Lsn
    list(reader)
    assert type(reader.position) is Lsn
    assert str(reader.position).startswith("0/")
    found = set()
    for frame in walrow.frames(rows.path):
        fields = {**frame.fields, **(frame.message.fields if frame.message else {})}
        for name, value in fields.items():
            is_lsn = name in {"start", "end", "lsn"} or name.endswith("_lsn")
            assert (type(value) is Lsn) == is_lsn, name
            found.add(name)
    assert {"start", "end", "commit_lsn", "end_lsn", "final_lsn"} <= found
    prepared = capture("two-phase").path.read_bytes()
    lsns = set()
    decoder = walrow.Decoder()
    for at in range(len(prepared)):
        list(decoder.feed(prepared[at : at + 1]))
        for each in decoder.prepared:
            lsns |= {each["prepare_lsn"], each["prepare_end_lsn"]}
    assert lsns
    assert {type(lsn) for lsn in lsns} == {Lsn}


def test_the_lsn_of_an_error_is_one() -> None:
    data = capture("rows").data.replace(b"1.50", b"x.50")
    with pytest.raises(walrow.errors.DecodeError) as caught:
        list(walrow.read(data))
    assert type(caught.value.lsn) is Lsn
    assert f"lsn {caught.value.lsn}" in str(caught.value)
    assert type(pickle.loads(pickle.dumps(caught.value)).lsn) is Lsn


@pytest.mark.parametrize("form", [Lsn, int, str])
def test_start_takes_each_form(form: Any) -> None:
    path = capture("rows").path
    reader = walrow.read(path)
    assert list(reader)
    again = walrow.read(path, start=form(reader.position))
    assert list(again) == []
