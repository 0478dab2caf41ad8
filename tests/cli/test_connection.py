"""Commands that connect to a server: what they say without one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from walrow.cli.app import _spelled, cli
from walrow.errors import Remedy

COMMANDS = [
    ["catalog", "--dsn"],
    ["init", "--dsn"],
    ["preflight", "--dsn"],
    ["slot", "list", "--dsn"],
    ["slot", "create", "shop", "--dsn"],
    ["slot", "drop", "shop", "--dsn"],
    ["slot", "alter", "shop", "--failover", "--dsn"],
]

pytest.importorskip("psycopg")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("conninfo", "said", "code"),
    [
        ("host=/nowhere password=hunter2", "cannot connect: ", 1),
        ("postgresql://me:hunter2@localhost:1/shop", "cannot connect: ", 1),
        ("hunter2", "is not a connection string", 2),
        ("dbname=shop password=hunt 'hunter2", "is not a connection string", 2),
        ("hunter2=1", "is not a connection string", 2),
        ("postgresql://me:hunter2@[db/x", "is not a connection string", 2),
    ],
)
def test_no_message_shows_a_password(
    command: list[str], conninfo: str, said: str, code: int, run: Any
) -> None:
    done = run(*command, conninfo, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.startswith("walrow: ")
    assert done.stderr.count("\n") == 1
    assert "hunt" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_psycopg_it_says_what_to_install(command: list[str]) -> None:
    code = "import sys; sys.modules['psycopg'] = None; import walrow.cli as c; c.main()"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, *command, ""],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 2
    assert "pip install 'walrow[postgres]'" in done.stderr


def test_remedies_are_options_of_the_command(
    run: Callable[..., subprocess.CompletedProcess[Any]], tmp_path: Path
) -> None:
    """Where Python says create=True."""
    arguments = ("--slot", "s", "--publication", "p", "--dsn", "host=/nowhere")
    found = run("receive", "--log", tmp_path / "log", *arguments, "--snapshot")
    assert (found.returncode, found.stderr.decode()) == (
        2,
        "walrow: the first load begins with a slot that is created; choose --create\n",
    )
    apply = {it.name or "": it for it in cli.commands["apply"].params}
    spell = partial(_spelled, apply)
    assert [
        spell(it)
        for it in (
            Remedy("keys", code="[...]"),
            Remedy("resume_from", code="LSN"),
            Remedy("truncates", None, "ignore"),
            Remedy("types", "a b", "string"),
            Remedy("deleted_column"),
        )
    ] == [
        "--key COLUMN",
        "--resume-from LSN",
        "--truncates ignore",
        "--type 'a b=string'",
        "another --deleted-column",
    ]
