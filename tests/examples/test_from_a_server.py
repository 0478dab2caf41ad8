"""Runs every command of docs/from-a-server.md, in order, against a server."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers import EmbeddedServer, run_sql
from servers.embedded import wheel_programs

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/from-a-server.md").read_text()
_SECONDS = 60


def blocks(language: str) -> list[str]:
    found = re.findall(
        rf"^( *)```{language}\n(.*?)^\1```$", PAGE, re.MULTILINE | re.DOTALL
    )
    return [
        re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        run_sql(server, "CREATE DATABASE shop")
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shop")


@pytest.fixture(scope="module")
def environment(server: EmbeddedServer) -> dict[str, str]:
    """The environment in which libpq finds the server, and the shell the programs."""
    programs = [Path(sys.executable).parent, wheel_programs(18)]
    return {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
        "PGHOST": str(server.socket_directory),
        "PGUSER": "postgres",
    }


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    result = subprocess.run(  # noqa: S603
        command,
        capture_output=True,
        check=False,
        cwd=folder,
        env=environment,
        text=True,
        timeout=_SECONDS,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def until(process: subprocess.Popen[str], done: Callable[[], bool]) -> str:
    """Interrupts the program like Ctrl-C, when its work is done."""
    deadline = time.monotonic() + _SECONDS
    while not done():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=_SECONDS)
    return errors


def test_the_page_runs_from_top_to_bottom(
    server: EmbeddedServer, folder: Path, environment: dict[str, str]
) -> None:
    for block in blocks("sql"):
        run_sql(server, block, "shop")

    live, peek, follow, sql, read = blocks("python")
    said = run([sys.executable, "-c", live], folder, environment)
    assert "jug" in said
    assert "tea" not in said
    for block in (peek, sql) * 2:  # peeking confirms nothing
        said = run([sys.executable, "-c", block], folder, environment)
        for value in ("insert", "update_postimage", "delete", "tea", "8.00", "jug"):
            assert value in said

    check, show, drop, record, decode = blocks("sh")
    assert "0 errors" in run(["/bin/bash", "-ec", check], folder, environment)
    assert "shop  pgoutput" in run(["/bin/bash", "-ec", show], folder, environment)
    file = folder / "shop.pgoutput"
    process = subprocess.Popen(  # noqa: S603
        [
            "/bin/bash",
            "-ec",
            re.sub(r"^pg_recv", "exec pg_recv", record, flags=re.MULTILINE),
        ],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(process, lambda: file.exists() and file.read_bytes().count(b"\nC\0") == 4)
    run(["/bin/bash", "-ec", decode], folder, environment)
    assert (folder / "orders.parquet").exists()
    said = run([sys.executable, "-c", read], folder, environment)
    assert sum(int(count) for count in re.findall(r"public\.orders (\d+)", said)) == 5

    assert follow in (ROOT / "examples/follow.py").read_text()
    seen = folder / "seen.txt"
    with seen.open("w") as out:
        process = subprocess.Popen(  # noqa: S603
            [
                *(sys.executable, str(ROOT / "examples/follow.py")),
                *("dbname=shop", "shop", "shop", "orders"),
            ],
            cwd=folder,
            env=environment,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
        run_sql(server, "INSERT INTO orders VALUES (4, 'pot', 12.25)", "shop")
        until(process, lambda: "12.25" in seen.read_text())
    assert process.returncode == 130

    assert "dropped" in run(["/bin/bash", "-ec", drop], folder, environment)
