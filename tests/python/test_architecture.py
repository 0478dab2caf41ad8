"""The arrows of docs/architecture.md point one way: no circle of files in any crate."""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[2] / "crates"


def uses(crate: Path) -> dict[str, set[str]]:
    """The modules that each file of a crate names by `crate::`, `super::` or `self::`.

    Tests and `lib.rs` do not count. A child that its parent names by its bare name does not
    count either: the parent owns it, and types in both may contain each other.
    """
    files = {
        ".".join(path.relative_to(crate / "src").with_suffix("").parts): path
        for path in sorted((crate / "src").rglob("*.rs"))
    }
    modules = {name.removesuffix(".mod"): path for name, path in files.items()}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        if name == "lib" or path.stem in ("tests", "oracle"):
            continue
        source = path.read_text("utf-8").split("#[cfg(test)]")[0]
        source = re.sub(r"//[^\n]*", "", source)
        parent = name if path.stem == "mod" else ".".join(name.split(".")[:-1])
        graph[name] = set()
        for path_start, rest in re.findall(
            r"\b(crate|super|self)::((?:\w+::)*\{?[^;(]*)", source
        ):
            base = {
                "crate": "",
                "self": name if path.stem == "mod" else "",
                "super": parent,
            }[path_start]
            graph[name] |= set(_named(base, rest, modules))
        graph[name] -= {name}
    return graph


def _named(base: str, rest: str, modules: dict[str, Path]) -> list[str]:
    """The modules with which a path, or each path of a list in braces, begins."""
    head, brace, inner = rest.partition("{")
    prefix = ".".join([part for part in [base, *head.strip(":").split("::")] if part])
    if brace and prefix not in modules:
        names = re.findall(r"(?:^|,)\s*(\w+)", inner.split("}")[0])
        return [
            found
            for name in names
            for found in _longest(f"{prefix}.{name}".strip("."), modules)
        ]
    return _longest(prefix, modules)


def _longest(path: str, modules: dict[str, Path]) -> list[str]:
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        if (name := ".".join(parts[:end])) in modules:
            return [name]
    return []


@pytest.mark.parametrize(
    "crate", sorted(CRATES.iterdir()), ids=lambda crate: crate.name
)
def test_no_circle_of_files(crate: Path) -> None:
    graph = uses(crate)
    assert graph or crate.name == "walrow"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")
