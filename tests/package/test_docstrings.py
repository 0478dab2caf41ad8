"""Public docstrings, signatures and options are the same at run time and in the stubs."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import walrow
from walrow import _core
from walrow.typing import (
    ChangesOptions,
    Options,
    SchemaOptions,
    StateOptions,
)

STUBS = ast.parse(Path(_core.__file__).with_name("_core.pyi").read_text("utf-8"))
OPTIONS = get_type_hints(Options)


def documented() -> list[tuple[str, str]]:
    """The path of every item with a docstring in the stubs, and the docstring."""
    found = []
    for node in STUBS.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        items: list[Any] = [(node.name, node)]
        if isinstance(node, ast.ClassDef):
            items += [
                (f"{node.name}.{item.name}", item)
                for item in node.body
                if isinstance(item, ast.FunctionDef)
            ]
        texts = [(path, ast.get_docstring(item)) for path, item in items]
        found += [(path, text) for path, text in texts if text is not None]
    return found


def test_the_stubs_document_every_public_item() -> None:
    paths = {path for path, _ in documented()}
    names = [
        node.name
        for node in STUBS.body
        if isinstance(node, ast.ClassDef)
        and any(node.name in dir(it) for it in (walrow, walrow.typing))
    ]
    assert {"Batch", "Catalog", "Decoder", "Frame", "Message", "Reader", "Schema"} <= {
        *names
    }
    for name in names:
        assert name in paths
        for member in vars(getattr(_core, name)):
            if not member.startswith("_"):
                assert f"{name}.{member}" in paths


@pytest.mark.parametrize(("path", "text"), documented(), ids=lambda it: it[:30])
def test_docstrings_are_those_of_the_stubs(path: str, text: str) -> None:
    item: Any = _core
    for name in path.split("."):
        item = inspect.getattr_static(item, name)
    assert inspect.cleandoc(item.__doc__ or "") == text


@pytest.mark.parametrize("target", [walrow.read, walrow.Reader, walrow.Decoder])
def test_signatures_list_every_option(target: Any) -> None:
    parameters = inspect.signature(target).parameters
    keywords = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert len(OPTIONS) > 20
    if target is walrow.read:
        # It is about the source, which a Reader takes in parts.
        assert keywords.pop("versions").default == "one"
        assert keywords.pop("threads").default == 1
    own = _core.DECODER_OPTIONS if target is walrow.Decoder else {}
    assert [*keywords] == [*own, *_core.OPTIONS]
    assert OPTIONS.keys() == _core.OPTIONS.keys()
    expected = [*own.values(), *_core.OPTIONS.values()]
    assert [each.default for each in keywords.values()] == expected
    assert all(each.annotation for each in keywords.values())
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def test_a_schema_takes_the_options_that_determine_it() -> None:
    parameters = inspect.signature(walrow.schema).parameters
    assert [*parameters][:2] == ["source", "table"]
    assert set(parameters) - {"source", "table"} == get_type_hints(SchemaOptions).keys()


def test_spark_takes_the_options_of_read() -> None:
    from walrow import spark

    fixed = {"profile"}
    rows = {"batch_rows", "batch_bytes", "missing_table", "gaps", "tables"}
    for function, others in (
        (spark.decode, set()),
        (spark.changes, set()),
        (spark.schema, rows),
    ):
        names = set(inspect.signature(function).parameters)
        assert OPTIONS.keys() - names - {"schema"} == fixed | others
        assert names - OPTIONS.keys() <= {"captures", "column", "source"}


def test_changes_take_the_options_of_read() -> None:
    from walrow import postgres

    names = set(inspect.signature(postgres.changes).parameters)
    # A live stream is of one kind, and its settings are pinned.
    assert OPTIONS.keys() - names == {"session", "late_start", "unfinished", "gaps"}
    own = {"conninfo", "publications", "slot", "until", "peek", "binary", "origin"}
    assert names - OPTIONS.keys() == own


@pytest.mark.parametrize("fewer", [StateOptions, ChangesOptions])
def test_an_option_has_the_same_type_in_each_list(fewer: type[Any]) -> None:
    assert get_type_hints(fewer).items() <= get_type_hints(Options).items()


def test_the_defaults_are_those_of_no_options() -> None:
    walrow.Reader([], **_core.OPTIONS)
    walrow.Decoder(**_core.OPTIONS, **_core.DECODER_OPTIONS)


def test_read_describes_every_option() -> None:
    text = inspect.getdoc(walrow.read) or ""
    described = [line.split(":")[0].strip() for line in text.splitlines()]
    for name in OPTIONS:
        assert described.count(name) == 1, name


def test_an_unknown_option_of_a_decoder_is_a_type_error() -> None:
    """It has no signature in Python. `test_probes` has the functions."""
    wrong: Any = {"tabel": 1}
    text = r"tabel is not an option; did you mean table\?"
    with pytest.raises(TypeError, match=text):
        walrow.Decoder(**wrong)
