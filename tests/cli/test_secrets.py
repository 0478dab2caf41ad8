"""No command shows a part of a connection string, wherever it is given."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from secret_texts import CANARY, TEXTS, URLS, services
from walrow.cli.app import cli

pytest.importorskip("psycopg")

#: Runs each line of stdin, and says after its output that it has ended.
DRIVER = """
import json, sys
import walrow.cli.apply_spark
from walrow.cli.app import run

walrow.cli.apply_spark._started = lambda settings: None
for line in sys.stdin:
    try:
        run(json.loads(line))
    except Exception as error:
        print(type(error), error)
    for stream in sys.stdout, sys.stderr:
        print("ended", file=stream, flush=True)
"""

#: The parameters of commands that are a file, a log or a server.
PLACES = {
    *(
        "catalog",
        "config",
        "conninfo",
        "directory",
        "dsn",
        "file",
        "files",
        "log",
    ),
    *("spool_directory", "target", "to"),
}
NOWHERE = "host=127.0.0.1 port=1 user=me dbname=shop"


def leaves(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from leaves(each, *path, name)
    else:
        yield path, command


def calls(text: str, places: dict[str, str]) -> Iterator[list[str]]:
    """Each command with the text in each place of a file, a log or a server, and as a word too many."""
    yield [text]
    for path, command in leaves(cli):
        taking = [it for it in command.params if not getattr(it, "is_flag", False)]
        for wrong in [*(it for it in taking if it.name in PLACES), None]:
            words = [*path]
            for it in taking:
                if it is wrong:
                    value = text
                elif it.required or it.name in places:
                    value = places.get(it.name or "", "t")
                else:
                    continue
                words += (
                    [it.opts[0], value] if isinstance(it, click.Option) else [value]
                )
            yield words if wrong is not None else [*words, text]
        yield [*path[:-1], text]
        yield [*path, f"--dsn={text}"]


def test_no_command_shows_a_secret(data: Path, tmp_path: Path) -> None:
    places = {
        "dsn": NOWHERE,
        "conninfo": NOWHERE,
        "files": str(data / "rows.text.wire"),
        "log": str(tmp_path / "log"),
        "directory": str(tmp_path / "absent"),
        "target": str(tmp_path / "absent"),
        "until": "0/1",
        "timeout": "0",
        "start_within": "0",
    }
    commands = [it for text in [*TEXTS, *URLS] for it in calls(text, places)]
    commands += [
        ["catalog", "--dsn", f"{CANARY}\udcff"],
        ["slot", "list", "--dsn", f"{CANARY}\udcff"],
    ]
    assert {it.name for _, it in leaves(cli)} >= {"receive", "seal", "state", "verify"}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", DRIVER],
        input="".join(f"{json.dumps(words)}\n" for words in commands),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        cwd=tmp_path,
        env=services(tmp_path),
    )
    for output in done.stdout, done.stderr:
        parts = output.split("ended\n")
        assert len(parts) == len(commands) + 1, output[-2000:]
        shown = [
            (words, part)
            for words, part in zip(commands, parts, strict=False)
            if CANARY in part or "Traceback" in part
        ]
        assert not shown, (len(shown), shown[:5])
