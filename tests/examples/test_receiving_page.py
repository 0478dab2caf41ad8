"""Runs the commands of docs/receiving.md, and the unit for systemd, against a server."""

import configparser
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import walrow
from servers import EmbeddedServer, run_sql

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/receiving.md").read_text()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        run_sql(server, "CREATE DATABASE shop")
        tables = "CREATE TABLE orders (id int PRIMARY KEY); CREATE PUBLICATION shop FOR TABLE orders"
        for statement in tables.split(";"):
            run_sql(server, statement, "shop")
        yield server


@pytest.fixture(scope="module")
def environment(server: EmbeddedServer) -> dict[str, str]:
    programs = [str(Path(sys.executable).parent), os.environ["PATH"]]
    return {
        **os.environ,
        "PATH": os.pathsep.join(programs),
        "PGHOST": str(server.socket_directory),
        "PGUSER": "postgres",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shop")


def started(
    words: list[str], folder: Path, environment: dict[str, str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603
        words, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )


def wait_for_stream(server: EmbeddedServer, process: subprocess.Popen[str]) -> None:
    import psycopg

    deadline = time.monotonic() + 60
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        while not connection.execute(
            "SELECT 1 FROM pg_replication_slots WHERE active"
        ).fetchone():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)


def ended(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    _, text = process.communicate(timeout=20)
    assert process.returncode == 0, text


def test_the_page_runs(
    server: EmbeddedServer, folder: Path, environment: dict[str, str]
) -> None:
    commands, _, again, load = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    preflight, receive = commands.strip().split("\n")
    subprocess.run(  # noqa: S603
        shlex.split(preflight), cwd=folder, env=environment, check=True
    )
    process = started(shlex.split(receive), folder, environment)
    wait_for_stream(server, process)
    run_sql(server, "INSERT INTO orders VALUES (1), (2)", "shop")
    time.sleep(0.5)
    ended(process)
    assert walrow.Log(folder / "log").tables()[0].rows == 2
    program, follow, load_orders = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert result.stdout.endswith("public.orders 2\n")
    once = "import walrow\n" + follow.replace("...", "print(batch.num_rows); break")
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", once],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert result.stdout == "2\n"
    # The log has its beginning already: only the loads come.
    process = started(shlex.split(again), folder, environment)
    wait_for_stream(server, process)
    run_sql(server, "CREATE TABLE customers (id int PRIMARY KEY)", "shop")
    run_sql(server, "INSERT INTO customers VALUES (7)", "shop")
    run_sql(server, "ALTER PUBLICATION shop ADD TABLE customers", "shop")
    for words in (
        shlex.split(load),
        [sys.executable, "-c", f"import walrow\n{load_orders}"],
    ):
        subprocess.run(words, cwd=folder, env=environment, check=True)  # noqa: S603
    ended(process)
    tables = {it.name: it for it in walrow.Log(folder / "log").tables()}
    assert tables["public.customers"].rows == 1
    assert (tables["public.orders"].rows, tables["public.orders"].truncates) == (6, 2)


def test_a_receiver_of_two_servers_runs(
    server: EmbeddedServer, folder: Path, environment: dict[str, str]
) -> None:
    _, failover, *_ = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    words = shlex.split(failover.replace("\\\n", " "))
    words[words.index("--slot") + 1] = "shop_of_two"
    words[words.index("--log") + 1] = "of-two"
    place = server.socket_directory
    words[-1] = words[-1].replace("db1,db2", f"{place},{place}")
    words[-1] = words[-1].replace("user=walrow", "user=postgres")
    words += ["--until", "now"]
    subprocess.run(words, cwd=folder, env=environment, check=True)  # noqa: S603
    assert (folder / "of-two" / "_open").exists()
    run_sql(
        server,
        "DO $$ BEGIN ASSERT (SELECT failover FROM pg_replication_slots "
        "WHERE slot_name = 'shop_of_two'); END $$",
    )


def test_the_unit_runs(
    server: EmbeddedServer, folder: Path, environment: dict[str, str]
) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "examples/walrow-receive.service")
    words = shlex.split(unit["Service"]["ExecStart"])
    # As the page's receiver has it.
    words[words.index("--log") + 1] = "log"
    words[0] = "walrow"
    process = started(words, folder, environment | {"PGDATABASE": "shop"})
    wait_for_stream(server, process)
    ended(process)
