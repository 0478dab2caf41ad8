"""`walrow receive`: what others may see of it, and names that are not harmless."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import (
    Feed,
    ReceiverProcess,
    execute,
    receive_all,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

SECRET = "s3cret-word"  # noqa: S105


@pytest.mark.parametrize(
    "dsn",
    [
        "host={host} user=postgres dbname=nothing password={secret}",
        "host={host} user=nobody_else dbname=postgres password={secret}",
        "postgresql://postgres:{secret}@nowhere.invalid/postgres",
        "postgresql://postgres:{secret}/x@y@nowhere.invalid/postgres",
        "host={host} user=postgres password={secret} dbname",
        "host={host} user=postgres password='{secret}",
        "service=mine dbname=nothing",
        "host={host} dbname=nothing user=postgres",
    ],
)
def test_no_password_in_any_output(
    server: EmbeddedServer, tmp_path: Path, dsn: str
) -> None:
    services = tmp_path / "services"
    host = server.socket_directory
    services.write_text(f"[mine]\nhost={host}\nuser=postgres\npassword={SECRET}\n")
    environment = {"PGSERVICEFILE": str(services), "PGPASSWORD": SECRET}
    with ReceiverProcess(
        dsn.format(host=host, secret=SECRET),
        tmp_path / "log",
        *("--start-within", "0"),
        environment=environment,
    ) as receiver:
        code, text = receiver.wait()
        assert code != 0
        assert text
        assert SECRET not in text + receiver.output
        assert "Traceback" not in text
    assert not (tmp_path / "log").exists()


def test_password_is_not_in_the_log(feed: Feed) -> None:
    feed.execute("INSERT INTO item VALUES (1, 1)")
    receive_all(f"{feed.dsn} password={SECRET}", feed.log, slot=feed.slot)
    for file in feed.log.rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()
    assert SECRET not in repr(walrow.Log(feed.log).source)


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
@pytest.mark.parametrize("group", [False, True], ids=["owner", "group"])
def test_modes_whatever_the_umask(feed: Feed, umask: int, *, group: bool) -> None:
    arguments = ["--group-access"] if group else []
    directory, file = (0o750, 0o640) if group else (0o700, 0o600)
    feed.execute("INSERT INTO item VALUES (1, 1)")
    feed.receive_all(*arguments, umask=umask)
    assert stat.S_IMODE(feed.log.stat().st_mode) == directory
    found = {
        each.name: stat.S_IMODE(each.stat().st_mode)
        for each in feed.log.rglob("*")
        if each.is_file()
    }
    assert len(found) >= 4
    assert set(found.values()) == {file}, found
    assert stat.S_IMODE((feed.log / "_run").stat().st_mode) == directory


@pytest.mark.parametrize(
    "name",
    [
        'it\'s "p"',
        "p\n\x1b[31m",
        *(
            pytest.param(it, marks=pytest.mark.slow)
            for it in ("a b", "日本語", "../../p", "p,q", "%s{}")
        ),
    ],
)
def test_names(feed: Feed, tmp_path: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    feed.execute(
        f"CREATE PUBLICATION {quoted} FOR TABLE item, audit, wide",
        f"CREATE SCHEMA {quoted}",
        f"CREATE TABLE {quoted}.{quoted} ({quoted} int PRIMARY KEY)",
        f"ALTER PUBLICATION {quoted} ADD TABLE {quoted}.{quoted}",
        # The slot is older, so the publication must be older than the changes.
        f"INSERT INTO {quoted}.{quoted} VALUES (1)",  # noqa: S608
        "INSERT INTO item VALUES (1, 1)",
    )
    try:
        text = feed.receive_all(publication=name)
        assert "\x1b" not in text
        feed.check()
        rows = [each.rows for each in walrow.Log(feed.log).tables()]
        # The receiver has loaded the empty ones, because the publication is younger than the slot.
        assert rows[:2] == [1, 1]
        assert not any(rows[2:])
        assert sorted(os.listdir(tmp_path)) == ["log"]  # noqa: PTH208
        missing = f"{name}?"
        with feed.receiver(publication=missing) as receiver:
            text = receiver.ended(1)
        assert "there is no publication" in text
        assert "\x1b" not in text
        assert len(text.splitlines()) == 1
    finally:
        feed.execute(f"DROP SCHEMA {quoted} CASCADE", f"DROP PUBLICATION {quoted}")


def test_database_with_a_strange_name(server: EmbeddedServer, tmp_path: Path) -> None:
    name = 'it\'s "a" d/b é\\'
    quoted = '"' + name.replace('"', '""') + '"'
    execute(server.dsn, f"CREATE DATABASE {quoted}")
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    dsn = f"host={server.socket_directory} user=postgres dbname='{escaped}'"
    slot = f"strange_{os.getpid()}"
    execute(
        dsn,
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE t",
        f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
        "INSERT INTO t VALUES (1)",
    )
    try:
        receive_all(dsn, tmp_path / "log", slot=slot)
        log = walrow.Log(tmp_path / "log")
        assert log.source.database == name
        assert [table.rows for table in log.tables()] == [1]
    finally:
        execute(dsn, f"SELECT pg_drop_replication_slot('{slot}')")
        execute(server.dsn, f"DROP DATABASE {quoted}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Upper", 'a"b', "a b", "a/b", "é", "a\nb", "x" * 70])
def test_slot_names_that_no_server_has(
    server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    with ReceiverProcess(
        server.dsn, tmp_path / "log", "--create", slot=name
    ) as receiver:
        code, text = receiver.wait()
    assert code in {1, 2}
    assert len(text.splitlines()) == 1, text
    assert "Traceback" not in text
