"""Runs the commands and the programs of docs/backup.md against a server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from servers import EmbeddedServer
from servers.receiving import execute

PAGE = (Path(__file__).parents[2] / "docs/backup.md").read_text("utf-8")


@pytest.mark.live
def test_the_page_runs(tmp_path: Path) -> None:
    commands = "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with EmbeddedServer(18, settings={"summarize_wal": "on"}) as server:
        execute(server.dsn, "CREATE DATABASE shop")
        own = str(Path(sys.executable).parent)
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([own, str(server.bin), os.environ["PATH"]]),
            "PGHOST": str(server.socket_directory),
            "PGUSER": "postgres",
        }
        (tmp_path / "backups").mkdir()
        commands = commands.replace(
            "walrow backup base", "walrow backup base --checkpoint fast"
        )
        commands = commands.replace("--create-slot", "--create-slot --until now")
        commands = commands.replace("walrow ", f"{sys.executable} -m walrow ")
        for words in (
            ["bash", "-eo", "pipefail", "-c", commands],
            *(
                [
                    sys.executable,
                    "-c",
                    it.replace('to="backups', 'checkpoint="fast", to="backups'),
                ]
                for it in programs
            ),
        ):
            done = subprocess.run(  # noqa: S603
                words,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                check=False,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            assert "False" not in done.stdout
    assert {it.name for it in (tmp_path / "backups").iterdir()} == {
        *("monday", "tuesday.tar.gz", "wednesday", "full", "later")
    }
    assert (tmp_path / "restored/PG_VERSION").exists()
    assert [*(tmp_path / "wal").glob("00000001????????????????*")]
