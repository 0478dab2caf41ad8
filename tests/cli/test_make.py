"""The repository's own commands, where there is nothing but what they are made of."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(
    not (ROOT / "Makefile").exists() or shutil.which("make") is None,
    reason="needs make and the repository",
)

#: A Python that makes an environment in which everything succeeds and leaves its arguments.
PYTHON = """#!/bin/sh
echo "$@" >> calls
case "$1 $2" in
"-m venv") for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
esac
"""


def shell(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "WALROW_SLOW"}
    }
    return subprocess.run(  # noqa: S603
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
        text=True,
        timeout=50,
    )


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_environment_is_made_here_and_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    # What `a b/.venv` names where a shell takes it for two.
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kept").touch()
    found = shell(folder, "make", ".venv/.created", f"PYTHON={folder}/python")
    assert found.returncode == 0, found.stderr
    calls = (folder / "calls").read_text().splitlines()
    assert "-m venv --clear .venv" in calls
    assert (folder / ".venv" / ".created").exists()
    assert {file.name for file in tmp_path.iterdir()} == {"a", "a b"}
    assert (tmp_path / "a" / "kept").exists()
    found = shell(folder, "make", ".venv/.created", f"PYTHON={folder}/python")
    assert found.returncode == 0, found.stderr
    assert (folder / "calls").read_text().splitlines() == calls


STAGES = """
stage-good:
	@true
stage-slow:
	@sleep 1.2
stage-bad:
	@false
"""


def test_stages_over_budget_are_told_and_fail_nothing(tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text() + STAGES
    (tmp_path / "Makefile").write_text(makefile)
    stages = "STAGES=good:1 slow:0 good:1"
    found = shell(tmp_path, "make", "test", stages)
    assert found.returncode == 0, found.stderr
    assert "!!! took longer than the budget: slow\n" in found.stderr
    summary = (tmp_path / "target" / "stages").read_text().splitlines()
    assert [line.split()[0] for line in summary] == ["good", "slow", "good", "all"]
    assert summary[1].endswith("ok, OVER BUDGET")
    found = shell(tmp_path, "make", "test", stages, "MINUTES=0")
    assert found.returncode == 0, found.stderr
    assert "!!! took longer than the budget: slow all\n" in found.stderr
    found = shell(tmp_path, "make", "test-all", stages, "MINUTES=0")
    assert found.returncode == 0, found.stderr
    assert "!!!" not in found.stderr
    found = shell(tmp_path, "make", "test", "STAGES=good:1 bad:1 good:1")
    assert found.returncode != 0
    assert "stage bad failed" in found.stdout
    summary = (tmp_path / "target" / "stages").read_text().splitlines()
    assert [line.split()[0] for line in summary] == ["good", "bad", "all"]


@pytest.mark.parametrize("failing", [False, True])
def test_change_is_told_its_stages_when_one_fails(
    tmp_path: Path, *, failing: bool
) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "stages").write_text("of an earlier run")
    makefile = "test:\n\t@mkdir -p target; echo lint 0:01 > target/stages\n"
    if failing:
        makefile += "\t@exit 3\n"
    (tmp_path / "Makefile").write_text(makefile + "demo:\n\t@echo demo\n")
    found = shell(tmp_path, str(tmp_path / ".ci" / "run"))
    assert (found.returncode != 0) == failing
    assert "lint 0:01\n" in found.stdout
    assert ("demo\n" in found.stdout) != failing
    assert "of 30 minutes" in found.stdout
    # As if a minute were no second long.
    script = tmp_path / ".ci" / "run"
    script.write_text(script.read_text().replace("minutes=30", "minutes=-1"))
    late = shell(tmp_path, str(script))
    assert late.returncode != 0
    assert ("that is too long" in late.stderr) != failing
