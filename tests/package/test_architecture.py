"""docs/architecture.md is true: arrows point one way, and each file says what it is."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest

from walrow._receive import core, disk_states, link_states, load
from walrow._run import supervisor

ROOT = Path(__file__).parents[2]
CRATES = ROOT / "crates"
PACKAGE = ROOT / "python" / "walrow"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def uses(crate: Path) -> dict[str, set[str]]:
    """The modules that each file of a crate names: by `crate::`, `super::`, `self::` or as children.

    Tests and `lib.rs` do not count, nor does what a file only exports again.
    """
    files = {
        ".".join(path.relative_to(crate / "src").with_suffix("").parts): path
        for path in sorted((crate / "src").rglob("*.rs"))
    }
    modules = {name.removesuffix(".mod"): path for name, path in files.items()}
    sources = {
        name: _TESTS.split(re.sub(r"//[^\n]*", "", path.read_text("utf-8")))[0]
        for name, path in modules.items()
    }
    exported = exports(modules, sources)
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        if name == "lib" or path.stem in ("tests", "oracle"):
            continue
        graph[name] = set()
        children = {
            it.rpartition(".")[2] for it in modules if it.startswith(f"{name}.")
        }
        for used in paths(sources[name], children):
            first, *rest = used.split("::")
            if first in children:
                first, rest = "self", [first, *rest]
            parent = name.rpartition(".")[0]
            base = {"crate": "", "self": name, "super": parent}[first]
            while rest and rest[0] == "super":
                base, rest = base.rpartition(".")[0], rest[1:]
            place = ".".join(filter(None, [base, *rest]))
            graph[name] |= found(place, modules, exported)
        graph[name] -= {name}
    return graph


def exports(modules: dict[str, Path], sources: dict[str, str]) -> dict[str, str]:
    """Where the names come from that `lib.rs` and each `mod.rs` export again."""
    exported = {}
    for name, path in modules.items():
        if path.stem not in ("lib", "mod"):
            continue
        prefix = "" if path.stem == "lib" else f"{name}."
        for tree in re.findall(r"\bpub(?:\([^)]*\))? use ([^;]+);", sources[name]):
            for used in expanded(tree):
                module, _, last = used.removeprefix("self::").rpartition("::")
                exported[prefix + last] = prefix + module.replace("::", ".")
    return exported


def paths(source: str, children: set[str]) -> set[str]:
    """The paths of a file that begin in its crate, or in a child of it."""
    body = re.sub(r"\buse [^;]+;", "", source)
    imported = set()
    for public, tree in re.findall(r"\b(pub(?:\([^)]*\))? )?use ([^;]+);", source):
        for path in expanded(tree):
            last = path.rpartition("::")[2]
            if not public or re.search(rf"\b{re.escape(last)}\b", body):
                imported.add(path)
    first = "|".join(_OWN | children)
    inline = set(re.findall(rf"(?<!::)\b(?:{first})(?:::\w+)+", body))
    return {it for it in imported | inline if it.split("::")[0] in _OWN | children}


def expanded(tree: str) -> list[str]:
    """The paths of a tree in braces: `a::{b, c::{d, e}}`."""
    head, brace, inner = re.sub(r"\s+as\s+\w+|\s", "", tree).partition("{")
    if not brace:
        return [head]
    depth, parts = 0, [""]
    for letter in inner.rpartition("}")[0]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [head + path for part in parts if part for path in expanded(part)]


def found(place: str, modules: dict[str, Path], exported: dict[str, str]) -> set[str]:
    """The module that a place is in."""
    while place:
        if place in modules:
            return {place}
        if place in exported and exported[place] != place:
            return found(exported[place], modules, exported)
        place = place.rpartition(".")[0]
    return set()


def imports(package: Path) -> dict[str, set[str]]:
    """The modules that each module of a Python package imports, wherever it does.

    So imports in functions and those for types count, except for types of the compiled module:
    its stub names classes that Rust calls. What Rust imports counts too.
    """
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    # The compiled module.
    modules[_COMPILED] = Path(_COMPILED)
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        if name == _COMPILED:
            continue
        places, tree = set(), ast.parse(path.read_text("utf-8"))
        of_types = _of_types(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                places |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                if node.module == _COMPILED and id(node) in of_types:
                    continue
                places |= {f"{node.module}.{each.name}" for each in node.names}
        graph[name] = set().union(*(found(it, modules, {}) for it in places)) - {name}
    rust = "".join(
        it.read_text("utf-8") for it in (CRATES / "walrow-py/src").rglob("*.rs")
    )
    graph[_COMPILED] = set(re.findall(r'import\("(walrow[\w.]*)"\)', rust))
    return graph


def _of_types(tree: ast.AST) -> set[int]:
    """The nodes that are only there for types, by their identity. What they name is not called."""
    return {
        id(it)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for it in ast.walk(block)
    }


def _imports_at_run_time(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    of_types = _of_types(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) or (
            isinstance(node, ast.ImportFrom) and id(node) not in of_types
        ):
            yield node


@pytest.mark.parametrize(
    "crate", sorted(CRATES.iterdir()), ids=lambda crate: crate.name
)
def test_no_circle_of_files(crate: Path) -> None:
    graph = uses(crate)
    assert graph or crate.name == "walrow"
    refuse_circles(graph)


def test_the_rooms_of_a_log_know_each_other_in_one_direction() -> None:
    graph = uses(CRATES / "walrow-log")
    rooms = {name.partition(".")[0] for name in graph}
    assert rooms == {*_ROOMS, "spool"}
    for name, used in graph.items():
        room = name.partition(".")[0]
        known = {it.partition(".")[0] for it in used}
        assert known <= {room, *_ROOMS.get(room, ())}, name


def test_readers_of_a_log_cannot_write() -> None:
    # Their store is `Objects`, which has no method that writes.
    for path in (CRATES / "walrow-log/src/read").glob("*.rs"):
        imports = "".join(re.findall(r"\buse [^;]+;", path.read_text("utf-8")))
        assert not re.search(r"\b(Store|Staged|Journal|once|lease|fs)\b", imports), path


def test_no_circle_of_modules() -> None:
    graph = imports(PACKAGE)
    # At the top, in a function, for types, and a module of a package.
    assert "walrow.log" in graph["walrow"]
    assert "walrow._core" in graph["walrow.log"]
    assert "walrow._lsn" in graph["walrow._core"]
    assert "walrow._postgres.connecting" in graph["walrow._receive.completeness"]
    assert "walrow._lsn" in graph["walrow.errors"]
    assert "walrow._read.schemas" in graph["walrow._postgres.changes"]
    refuse_circles(graph)


def test_the_rooms_of_python_know_each_other_in_one_direction() -> None:
    graph = imports(PACKAGE)
    assert {_room(name) for name in graph} == {*_PYTHON_ROOMS, "", "__main__"}
    for name, used in graph.items():
        if name in ("walrow", "walrow.__main__"):
            continue
        room = _room(name)
        known = {_room(it) for it in used}
        assert known <= {room, *_PYTHON_ROOMS[room]}, name


def _room(name: str) -> str:
    return name.removeprefix("walrow").removeprefix(".").partition(".")[0]


def makers(*names: str) -> set[str]:
    """The modules of Python that call one of these functions."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        calls = [
            ast.unparse(it.func).rpartition(".")[2]
            for it in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(it, ast.Call)
        ]
        if not set(names).isdisjoint(calls):
            found.add(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    return found


def importers(*names: str) -> set[str]:
    """The modules of Python that import one of these modules."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.Import) and {it.name for it in node.names} & {*names})
        or (isinstance(node, ast.ImportFrom) and node.module in names)
    }


def test_threads_are_made_in_few_places() -> None:
    threads = makers("Thread", "Timer", "ThreadPoolExecutor", "start_new_thread")
    assert threads == {
        "_workers",
        # Modules that take backups, and commit to targets.
        "_backup.base.taking",
        # Watches the reader of a pipe.
        "cli.stopping",
        "delta.snapshots",
        "spark.apply_all",
    }
    workers = makers("Worker", "in_background") - {"_workers"}
    assert workers == {
        "_backup.wal.files",
        "_backup.wal.receiver",
        # Writes a file that may stall.
        "_log.status_record",
        "_postgres.open_connections",
        "_postgres.shutdown",
        # The kinds of a receiver: askers, connections, files, copies, the log's thread.
        "_receive.askers",
        "_receive.connector",
        "_receive.driver",
        "_receive.loading",
        "_receive.log_thread",
        "_run.parent",
        "delta.threads",
    }


def test_few_modules_wait_by_themselves() -> None:
    # The others use `walrow._waiting`.
    assert makers("sleep") == {"_waiting"}
    assert importers("select", "selectors", "asyncio") == {
        "_waiting",
        # Only the end of a pipe, which no selector reports.
        "cli.stopping",
    }
    # The threads of a part wait for each other with events.
    assert makers("Event", "Condition") == {
        "_backup.wal.receiver",
        "_log.status_record",
        "_receive.loading",
        "_workers",
        "cli.backup",
        "cli.configured",
        "cli.stopping",
        "delta.threads",
    }


def test_only_connections_import_psycopg_at_the_top() -> None:
    found = {
        path.relative_to(PACKAGE).parts[0]
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and re.search(r"\bpsycopg\b", ast.unparse(node))
    }
    assert found <= {"_postgres", "_receive", "_backup"}
    # It finds something.
    assert found


def test_what_decides_has_no_thread_no_file_and_no_clock() -> None:
    for name in _DECIDES:
        tree = ast.parse((PACKAGE / "_receive" / f"{name}.py").read_text("utf-8"))
        imported = set()
        for node in _imports_at_run_time(tree):
            if isinstance(node, ast.Import):
                imported |= {each.name for each in node.names}
            elif node.module == "walrow._receive":
                imported |= {f"{node.module}.{it.name}" for it in node.names}
            else:
                imported.add(node.module or "")
        known = {"walrow._lsn", "walrow.errors", "walrow._postgres.failures"}
        known |= {f"walrow._receive.{it}" for it in _DECIDES}
        known |= set(_KNOWN.get(name, ()))
        own = {it for it in imported if it.startswith("walrow")}
        assert own <= known, name
        assert imported - own <= {*_PURE, *_KNOWN.get(name, ())}, name
        calls = {
            ast.unparse(it.func) for it in ast.walk(tree) if isinstance(it, ast.Call)
        }
        # They need no import.
        assert calls.isdisjoint({"open", "input", "print"}), name


def test_what_decides_for_a_file_is_pure() -> None:
    for name, known in (
        ("supervisor", {"walrow._log.status_record"}),
        ("plan", {"walrow._run.matching"}),
        (
            "matching",
            {
                "walrow._apply.engines",
                "walrow._apply.places",
                "walrow._sources.urls",
                "walrow.errors",
            },
        ),
    ):
        tree = ast.parse((PACKAGE / "_run" / f"{name}.py").read_text("utf-8"))
        imported = set()
        for node in _imports_at_run_time(tree):
            if isinstance(node, ast.Import):
                imported |= {each.name for each in node.names}
            else:
                imported.add(node.module or "")
        assert imported - known <= {*_PURE, "fnmatch", "posixpath", "re"}, name


def test_a_state_has_no_flags() -> None:
    fields = [
        (str(type_), field.name)
        for state in (
            supervisor.State,
            disk_states.State,
            disk_states.Load,
            disk_states.Ends,
            load.State,
            link_states.State,
            core.Phase,
        )
        for type_ in get_args(state)
        if dataclasses.is_dataclass(type_)
        for field in dataclasses.fields(type_)
        if "bool" in str(field.type)
    ]
    assert fields == []
    # It counts something.
    assert len(get_args(disk_states.State)) == 4
    assert {it.name for it in dataclasses.fields(disk_states.Stuck)}
    # A module that decides has no flags, either.
    for name in _DECIDES:
        tree = ast.parse((PACKAGE / "_receive" / f"{name}.py").read_text("utf-8"))
        values = [it.value for it in ast.walk(tree) if isinstance(it, ast.Assign)]
        assert not [it for it in values if ast.unparse(it) in ("True", "False")], name


#: They decide for the receiver.
_DECIDES = (
    *("disk", "disk_states", "backlog", "progress", "definitions", "orders"),
    *(
        "claims",
        "load",
        "link",
        "link_states",
        "attempts",
        "events",
        "resuming",
        "core",
    ),
    *("looks", "marks", "same_server", "status", "told"),
)
#: Other modules that some of them import, with values and pure functions only.
_KNOWN = {
    "resuming": ("walrow._log.marks",),
    "looks": ("types",),
    "marks": (
        "functools",
        "types",
        "walrow._log.left",
        "walrow._log.marks",
        "walrow._log.new_files",
        "walrow._log.published",
        "walrow._log.told",
        "walrow._log.young_tables",
    ),
    "same_server": ("walrow._log.told",),
    "status": ("walrow._results",),
    "told": ("walrow._log.marks", "walrow._log.told", "walrow._log.young_tables"),
}
_PURE = {
    *("__future__", "collections", "collections.abc", "dataclasses", "enum", "errno"),
    *("json", "math", "shlex", "types", "typing"),
}


def refuse_circles(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # Each is imported by the next one.
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


# Files that know no room.
_LEAVES = (
    "_amounts",
    "_options",
    "_results",
    "_core",
    "_late",
    "_lsn",
    "_secrets",
    "_by_table",
    "_unresolved",
    "_waiting",
    "_workers",
    "errors",
    "typing",
)
_READS = (*_LEAVES, "_sources", "_read")
_LOGS = (*_READS, "_log", "log")
# The packages that each package of Python may know, beside itself.
_PYTHON_ROOMS = {
    **dict.fromkeys(_LEAVES, _LEAVES),
    # It names what `walrow.tables` returns, which is imported when it is used.
    "typing": (*_LEAVES, "_read"),
    # Rust calls them.
    "_core": (*_LEAVES, "_read"),
    "_sources": _LEAVES,
    "_read": (*_LEAVES, "_sources"),
    "_postgres": _READS,
    "postgres": ("_late", "_postgres"),
    "_backup": (*_LEAVES, "_postgres"),
    "backup": ("_late", "_backup"),
    "_log": _READS,
    # It names the results of receivers, which are imported when they are used.
    "log": (*_READS, "_log", "_receive"),
    "_receive": (*_LOGS, "_postgres"),
    "_apply": _LOGS,
    "spark": (*_LOGS, "_apply"),
    "delta": (*_LOGS, "_late", "_apply"),
    "_run": (*_LOGS, "_apply", "delta", "_postgres", "_receive", "spark"),
    "cli": (
        *_LOGS,
        "",
        "_apply",
        "_run",
        "delta",
        "_receive",
        "_postgres",
        "postgres",
        "spark",
        "_backup",
        "backup",
    ),
}


# What each room of a log may know beside itself.
_ROOMS = {
    "error": (),
    "store": ("error",),
    "format": ("error", "store"),
    "read": ("error", "store", "format", "spool"),
    "write": ("error", "store", "format", "read"),
    "upkeep": ("error", "store", "format", "read"),
}


def test_names_that_are_exported_again_are_found() -> None:
    graph = uses(CRATES / "walrow-wire")
    assert {"lsn", "cursor", "encode", "message"} <= graph["copy_data"]
    # Children by their bare names count, one that is only exported again does not.
    assert "message.stream_xid" in graph["message.row"]
    assert {"command.quoted", "command.slot", "command.start"} <= graph["command"]
    assert "net.part" not in uses(CRATES / "walrow-stream")["net"]
    assert expanded("a::{b, c::{d, e}, f as g}") == [
        "a::b",
        "a::c::d",
        "a::c::e",
        "a::f",
    ]


def test_the_page_names_each_crate_each_package_and_these_tests() -> None:
    for crate in CRATES.iterdir():
        assert f"| `{crate.name}` |" in PAGE
    packages = {it.parent.name for it in PACKAGE.glob("*/__init__.py")}
    assert packages - set(re.findall(r"`(\w+)`", PAGE)) == set()
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named == {it for it in globals() if it.startswith("test_")} - {
        "test_names_that_are_exported_again_are_found",
        "test_the_page_names_each_crate_each_package_and_these_tests",
        "test_each_file_begins_with_what_it_is",
    }


def test_each_file_begins_with_what_it_is() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), path
    for path in CRATES.glob("*/src/**/*.rs"):
        # After attributes and ordinary comments.
        lines = path.read_text("utf-8").splitlines()
        first = next(it for it in lines if it and not re.match(r"#!\[|//(?!!)", it))
        assert first.startswith("//!"), path


_COMPILED = "walrow._core"
_OWN = {"crate", "super", "self"}
_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ \{")
