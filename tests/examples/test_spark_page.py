"""Runs the code of docs/spark.md, in order, in a directory with a capture."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from walrow.spark import source_options

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/spark.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_every_block_runs(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/data/18/rows.text.wire", tmp_path / "rows.wire")
    assert len(BLOCKS) == 5
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", "\n".join(BLOCKS)],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "| 20|update_postimage|" in result.stdout
    assert "10 changes" in result.stdout
    assert "10 rows in the target" in result.stdout
    assert "|update_postimage|    3|" in result.stdout


def test_the_page_has_every_option() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(source_options._PARSERS)
