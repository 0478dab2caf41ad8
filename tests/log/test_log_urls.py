"""Logs at URLs: copies in an object store, which can be read, but not changed."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import walrow
from captures import captures
from logs import (
    Publisher,
    contents,
    fault,
    log_of,
    published,
    transaction,
    transactions,
)
from servers.s3 import BUCKET, S3
from walrow._sources.log_objects import LogObject
from walrow.cli.app import cli, run

pa = pytest.importorskip("pyarrow")


pytestmark = pytest.mark.filterwarnings(
    # Of botocore and aiohttp, whose loop is a thread's.
    "ignore:datetime.datetime.utcnow:DeprecationWarning",
    "ignore::ResourceWarning",
)

NAMES = {
    "18-rows-text",
    "18-alter-columns-text",
    "18-truncate-text",
    "18-two-phase-text",
}
SOME = [each for each in captures() if str(each) in NAMES]


@pytest.fixture
def environment(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    # Those that were made without it.
    type(s3.files).clear_instance_cache()
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)


def remote(s3: S3, url: str) -> walrow.Log:
    return walrow.Log(url, storage_options=s3.storage_options)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("capture", SOME, ids=str)
def test_a_copy_gives_what_the_log_gives(s3: S3, capture: Any, tmp_path: Path) -> None:
    local = log_of(tmp_path / "log", capture, 700)
    url = s3.copy(local.path, f"copy-{capture}")
    log = remote(s3, url)
    assert (log.start, log.end, log.source) == (local.start, local.end, local.source)
    assert log.tables() == local.tables()
    assert [astuple(it)[1:] for it in log.segments()] == [
        astuple(it)[1:] for it in local.segments()
    ]
    assert log.verify() == []
    read = contents(local.read(unfinished="ignore"))
    assert contents(log.read(unfinished="ignore")) == read
    assert contents(walrow.read(log, unfinished="ignore")) == read
    # The slash says that it is a directory. Credentials come from the environment.
    assert contents(walrow.read(url, unfinished="ignore")) == read
    assert walrow.tables(url) == walrow.tables(local)
    for table in {it.name for it in local.tables()}:
        found = [
            pa.schema(walrow.schema(it, table, unrepresentable="null"))
            for it in (local, log, url)
        ]
        assert found[0].equals(found[1], check_metadata=True)
        assert found[0].equals(found[2], check_metadata=True)
        states = [
            contents(it.state(table, unrepresentable="null")) for it in (local, log)
        ]
        assert states[0] == states[1]


def test_where_fsspec_names_a_segment(s3: S3, tmp_path: Path) -> None:
    local = published(tmp_path / "log", transactions(2))
    log = remote(s3, s3.copy(local.path, "named"))
    first = log.segments()[0].path
    assert s3.files.cat(str(first)) == local.segments()[0].path.read_bytes()
    assert log.location == f"s3://{BUCKET}/named/"


def test_a_compacted_and_pruned_log(s3: S3, tmp_path: Path) -> None:
    local = published(tmp_path / "log", transactions(8))
    local.prune(0x2000)
    local.compact()
    log = remote(s3, s3.copy(local.path, "compacted"))
    assert log.start == 0x2000
    assert contents(log.read()) == contents(local.read())
    assert fault(lambda: log.read(start=0x1000)) == ("pruned", None)


def test_what_is_copied_later_is_followed(s3: S3, tmp_path: Path) -> None:
    first, second, third = transactions(3, rows=1)
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(first)
        log = remote(s3, s3.copy(tmp_path / "log", "followed"))
        with log.follow(poll_interval=0.01) as batches:
            assert pa.record_batch(next(batches)).num_rows == 1
            publisher.publish(second, third)
            s3.copy(tmp_path / "log", "followed")
            rows = pa.record_batch(next(batches))
            assert rows["_commit_lsn"].to_pylist() == [0x1FF8, 0x2FF8]


def test_a_log_is_pickled_with_its_options(s3: S3, tmp_path: Path) -> None:
    local = published(tmp_path / "log", transactions(2))
    log = remote(s3, s3.copy(local.path, "pickled"))
    again = pickle.loads(pickle.dumps(log))
    assert contents(again.read()) == contents(local.read())


def test_nothing_is_changed_there(s3: S3, tmp_path: Path) -> None:
    local = published(tmp_path / "log", transactions(3))
    url = s3.copy(local.path, "unchanged")
    log = remote(s3, url)
    before = {name: s3.files.cat(name) for name in s3.files.ls(url)}
    for change in (
        lambda: log.prune(0x2000),
        lambda: log.retain(bytes=1),
        log.compact,
        lambda: log.erase("t", columns=["v"]),
        lambda: log.register("me"),
        lambda: log.follow(reader="me"),
        lambda: log.path,
        lambda: walrow.load("public.t", log=log),
        lambda: walrow.seal(b"", log=log),
        lambda: walrow.seal(b"", log=url),
        lambda: walrow.receive("", log=url, slot="s", publications="p"),
    ):
        assert fault(change)[0] == "read_only"
    s3.files.invalidate_cache()
    assert {name: s3.files.cat(name) for name in s3.files.ls(url)} == before


def test_what_is_not_a_log(s3: S3, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        remote(s3, f"s3://{BUCKET}/absent/")
    with pytest.raises(FileNotFoundError):
        remote(s3, "s3://nobodys-bucket/log/")
    s3.files.pipe(f"{BUCKET}/other/notes.txt", b"notes")
    assert fault(lambda: remote(s3, f"s3://{BUCKET}/other/")) == ("not_a_log", None)
    with pytest.raises(walrow.errors.OptionError, match="nowhere"):
        walrow.Log("nowhere://bucket/log")
    with pytest.raises(walrow.errors.OptionError, match="those of a URL"):
        walrow.Log(tmp_path, storage_options={})
    with pytest.raises(walrow.errors.OptionError, match="connection string") as raised:
        walrow.Log("postgresql://me:secret@db/shop")
    assert "secret" not in str(raised.value)


def test_damage_and_failures_are_named(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = published(tmp_path / "log", transactions(3))
    second = local.segments()[1].path.name
    url = s3.copy(local.path, "damaged")
    log = remote(s3, url)
    whole = s3.files.cat(f"{url}{second}")
    s3.files.pipe(f"{url}{second}", whole[:20] + b"?" + whole[21:])
    assert fault(lambda: contents_of(log)) == ("damaged", second)
    s3.files.pipe(f"{url}{second}", whole[:-1])
    assert fault(lambda: contents_of(log)) == ("damaged", second)
    s3.files.rm(f"{url}{second}")
    assert fault(lambda: contents_of(log)) == ("store", second)
    s3.files.rm(f"{url}_index")
    assert fault(lambda: remote(s3, url)) == ("missing", None)

    def refuse(_object: LogObject, _at: int, _size: int) -> bytes:
        text = "the network is down"
        raise OSError(text)

    s3.files.pipe(f"{url}{second}", whole)
    monkeypatch.setattr(LogObject, "read_at", refuse)
    with pytest.raises(walrow.errors.LogError, match="network is down") as raised:
        contents_of(log)
    assert raised.value.code == "store"
    with pytest.raises(OSError, match="network is down"):
        remote(s3, url)


def contents_of(log: walrow.Log) -> None:
    for _ in log.read():
        pass


def test_ctrl_c_ends_a_read(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = remote(s3, s3.copy(published(tmp_path / "log", transactions(2)).path, "c"))

    def interrupted(_object: LogObject, _at: int, _size: int) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LogObject, "read_at", interrupted)
        with pytest.raises(KeyboardInterrupt):
            contents_of(log)
        with pytest.raises(KeyboardInterrupt):
            remote(s3, f"s3://{BUCKET}/c/")
    # It does not come up again.
    contents_of(log)


def test_only_what_is_read_is_fetched(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import random

    import s3fs

    made = random.Random(1)  # noqa: S311 - any bytes that do not compress

    def rows(count: int) -> list[tuple[str, str]]:
        return [(str(row), made.randbytes(500).hex()) for row in range(count)]

    large = [transaction(0x1000 * n, *rows(2000)) for n in range(1, 5)]
    small = transaction(0x5000, ("1", "x"), oid=99)
    log = published(tmp_path / "log", [*large, small])
    url = s3.copy(log.path, "ranges")
    size = sum(it.bytes for it in log.segments())
    fetched = []
    fetch = s3fs.core.S3File._fetch_range

    def counted(file: Any, start: int, end: int) -> Any:
        fetched.append(end - start)
        return fetch(file, start, end)

    monkeypatch.setattr(s3fs.core.S3File, "_fetch_range", counted)
    assert size > 4_000_000
    (batch,) = remote(s3, url).read(table="public.t99")
    assert batch.num_rows == 1
    assert sum(fetched) < 50_000
    # A segment needs its foot and one or two ranges, not a request for each MiB.
    fetched.clear()
    contents_of(remote(s3, url))
    assert size <= sum(fetched) < size + 100_000
    assert len(fetched) <= 4 * len(log.segments())
    # Without the index, the feet are enough.
    s3.files.rm(f"{url}_index")
    fetched.clear()
    assert [it.rows for it in remote(s3, url).segments()] == [2000] * 4 + [1]
    assert sum(fetched) < 100_000


@pytest.mark.usefixtures("environment")
def test_one_look_finds_a_log_and_opens_it(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    url = s3.copy(published(tmp_path / "log", transactions(2)).path, "seen")
    looks = []
    look = s3fs.S3FileSystem._lsdir

    async def counted(system: Any, *arguments: Any, **options: Any) -> Any:
        looks.append(arguments)
        return await look(system, *arguments, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "_lsdir", counted)
    assert sum(batch.num_rows for batch in walrow.read(url)) == 6
    assert len(looks) == 1
    walrow.schema(url, "t")
    assert len(looks) == 2


@pytest.mark.usefixtures("environment")
def test_the_command_line_reads_it(
    s3: S3, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local = published(tmp_path / "log", transactions(3))
    url = s3.copy(local.path, "shown")

    def lines(*arguments: str) -> list[str]:
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        return result.output.splitlines()

    found = [json.loads(line) for line in lines("log", "list", "--json", url)]
    assert [it["rows"] for it in found] == [3, 3, 3]
    assert lines("log", "verify", url) == ["3 segments verified"]
    assert lines("decode", url) == lines("decode", str(local.path))
    assert lines("state", url, "--table", "t") == lines(
        "state", str(local.path), "--table", "t"
    )
    assert run(["log", "forget", url, "me"]) != 0
    assert "can only be read" in capsys.readouterr().err


def test_a_log_that_fsspec_opens_elsewhere(tmp_path: Path) -> None:
    local = published(tmp_path / "log", transactions(2))
    archive = shutil.make_archive(str(tmp_path / "copy"), "zip", local.path)
    log = walrow.Log(f"zip://::file://{archive}")
    assert contents(log.read()) == contents(local.read())
