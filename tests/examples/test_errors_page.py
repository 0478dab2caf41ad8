"""Runs the examples of docs/errors.md and compares what they print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import walrow

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/errors.md").read_text()
PAIRS = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize(("code", "printed"), PAIRS)
def test_example_prints_what_the_page_says(code: str, printed: str) -> None:
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
    )
    assert (result.stdout, result.stderr) == (printed, "")


def test_every_class_has_its_place_in_the_tree() -> None:
    classes = {
        name
        for name in walrow.errors.__all__
        if issubclass(getattr(walrow.errors, name), walrow.Error)
    } - {"Error"}
    tree, _, sections = PAGE.partition("## ")
    assert classes == set(re.findall(r"─ (\w+)", tree))
    titles = re.findall(r"^(?:## )?(\w+Error)$", sections, re.MULTILINE)
    assert set(titles) == classes
