"""`make check`: which changes it sees, and what it runs for them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import check

ROOT = Path(__file__).resolve().parents[2]


def git(root: Path, *arguments: str) -> None:
    user = (
        "-c",
        "user.name=n",
        "-c",
        "user.email=e@x",
        "-c",
        "init.defaultBranch=main",
    )
    command = ["git", *user, *arguments]
    subprocess.run(command, cwd=root, check=True, capture_output=True)  # noqa: S603


def commit(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    git(root, "add", "-A")
    git(root, "commit", "-m", "more")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose main branch has the file `first`."""
    found = tmp_path / "repository"
    found.mkdir()
    git(found, "init")
    commit(found, "first")
    return found


def test_on_the_main_branch_only_what_is_not_committed(root: Path) -> None:
    commit(root, "second")
    assert check.changes(root) == ([], "0 files differ from the last commit")
    (root / "first").write_text("changed")
    (root / "new").write_text("new")
    assert check.changes(root)[0] == ["first", "new"]


def test_a_branch_has_its_commits_and_what_is_not_committed(root: Path) -> None:
    git(root, "checkout", "-b", "work")
    commit(root, "committed")
    git(root, "rm", "-q", "first")
    (root / "new").write_text("new")
    git(root, "checkout", "-q", "--detach")
    expected = ["committed", "first", "new"]
    assert check.changes(root) == (
        expected,
        "3 files differ from the merge base with main",
    )


def test_a_commit_of_main_after_the_branch_is_no_change(root: Path) -> None:
    git(root, "checkout", "-b", "work")
    commit(root, "mine")
    git(root, "checkout", "-q", "main")
    commit(root, "others")
    git(root, "checkout", "-q", "work")
    assert check.changes(root)[0] == ["mine"]


def test_commits_of_main_that_a_remote_lacks_are_changes(
    root: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", str(root), str(clone))
    commit(clone, "not pushed")
    assert check.changes(clone)[0] == ["not pushed"]


@pytest.mark.parametrize("is_shallow", [True, False])
def test_everything_is_checked_without_a_merge_base(
    root: Path, tmp_path: Path, *, is_shallow: bool
) -> None:
    if is_shallow:
        commit(root, "second")
        clone = tmp_path / "clone"
        git(tmp_path, "clone", "--depth=1", f"file://{root}", str(clone))
        root = clone
    else:
        git(root, "branch", "-m", "work")
    paths, why = check.changes(root)
    assert paths is None
    assert why.endswith("everything that is quick is checked")


def programs(*changed: str) -> list[str]:
    """The commands, without the options of their programs."""
    short = []
    for command in check.commands([*changed], ROOT):
        words = [it for it in command if it in ("-p", "--workspace") or it[0] != "-"]
        short.append(" ".join(words).replace(f"auto {check.QUICK} ", ""))
    return short


def test_a_change_of_a_crate_is_checked_with_this_crate() -> None:
    assert programs("crates/walrow-log/src/error/mod.rs") == [
        "cargo fmt",
        "cargo clippy -p walrow-log warnings",
        "cargo test -p walrow-log memory_does_not_grow",
    ]
    assert programs("Cargo.lock")[1] == "cargo clippy --workspace warnings"


def test_a_change_of_python_is_checked_with_its_folder() -> None:
    lints = ["ruff check .", "ruff format .", "mypy"]
    assert programs("python/walrow/cli/app.py") == [*lints, "pytest tests/cli"]
    # A folder has its files.
    both = programs("python/walrow/cli/app.py", "tests/cli/test_help.py")
    assert both == [*lints, "pytest tests/cli"]
    one = programs("tests/cli/test_help.py", "tests/cli/test_that_was_removed.py")
    assert one == [*lints, "pytest tests/cli/test_help.py"]
    # A helper has the tests that import it.
    (pytest_of_helper,) = programs("tests/probes/commands.py")[3:]
    assert "tests/cli/test_probes.py" in pytest_of_helper
    assert "tests/cli/test_help.py" not in pytest_of_helper
    assert programs("CHANGELOG.md") == []


def test_every_package_and_every_folder_of_tests_is_in_the_table() -> None:
    for path in (ROOT / "python").rglob("*.py"):
        name = str(path.relative_to(ROOT))
        assert check.tests_of(name, ROOT), name
    for row in check.TABLE:
        for folder in row.tests:
            assert folder == "{path}" or (ROOT / folder).exists(), folder
    crates = {it.name for it in (ROOT / "crates").iterdir()} - {"walrow-py"}
    assert set(check.CRATES) == crates


def test_the_guide_has_the_table() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert "\n".join(check.table()) in guide, "python tests/check.py --table"
    assert len(guide.splitlines()) <= 120


def test_a_pattern_has_whole_parts_of_a_path() -> None:
    assert check.matches("tests/cli/test_help.py", "tests/*/test_*.py")
    assert not check.matches("tests/a/b/test_help.py", "tests/*/test_*.py")
    assert check.matches("docs/speed/floor.md", "docs/**")
    assert not check.matches("docs.md", "docs/**")
