"""docs/running.md: its files are right, and its commands run."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")

from servers import EmbeddedServer
from servers.receiving import execute
from walrow._run.reading import parse

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "running.md").read_text("utf-8")


def test_the_files_of_the_page_are_right() -> None:
    files = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert len(files) >= 2
    whole = files[0]
    parse(whole, Path("/shop.toml"), is_private=True)
    for part in files[1:]:
        text = whole.partition("[[target]]")[0] + part
        parse(text, Path("/shop.toml"), is_private=True)


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.timeout(240)
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    first, *_ = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    init, check, run = first.strip().splitlines()
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with EmbeddedServer() as server:
        execute(server.dsn, "CREATE DATABASE shop")
        execute(
            server.dsn_of("shop"),
            "CREATE TABLE orders (id int PRIMARY KEY)",
            "INSERT INTO orders VALUES (1)",
            "CREATE PUBLICATION shop FOR TABLE orders",
        )
        environment = {
            **os.environ,
            "PATH": programs,
            "PGHOST": str(server.socket_directory),
            "PGUSER": "postgres",
        }
        for command in (
            init,
            check,
            f"{run} --once",
            "walrow status --allow-stopped shop-log",
        ):
            done = subprocess.run(  # noqa: S603
                shlex.split(command, comments=True),
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "lake" / "public" / "orders" / "_delta_log").is_dir()


def test_the_dag_calls_a_command_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow itself is not installed here. The test looks at the arguments for it."""
    made: dict[str, dict[str, Any]] = {}

    class DAG:
        def __init__(self, name: str, **options: Any) -> None:
            made[name] = options

        def __enter__(self) -> None: ...

        def __exit__(self, *_exception: object) -> None: ...

    def operator(**options: Any) -> None:
        made[options["task_id"]] = options

    names = "airflow", "airflow.sdk", "airflow.providers.standard.operators.bash"
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr(sys.modules["airflow.sdk"], "DAG", DAG, raising=False)
    monkeypatch.setattr(sys.modules[names[2]], "BashOperator", operator, raising=False)
    path = ROOT / "examples" / "airflow_dag.py"
    spec = importlib.util.spec_from_file_location("airflow_dag", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert made["walrow_shop"]["max_active_runs"] == 1
    assert made["walrow_shop"]["catchup"] is False
    words = shlex.split(made["run_once"]["bash_command"])
    assert words[:2] == ["walrow", "run"]
    from walrow.cli.app import cli

    known = {name for it in cli.commands["run"].params for name in it.opts}
    assert {it for it in words if it.startswith("-")} <= known
