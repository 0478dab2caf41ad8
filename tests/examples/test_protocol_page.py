"""docs/protocol.md: each part of the protocol has a row, and each row a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text("utf-8")
WIRE = ROOT / "crates" / "walrow-wire" / "src"


def rows(title: str) -> list[list[str]]:
    """The rows of the table below a title, as cells."""
    part = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]
    ]


def letters(title: str) -> set[str]:
    return {it for row in rows(title) for it in re.findall(r"`(\w)`", row[0])}


def test_each_test_is_there() -> None:
    links = re.findall(r"\[`(\w+)`\]\(\.\./([^)]+)\)", PAGE)
    assert len(links) > 50
    for name, path in links:
        source = (ROOT / path).read_text("utf-8")
        assert re.search(
            rf"^\s*(?:async )?(?:def|fn) {name}\b", source, re.MULTILINE
        ), f"{path} has no {name}"


@pytest.mark.parametrize(
    "title",
    [
        "Commands",
        "Options of pgoutput",
        "Messages of the server around a COPY",
        "Payloads of CopyData",
        "Payloads of a base backup, from server 15",
        "Messages of logical replication",
    ],
)
def test_each_row_has_a_test(title: str) -> None:
    assert rows(title)
    for row in rows(title):
        assert "](../" in row[-1], row


def test_each_command_has_a_row() -> None:
    source = (WIRE / "command" / "mod.rs").read_text("utf-8")
    variants = source.partition("pub enum ReplicationCommand")[2].partition("\n}\n")[0]
    commands = set(re.findall(r"/// `([A-Z_]+)`", variants))
    assert len(commands) >= 9
    named = " ".join(row[0] for row in rows("Commands"))
    assert [it for it in sorted(commands) if it not in named] == []


def test_each_message_has_a_row() -> None:
    # As the manual has them.
    assert letters("Messages of logical replication") == set(
        "BMCORYIUDTSEcAbPKrp" + "nutb"
    )
    assert letters("Payloads of CopyData") == set("wkrh")
    assert letters("Payloads of a base backup, from server 15") == set("nmdp")
    backend = (WIRE / "backend.rs").read_text("utf-8")
    known = backend.partition("fn is_known")[2].partition("}")[0]
    tags = set(re.findall(r"b'(\w)'", known))
    assert len(tags) == 15
    assert letters("Messages of the server around a COPY") == tags


def test_each_option_of_a_stream_has_a_row() -> None:
    source = (WIRE / "command" / "start.rs").read_text("utf-8")
    names = re.findall(r'Self::\w+\(_\) => "(\w+)"', source)
    assert len(names) == 7
    text = " ".join(row[0] for row in rows("Options of pgoutput"))
    assert [name for name in names if f"`{name}`" not in text] == []
