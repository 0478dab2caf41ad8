"""docs/net.md: its code runs, its program is the example, and it names everything."""

import re
import subprocess
import sys
from pathlib import Path

import walrow
from streams import Column, begin, commit, insert, relation, update, wired
from walrow._log.net import Net

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/net.md").read_text()
FIRST, PROGRAM = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_first_block_runs(tmp_path: Path) -> None:
    columns = [Column("id", 23, is_key=True), Column("total", 1700)]
    changes = insert(["1", "2.50"]), update(["1", "3"]), insert(["2", None])
    walrow.seal(
        wired(begin(), relation(columns, name="orders"), *changes, commit()),
        log=tmp_path / "log",
    )
    said = subprocess.run(  # noqa: S603
        [sys.executable, "-c", FIRST],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        text=True,
    ).stdout
    assert said.startswith("3 changes of 2 rows, up to 0/1008\n")
    assert "{'id': 1, 'total': '3', '_change_type': 'insert'" in said


def test_the_program_is_the_example() -> None:
    assert PROGRAM in (ROOT / "examples/sqlite_target.py").read_text()


def test_every_attribute_and_every_code_is_on_the_page() -> None:
    attributes = {
        name
        for name, found in vars(Net).items()
        if isinstance(found, property) and name not in vars(walrow.Reader)
    }
    assert len(attributes) > 8
    for name in attributes | {"end", "oid", "keys", "versions"}:
        assert f"`net.{name}`" in PAGE
    refusals = (ROOT / "python/walrow/_log/net_refusals.py").read_text()
    net_range = (ROOT / "python/walrow/_log/net_range.py").read_text()
    codes = set(
        re.findall(
            r'(?:code=|yield self._refusal\(text, )"(\w+)"', refusals + net_range
        )
    )
    assert len(codes) > 4
    for code in codes:
        assert f"`{code}`" in PAGE
