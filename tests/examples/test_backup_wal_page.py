"""Runs the command and the program of docs/backup.md about WAL against a server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from servers import EmbeddedServer
from servers.receiving import execute
from walrow.errors import BackupError

PAGE = (Path(__file__).parents[2] / "docs/backup.md").read_text("utf-8")
_, _, SECTION = PAGE.partition("\n## WAL\n")
SECTION = SECTION.partition("\n## ")[0]


@pytest.mark.live
def test_the_section_runs(tmp_path: Path) -> None:
    (command,) = re.findall(r"```sh\n(.*?)\n```", SECTION, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    with EmbeddedServer(18) as server:
        execute(server.dsn, "CREATE DATABASE shop")
        home = str(server.socket_directory)
        environment = {**os.environ, "PGHOST": home, "PGUSER": "postgres"}
        for words in (
            ["-m", *command.split(), "--until", "now"],
            ["-c", program],
        ):
            done = subprocess.run(  # noqa: S603
                [sys.executable, *words],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                check=False,
                text=True,
            )
            assert done.returncode == 0, done.stderr
    assert (tmp_path / "wal/000000010000000000000001.partial").exists()


def test_the_section_names_the_codes() -> None:
    codes = set(re.findall(r'`"(\w+)"`', BackupError.__doc__ or ""))
    named = {"gap", "size", "compressed", "other_server", "locked", "store"}
    assert named < codes
    for code in named:
        assert f"`{code}`" in SECTION
