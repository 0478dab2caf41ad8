"""Runs the code of docs/log.md, in order, in a directory with a capture."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/log.md").read_text()
FOUND = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
#: One block has no end: tests/cli/test_follow_live.py runs its commands.
BLOCKS = [(kind, code) for kind, code in FOUND if not code.startswith("walrow follow")]


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the command zstd")
def test_every_block_runs(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/data/18/rows.text.wire", tmp_path / "stream.wire")
    programs = [str(Path(sys.executable).parent), os.environ["PATH"]]
    assert len(BLOCKS) == 10
    shown = []
    for language, code in BLOCKS:
        command = {
            "sh": ["sh", "-eu", "-c", code],
            "python": [sys.executable, "-c", code],
        }[language]
        result = subprocess.run(  # noqa: S603
            command,
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PATH": os.pathsep.join(programs)},
            text=True,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        shown.append(result.stdout)
    sealed, again, read, followed, state, registered, verified, *rest = shown
    compacted, tables, backed_up = rest
    assert "0000000000000000-00000.wire.zst" in sealed
    assert again.startswith("0 7 0/")
    assert "public.item 9 1\n" in read
    assert "public.item 10\n" in read
    assert "10 rows; continue at 0/1\n" in followed
    assert state == "2 rows\n"
    assert registered == "10 rows for nightly\n"
    first, *status, empty, head, reader, by_age, by_place = verified.splitlines()
    assert first == "1 segment verified"
    assert [it.partition(":")[0] for it in status] == [
        *("receiver", "applier", "source", "log")
    ]
    assert empty == ""
    assert head.startswith("reader")
    assert reader.startswith("nightly")
    assert [by_age, by_place] == ["0 segments, 0 bytes removed", "0 segments removed"]
    assert compacted == "0 segments merged into 0, 0 bytes copied\n"
    assert "public.stock" in tables
    assert backed_up == "1 segment verified\n"


def test_the_tables_name_every_file_and_every_fact() -> None:
    facts = (ROOT / "crates/walrow-stream/src/fact.rs").read_text()
    (enum,) = re.findall(
        r"^pub enum Fact \{\n(.*?)^\}", facts, re.MULTILINE | re.DOTALL
    )
    names = re.findall(r"^    (\w+)(?:\(| \{|,)", enum, re.MULTILINE)
    for name in set(names) - {"Unknown"}:
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        assert f"\n| `{snake}` |" in PAGE
    files = (ROOT / "crates/walrow-log/src/lib.rs").read_text()
    for name in re.findall(r"^//! \| `([^`]+)` \|", files, re.MULTILINE):
        assert f"| `{name}` |" in PAGE
