"""Runs the README's code as a reader who copies it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from servers import EmbeddedServer, run_sql

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def shop() -> Iterator[dict[str, str]]:
    """The environment in which libpq finds the database of the README."""
    with EmbeddedServer() as server:
        run_sql(server, "CREATE DATABASE shop")
        run_sql(
            server,
            "CREATE TYPE mood AS ENUM ('sad', 'ok');"
            "CREATE TABLE item (id int PRIMARY KEY, mood mood);"
            "CREATE TABLE orders (id int PRIMARY KEY, price numeric(10, 2));"
            "CREATE PUBLICATION shop FOR TABLE item, orders;"
            "SELECT pg_create_logical_replication_slot('shop', 'pgoutput');"
            "INSERT INTO orders VALUES (1, 3.50);",
            "shop",
        )
        yield {"PGHOST": str(server.socket_directory), "PGUSER": "postgres"}


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=[pytest.mark.spark] if "spark." in block else [])
        for number, block in enumerate(blocks("python"))
    ],
)
def test_python_block_runs(number: int, shop: dict[str, str]) -> None:
    # Spark's tasks run the `python3` of the active environment, as for a user.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", blocks("python")[number]],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PATH": path, **shop},
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "insert" in result.stdout or "public.item" in result.stdout


def test_the_first_block_runs_on_a_fresh_slot(shop: dict[str, str]) -> None:
    block = blocks("python")[0]
    assert 'slot="shop"' in block
    fresh = "SELECT pg_create_logical_replication_slot('fresh', 'pgoutput')"
    with psycopg.connect(
        host=shop["PGHOST"], user=shop["PGUSER"], dbname="shop", autocommit=True
    ) as conn:
        conn.execute(fresh)
    program = block.replace('slot="shop"', 'slot="fresh"')
    result = subprocess.run(  # noqa: S603
        # No warnings, either.
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **shop},
        text=True,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "Empty DataFrame" in result.stdout
    assert "_change_type" in result.stdout


def test_rust_block_is_the_examples() -> None:
    (block,) = blocks("rust")
    example = (ROOT / "crates/walrow/examples/read.rs").read_text()
    _, _, program = example.partition('reason = "an example prints")]\n\n')
    assert block == program  # test_examples.py runs it


def test_linked_files_exist() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def test_there_are_blocks_to_run() -> None:
    assert len(blocks("python")) >= 2
