"""Runs the command and the program of docs/backup.md about a log against a server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import execute
from walrow.errors import BackupError

pytest.importorskip("pyarrow")
PAGE = (Path(__file__).parents[2] / "docs/backup.md").read_text("utf-8")
_, _, SECTION = PAGE.partition("\n## Verify against a log\n")


@pytest.mark.live
def test_the_section_runs() -> None:
    (command,) = re.findall(r"```sh\n(.*?)\n```", SECTION, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    if os.geteuid() == 0:
        command += " --run-as nobody"
        program = program.replace('"log/")', '"log/", run_as="nobody")')
    # Not below pytest's directory, which only its user can reach.
    place = Path(tempfile.mkdtemp(prefix="walrow-page-", dir="/tmp"))
    place.chmod(0o755)
    try:
        with EmbeddedServer(18) as server:
            execute(
                server.dsn,
                "CREATE TABLE orders (id int PRIMARY KEY)",
                "INSERT INTO orders VALUES (1), (2)",
                "CREATE PUBLICATION p FOR TABLE orders",
            )
            options: dict[str, Any] = {"slot": "s", "publications": "p"}
            options["log"] = place / "log"
            walrow.receive(
                server.dsn, until="now", create=True, snapshot=True, **options
            )
            to = place / "backups/monday"
            to.parent.mkdir(mode=0o755)
            where = ("-d", server.dsn, "-D", to, "-c", "fast", "--no-sync")
            subprocess.run([server.bin / "pg_basebackup", *where], check=True)  # noqa: S603
            walrow.receive(server.dsn, until="now", **options)
            found = os.pathsep.join([str(server.bin), os.environ["PATH"]])
            for words in (["-m", *command.split()], ["-c", program]):
                done = subprocess.run(  # noqa: S603
                    [sys.executable, *words],
                    cwd=place,
                    env=os.environ | {"PATH": found},
                    capture_output=True,
                    check=False,
                    text=True,
                )
                assert done.returncode == 0, done.stderr
            assert re.search(r"^True .*\npublic.orders equal \(\)$", done.stdout)
        assert {it.name for it in place.iterdir()} == {"backups", "log"}
        assert [it.name for it in (place / "backups").iterdir()] == ["monday"]
    finally:
        shutil.rmtree(place)


def test_the_section_names_the_codes() -> None:
    codes = set(re.findall(r'`"(\w+)"`', BackupError.__doc__ or ""))
    named = {"other_server", "timeline", "recovery", "incremental", "not_a_backup"}
    assert named < codes
    for code in named:
        assert f"`{code}`" in SECTION
