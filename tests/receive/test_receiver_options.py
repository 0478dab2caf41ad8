"""Options of a receiver that are refused before it connects or makes a log."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import walrow
from servers.receiving import ReceiverProcess

NOWHERE = "host=/nowhere dbname=postgres"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("publish_after", math.inf),
        ("publish_after", math.nan),
        ("publish_after", 0.005),
        ("publish_after", 0.0),
        ("publish_after", -1),
        ("publish_after", 1e300),
        ("start_within", math.nan),
        ("start_within", -1),
        ("segment_size", 0),
        ("segment_size", -1),
        ("segment_size", 1 << 63),
        ("spool_memory", -1),
        ("spool_memory", 1 << 63),
    ],
)
def test_numbers_that_make_no_sense(tmp_path: Path, name: str, value: float) -> None:
    log = tmp_path / "log"
    with pytest.raises(walrow.errors.OptionError) as caught:
        walrow.receive(NOWHERE, log=log, slot="s", publications="p", **{name: value})  # type: ignore[arg-type]
    assert f"{name} is {value}: it must be from" in str(caught.value)
    assert not log.exists()


@pytest.mark.parametrize("until", ["Now", "", "tomorrow", 5])
def test_ends_that_do_not_exist(tmp_path: Path, until: object) -> None:
    """They would never come."""
    log = tmp_path / "log"
    with pytest.raises(walrow.errors.OptionError) as caught:
        walrow.receive(NOWHERE, log=log, slot="s", publications="p", until=until)  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"until is {until!r}: it must be 'now'")
    assert not log.exists()


def test_a_log_has_a_name() -> None:
    with pytest.raises(walrow.errors.OptionError, match="log is empty"):
        walrow.receive(NOWHERE, log="", slot="s", publications="p")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--publish-after", "inf"], "the value is inf"),
        (["--publish-after", "nan"], "is not a duration"),
        (["--publish-after", "1e300"], "is not a duration"),
        (["--start-within", "nan"], "is not a duration"),
        (["--segment-size", "99999999999999999999MiB"], "is not a size"),
        (["--spool-memory", "99999999999999999999MiB"], "is not a size"),
        (["--segment-size", "-64"], "is not a size"),
        (["--segment-size", "0B"], "the value is 0"),
        (["--start-within", "soon"], "is not a duration"),
        (["--retain", "64"], "64 is not a duration or a size"),
    ],
)
def test_numbers_on_the_command_line(
    tmp_path: Path, arguments: list[str], named: str
) -> None:
    with ReceiverProcess(NOWHERE, tmp_path / "log", *arguments) as receiver:
        text = receiver.ended(2)
    assert named in text
    assert "Traceback" not in text
