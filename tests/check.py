"""Checks what changed since the merge base with the main branch: `make check`.

It formats nothing and builds nothing: after a change of Rust, `make build` comes first. Uncommitted
changes and new files count. In this file is the table of what is run for which change. What needs a server, Java, cargo in a test or minutes is left to `make test`.

    python tests/check.py            checks
    python tests/check.py --list     shows the commands
    python tests/check.py --table    shows the table of CONTRIBUTING.md
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
QUICK = "not live and not spark and not slow and not builds"


class Row(NamedTuple):
    """What a change of some files may break.

    Attributes:
        changed: Patterns of paths. The first row that has a path decides.
        tests: Folders of tests. `{path}` is the changed file.
        seconds: About how long they take on two cores.
    """

    changed: tuple[str, ...]
    tests: tuple[str, ...]
    seconds: int


#: Rows of Rust: what changed, its crate, and about how many seconds its tests take.
CRATES = {
    "walrow-wire": 10,
    "walrow-types": 10,
    "walrow-stream": 20,
    "walrow-log": 50,
    "walrow-arrow": 40,
    "walrow": 20,
    "walrow-testkit": 20,
}

# The table of folders.
TABLE = (
    Row(("python/walrow/_read/**",), ("tests/read", "tests/reference"), 60),
    Row(("python/walrow/_sources/**",), ("tests/sources",), 20),
    Row(("python/walrow/_log/**", "python/walrow/log.py"), ("tests/log",), 60),
    Row(
        ("python/walrow/_postgres/**", "python/walrow/postgres.py"),
        ("tests/postgres",),
        10,
    ),
    Row(("python/walrow/_receive/**",), ("tests/receive", "tests/simulation"), 50),
    Row(("python/walrow/_backup/**", "python/walrow/backup.py"), ("tests/backup",), 20),
    Row(("python/walrow/_apply/**",), ("tests/apply", "tests/delta"), 50),
    Row(("python/walrow/delta/**",), ("tests/delta",), 50),
    Row(("python/walrow/spark/**", "python/pyspark_walrow/**"), ("tests/spark",), 20),
    Row(("python/walrow/_run/**",), ("tests/run",), 30),
    Row(("python/walrow/cli/**",), ("tests/cli",), 90),
    Row(
        ("python/walrow/_core.pyi", "crates/walrow-py/**"),
        ("tests/package", "tests/read"),
        80,
    ),
    Row(("python/**",), ("tests/package",), 20),
    Row(
        ("docs/**", "README.md", "examples/**"),
        (
            "tests/examples",
            "tests/package/test_options_list.py",
            "tests/read/test_types_page.py",
        ),
        30,
    ),
    Row(("tests/conftest.py", "tests/server_fixtures.py"), ("tests",), 300),
    Row(("tests/*/test_*.py",), ("{path}",), 10),
)
# The end of the table.


def main() -> int:
    """Runs what is left to check, all of it, and returns an exit code."""
    if "--table" in sys.argv:
        print("\n".join(table()))  # noqa: T201
        return 0
    changed, why = changes(ROOT)
    say(why)
    stale(ROOT)
    failed = []
    for command in commands(changed, ROOT):
        say(f"$ {shlex.join(command)}")
        if "--list" in sys.argv:
            continue
        began = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603
        # pytest's 5: each of these tests needs a server, Java or minutes.
        if code and (command[0], code) != ("pytest", 5):
            failed.append(shlex.join(command))
        say(f"  {time.monotonic() - began:.0f} s")
    for command_line in failed:
        say(f"failed: {command_line}")
    return 1 if failed else 0


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def changes(root: Path) -> tuple[list[str] | None, str]:
    """The paths that differ from the main branch, and what they were compared with.

    None means everything: the history does not have the merge base.
    """
    if git(root, "rev-parse", "--is-shallow-repository") == "true":
        return None, "the clone is shallow: everything that is quick is checked"
    base, compared = merge_base(root)
    if base is None:
        return None, "there is no main branch: everything that is quick is checked"
    paths = set()
    for arguments in (
        ("diff", "--name-only", "--no-renames", "-z", base),
        ("ls-files", "--others", "--exclude-standard", "-z"),
    ):
        paths |= {*filter(None, (git(root, *arguments) or "").split("\0"))}
    return sorted(paths), f"{len(paths)} files differ from {compared}"


def merge_base(root: Path) -> tuple[str | None, str]:
    """The newest commit that this branch shares with the main branch, here or at a remote."""
    here = git(root, "symbolic-ref", "--quiet", "HEAD")
    found = []
    for name in ("origin/HEAD", "origin/main", "origin/master", "main", "master"):
        ref = f"refs/{'remotes' if '/' in name else 'heads'}/{name}"
        if git(root, "rev-parse", "--verify", "--quiet", ref) is None:
            continue
        # On the main branch, what is not committed is compared with the last commit.
        base = "HEAD" if ref == here else git(root, "merge-base", "HEAD", ref)
        if base is not None:
            ahead = int(git(root, "rev-list", "--count", f"{base}..HEAD") or 0)
            remote = "/" in name
            # On the main branch itself, a remote's is the one to compare with.
            found.append((ref == here, ahead, remote, base, name))
    if not found:
        return None, ""
    *_, base, name = min(found)
    return base, "the last commit" if base == "HEAD" else f"the merge base with {name}"


def git(root: Path, *arguments: str) -> str | None:
    """What a command of git prints, or None if it fails."""
    done = subprocess.run(  # noqa: S603
        ["git", *arguments],  # noqa: S607
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode else done.stdout.strip("\n")


def commands(changed: list[str] | None, root: Path) -> list[list[str]]:
    """The commands for these paths; None is for everything."""
    everything = changed is None
    paths = ["Cargo.toml", "tests/conftest.py"] if changed is None else changed
    found: list[list[str]] = []
    if any(it.endswith((".rs", "Cargo.toml", "Cargo.lock")) for it in paths):
        found += rust(paths)
    if any(it.endswith((".py", ".pyi", ".ipynb", "pyproject.toml")) for it in paths):
        found += [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]]
    if everything or any(
        it.endswith(".pyi") or it.startswith("crates/walrow-py/") for it in paths
    ):
        found.append([sys.executable, "-m", "mypy.stubtest", "walrow._core"])
    tests = {
        it for path in paths for it in tests_of(path, root) if (root / it).exists()
    }
    # A folder has its files.
    tests = {it for it in tests if not tests & {str(up) for up in Path(it).parents}}
    if tests:
        found.append(["pytest", "-q", "-n", "auto", "-m", QUICK, *sorted(tests)])
    return found


def rust(paths: list[str]) -> list[list[str]]:
    """The commands of cargo for the crates that changed, or for all."""
    crates = sorted({it for path in paths if (it := crate_of(path))})
    if "" in crates or any("/" not in path for path in paths if is_cargo(path)):
        chosen = ["--workspace"]
    else:
        chosen = [word for crate in crates for word in ("-p", crate)]
    found = [["cargo", "fmt", "--all", "--check"]]
    if any(path.startswith("fuzz/") for path in paths):
        manifest = ("--manifest-path", "fuzz/Cargo.toml")
        found.append(["cargo", "fmt", *manifest, "--check"])
    if chosen:
        lints = ("--all-targets", "--all-features", "--locked", "--", "-D", "warnings")
        found.append(["cargo", "clippy", *chosen, *lints])
        # One test counts the bytes of its whole process, alone.
        skipped = ("--", "--skip", "memory_does_not_grow")
        found.append(["cargo", "test", *chosen, "--locked", *skipped])
    return found


def is_cargo(path: str) -> bool:
    return path in {"Cargo.toml", "Cargo.lock"}


def crate_of(path: str) -> str | None:
    """The crate that a file belongs to."""
    match path.split("/"):
        case ["crates", crate, *_, last] if not last.endswith(".md"):
            return crate
        case ["benches", *_, last] if last.endswith(".rs"):
            return "walrow-benches"
    return None


def tests_of(path: str, root: Path) -> list[str]:
    """The tests of a file, by the first row that has it. A helper's are those that import it."""
    for row in TABLE:
        if any(matches(path, pattern) for pattern in row.changed):
            return [it.format(path=path) for it in row.tests]
    if path.startswith("tests/") and path.endswith(".py"):
        return users(path, root)
    return []


def users(path: str, root: Path) -> list[str]:
    """The tests that import a module of `tests`, or all tests beside a `conftest.py`."""
    folder, name = path.rsplit("/", 1)
    if name == "conftest.py":
        return [folder]
    module = path.removeprefix("tests/").removesuffix(".py").removesuffix("/__init__")
    first = module.partition("/")[0]
    imports = re.compile(rf"^\s*(?:from|import) {first}\b", re.MULTILINE)
    return [
        str(test.relative_to(root))
        for test in sorted((root / "tests").glob("*/test_*.py"))
        if imports.search(test.read_text("utf-8"))
    ]


def matches(path: str, pattern: str) -> bool:
    """Whether a path has a pattern: `*` is a part of a name, and `/**` all that is below."""
    if pattern.endswith("/**"):
        return path.startswith(pattern.removesuffix("**"))
    parts, wanted = path.split("/"), pattern.split("/")
    pairs = zip(parts, wanted, strict=False)
    return len(parts) == len(wanted) and all(fnmatch.fnmatchcase(*it) for it in pairs)


def stale(root: Path) -> None:
    """Says if the compiled module is older than its sources."""
    built = [it.stat().st_mtime for it in (root / "python/walrow").glob("_core*.so")]
    if not built:
        say("walrow is not built: make build")
        return
    newer = [
        path
        for path in (root / "crates").glob("*/src/**/*.rs")
        if path.stat().st_mtime > max(built)
    ]
    if newer:
        name = os.path.relpath(newer[0], root)
        say(f"walrow was built before {name}: Python's tests use the older one")


def table() -> list[str]:
    """What to run after a change, for people."""
    quick = f"pytest -n auto -m '{QUICK}'"
    lines = [
        f"`QUICK` is `{quick}`.",
        "",
        "| changed | run | seconds |",
        "|---|---|---|",
    ]
    for crate, seconds in CRATES.items():
        lines.append(
            f"| `crates/{crate}` | `cargo test -p {crate}`, `cargo clippy -p {crate}` | {seconds} |"
        )
    for row in TABLE:
        tests = " ".join(it.format(path="the file") for it in row.tests)
        changed = ", ".join(f"`{it}`" for it in row.changed)
        lines.append(f"| {changed} | `QUICK {tests}` | {row.seconds} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
