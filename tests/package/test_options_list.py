"""An option is declared once: calls, help texts, the command line and the docs agree with its list."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import math
import pickle
import re
from typing import Any

import pytest
from click.testing import CliRunner

import options_page
import walrow
from walrow import backup, delta, spark
from walrow._options import declared
from walrow.cli.app import cli

FUNCTIONS = {
    "BackupOptions": backup.base_backup,
    "WalOptions": backup.receive_wal,
    "ReceiveOptions": walrow.receive,
    "SealOptions": walrow.seal,
    "SparkApplyOptions": spark.apply_changes,
    "DeltaApplyOptions": delta.apply_changes,
}
DSN = "postgresql://me:hidden@host/shop"
#: Options that the command line spells in another way, or that are no text.
OTHERS = {
    "backup base": {"conninfo", "progress"},
    "backup wal": {"conninfo", "progress", "stop"},
    "receive": {"conninfo", "progress", "retain", "stop"},
    "seal": {"source", "progress"},
    "apply": {"spark", "log", "unit_size", "storage_options", "progress"},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_signature_and_its_docstring_have_every_option(name: str) -> None:
    cls, _, _ = options_page.LISTS[name]
    function: Any = FUNCTIONS[name]
    found = inspect.signature(function).parameters
    known = declared(cls)
    assert len(known) > 7
    assert [*found] == [*known]
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    described = [line.split(":")[0].strip() for line in text.splitlines()]
    for option in known.values():
        given = found[option.name].default
        assert given == (
            inspect.Parameter.empty if option.is_required else option.default
        )
        assert described.count(option.name) == 1, option.name
    assert "As in the signature" not in text


@pytest.mark.parametrize("name", options_page.LISTS)
def test_the_command_line_has_every_option(name: str) -> None:
    cls, command, _ = options_page.LISTS[name]
    found: Any = cli
    for word in command.split():
        found = found.commands[word]
    shown = {it.name: it for it in found.params}
    for option in declared(cls).values():
        if option.name in OTHERS[command]:
            continue
        parameter = shown[option.name]
        assert bool(parameter.required) == option.is_required, option.name
        if isinstance(option.default, str | int):
            assert parameter.default == option.default, option.name
    text = CliRunner().invoke(cli, [*command.split(), "--help"]).output
    # Names are options there, without backticks.
    assert "`" not in text


@pytest.mark.parametrize("page", options_page.PAGES)
def test_the_docs_have_every_option(page: str) -> None:
    text = (options_page.DOCS / page).read_text("utf-8")
    assert re.search("<!-- (options|keys|bugs): ", text)
    stale = f"docs/{page} is stale: PYTHONPATH=tests python tests/options_page.py"
    assert options_page.renewed(text) == text, stale


def test_options_are_values() -> None:
    options = walrow.log.Retention(age="7d", bytes="50GB")
    assert (options.age, options.bytes) == (604_800.0, 50_000_000_000)
    assert options == pickle.loads(pickle.dumps(options)) != walrow.log.Retention()
    assert dataclasses.replace(options, age=None).bytes == options.bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.age = 1.0
    cls, _, _ = options_page.LISTS["ReceiveOptions"]
    received = cls("password=hidden", log="log", slot="s", publications="p")
    assert "hidden" not in repr(received)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"binary": "yes"}, "binary must be True or False, not str"),
        ({"slot": None}, "slot must be a text, not NoneType"),
        ({"jobs": 0}, "jobs is 0: it must be from 1 to 64"),
        ({"jobs": 65}, "jobs is 65: it must be from 1 to 64"),
        ({"jobs": 10**5000}, "jobs is a number of 16,610 bits: it must be from 1"),
        ({"jobs": True}, "jobs must be a number, not bool"),
        ({"origin": "all"}, "origin is 'all': it must be 'any' or 'none'"),
        ({"publish_after": "soon"}, "publish_after must be a duration"),
        ({"spool_directory": 5}, "spool_directory must be a path, not int"),
        (
            {"spool_directory": "x\ud800"},
            "spool_directory has a character that no path",
        ),
        ({"spool_directory": "x\0"}, "spool_directory has a character that no path"),
        ({"spool_directory": DSN}, "spool_directory is a connection string or a URL"),
        ({"log": "x\ud800"}, "log has a character that no path"),
        ({"origin": "x" * 999}, "origin is 'x{50,60}...: it must be 'any' or 'none'"),
        ({"origin": DSN}, r"origin is '\(a connection string\)': it must be 'any'"),
        ({"start_within": 10**400}, "start_within is a number of 1,329 bits"),
        ({"publications": ()}, "publications is missing"),
        ({"publications": ""}, "publications has an empty name"),
        ({"publications": ["p", ""]}, "publications has an empty name"),
        (
            {"publications": bytearray(b"p")},
            "publications must be a name or a sequence",
        ),
        ({"tables": b"x"}, "tables must be tables: .*or an OID, not bytes"),
        ({"tables": b""}, "tables must be tables: .*or an OID, not bytes"),
        ({"tables": {"a": 1}}, "tables must be tables: .*or an OID, not dict"),
        ({"tables": True}, "tables must be tables: .*or an OID, not bool"),
        ({"tables": 1.5}, "tables must be tables: .*or an OID, not float"),
        ({"tables": []}, "tables is empty: name a table"),
        ({"tables": [""]}, "tables must be tables: .*or an OID, not an empty name"),
        ({"tables": ["a", None]}, "tables must be tables: .*or an OID, not NoneType"),
        ({"tables": [True]}, "tables must be tables: .*or an OID, not bool"),
        ({"tables": [("a", "b", "c")]}, "tables must be tables: .*, not tuple"),
        ({"tables": [("a", "")]}, "tables must be tables: .*, not tuple"),
    ],
)
def test_a_wrong_value_is_an_error_before_anything_happens(
    given: dict[str, Any], text: str
) -> None:
    options = {"log": "log", "slot": "s", "publications": "p"} | given
    with pytest.raises(walrow.errors.OptionError, match=text) as caught:
        walrow.receive("host=/nowhere", **options)
    assert len(str(caught.value)) < 200
    assert "hidden" not in str(caught.value)


def test_tables_are_names_pairs_and_oids() -> None:
    option = declared(options_page.LISTS["ReceiveOptions"][0])["tables"]
    given = ["a", ("public", "b"), 16384]
    assert option.parse(given) == tuple(given)
    assert option.parse("a") == ("a",)
    assert option.parse(16384) == (16384,)
    # A pair alone is two tables, as in `walrow.read`.
    assert option.parse(("a", "b")) == ("a", "b")


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["receive", "--spool-memory", "1.5GB"], "spool_memory", "1.5GB"),
        (["receive", "--start-within", "inf"], "start_within", math.inf),
        (["receive", "--publish-after", "0.3"], "publish_after", 0.3),
        (["receive", "--until", "now"], "until", "now"),
        (["receive", "--table", "a", "--table", "b"], "tables", ("a", "b")),
    ],
)
def test_the_command_line_takes_what_python_takes(
    words: list[str], name: str, value: Any
) -> None:
    command, *options = words
    required = ["--log", "l", "--slot", "s", "--publication", "p", "--create"]
    context = cli.commands[command].make_context(command, [*required, *options])
    cls, _, _ = options_page.LISTS["ReceiveOptions"]
    given = {key: it for key, it in context.params.items() if key in declared(cls)}
    known = {"log": "l", "slot": "s", "publications": "p", "create": True}
    assert getattr(cls(**given), name) == getattr(cls(**known | {name: value}), name)


@pytest.mark.parametrize("name", ["SparkApplyOptions", "DeltaApplyOptions"])
def test_the_end_of_both_engines_is_an_lsn_or_a_time(name: str) -> None:
    option = declared(options_page.LISTS[name][0])["end"]
    lsn = walrow.Lsn("0/1A2B")
    for value in ("0/1A2B", 0x1A2B, lsn):
        assert option.parse(value) == lsn
    before = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    assert before <= option.parse("-1h") <= before + dt.timedelta(minutes=1)
    assert isinstance(option.parse("today"), dt.datetime)
    assert option.parse(before) == before
    with pytest.raises(
        walrow.errors.OptionError, match=r"end must be an LSN, .* or a time"
    ):
        option.parse("soon")


def test_the_command_line_takes_a_time_as_the_end() -> None:
    words = ["log", "--table", "t", "--target", "delta:/t", "--end", "2 h ago"]
    end = cli.commands["apply"].make_context("apply", words).params["end"]
    assert dt.timedelta(hours=1) < dt.datetime.now(dt.UTC) - end < dt.timedelta(hours=3)
