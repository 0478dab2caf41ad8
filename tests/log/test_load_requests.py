"""Requests for loads, as files of a log."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import walrow
from walrow._core import LogObjects
from walrow._log.needs import read_published, write_published
from walrow._log.published import Published
from walrow._log.requests import (
    LoadRequest,
    Requests,
    _renew,
    complete,
    failures,
    is_wanted,
    note,
    pending,
    request,
    result_of,
    take,
)


def test_a_request_beside_a_writer_that_starts(tmp_path: Path) -> None:
    """It removes the temporary files that a crash may have left."""
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    stop = threading.Event()
    refused: list[Exception] = []

    def open_again_and_again() -> None:
        while not stop.is_set():
            try:
                walrow.seal(b"", log=log)
            except walrow.Error as error:
                refused.append(error)

    writer = threading.Thread(target=open_again_and_again)
    writer.start()
    try:
        for _ in range(500):
            wanted = request(log, ["public.item"])
            assert take(log) == wanted
            assert walrow.log.cancel_load(log=log) == 1
    finally:
        stop.set()
        writer.join()
    assert not refused
    assert not [*log.glob(".*"), *log.glob("_load-*")]


@pytest.mark.skipif(os.name != "posix", reason="modes")
@pytest.mark.parametrize("directory", [0o700, 0o755], ids=oct)
@pytest.mark.parametrize("group", [False, True], ids=["owner", "group"])
def test_a_request_is_for_whom_the_log_is(
    tmp_path: Path,
    directory: int,
    group: bool,  # noqa: FBT001
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    log.chmod(directory)
    walrow.seal(b"", log=log, group_access=group)
    wanted = request(log, ["public.item"])
    found = stat.S_IMODE((log / f"_load-request-{wanted.key}").stat().st_mode)
    assert found == (0o640 if group else 0o600)


def test_a_request_is_wanted_as_long_as_somebody_waits(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    first = request(log, ["public.item"], is_awaited=True)
    second = request(log, ["public.other"])
    assert take(log) == first
    assert is_wanted(log, first)
    # Its process ended a minute ago.
    for wanted in (first, second):
        path = log / f"_load-request-{wanted.key}"
        record = json.loads(path.read_text("utf-8"))
        record["renewed"] -= 61
        path.write_text(json.dumps(record), "utf-8")
    assert not is_wanted(log, first)
    # A request that nobody waits for stays.
    assert take(log) == second
    assert is_wanted(log, second)
    assert not is_wanted(log, first)


def test_a_request_is_taken_back_by_a_timeout(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    with pytest.raises(TimeoutError, match="is walrow receive running"):
        walrow.load("public.item", log=log, timeout=0)
    assert take(log) is None
    walrow.load("public.item", log=log, wait=False)
    walrow.load(["public.item", "public.other"], log=log, wait=False)
    walrow.load("public.third", log=log, wait=False)
    assert walrow.log.cancel_load("public.none", log=log) == 0
    assert walrow.log.cancel_load(["public.item"], log=log) == 2
    taken = take(log)
    assert taken is not None
    assert taken.tables == ["public.third"]
    assert walrow.log.cancel_load(log=log) == 1


def test_whoever_waits_for_a_cancelled_load_learns_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    found: list[str] = []

    def wait() -> None:
        try:
            walrow.load("public.item", log=log, timeout=60)
        except walrow.errors.LogError as error:
            found.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not walrow.log.cancel_load("public.item", log=log):
        time.sleep(0.01)
    waiting.join()
    assert found == ["the load was cancelled"]


def test_deeply_nested_files_are_damaged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    nested = "[" * 100_000
    (log / "_load-request-nested").write_text(nested, encoding="utf-8")
    with pytest.raises(walrow.errors.LogError, match="damaged"):
        take(log)
    (log / "_load-needed").write_text(nested, encoding="utf-8")
    with pytest.raises(walrow.errors.LogError, match="damaged"):
        read_published(lambda name: (log / name).read_bytes())
    wanted = request(log, None)
    result = log / f"_load-result-{wanted.key}"
    result.write_text(nested, encoding="utf-8")
    found = result_of(LogObjects(log), wanted)
    assert found is not None
    assert found.failure == "the result of the load cannot be read"


def test_a_request_that_is_renewed_and_removed_at_once_is_gone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    objects = LogObjects(log)
    for _ in range(20):
        wanted = request(log, ["public.item"], is_awaited=True)
        removing = threading.Thread(target=complete, args=(log, wanted, None))
        removing.start()
        # As one that waits does it.
        with contextlib.suppress(FileNotFoundError):
            while True:
                _renew(objects, wanted)
                # The lock is not fair.
                time.sleep(0.005)
        removing.join()
        assert not list(log.glob("_load-request-*"))
        assert result_of(LogObjects(log), wanted) is not None


def test_what_is_no_file_is_no_request(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    outside = tmp_path / "outside"
    outside.write_text("important", "utf-8")
    (log / "_load-request-link").symlink_to(outside)
    os.mkfifo(log / "_load-request-pipe")
    (log / "_load-request-directory").mkdir()
    for _ in range(2):
        with pytest.raises(walrow.errors.LogError, match="damaged"):
            take(log)
    # A directory cannot be removed like a file. It hides no request.
    assert take(log) is None
    wanted = request(log, None)
    assert take(log) == wanted
    # Only the link went.
    assert outside.read_text("utf-8") == "important"


def test_a_log_is_listed_only_if_a_name_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._log.requests._SETTLED_NANOSECONDS", 100_000_000)
    listed: list[Path] = []

    def listing(log: Path) -> LoadRequest | None:
        listed.append(log)
        return take(log)

    monkeypatch.setattr("walrow._log.requests.take", listing)
    log = tmp_path / "log"
    requests = Requests(log)
    # There is no log yet.
    assert requests.take() is None
    walrow.seal(b"", log=log)
    assert requests.take() is None
    # The clock of a file system may be coarse.
    assert requests.take() is None
    assert len(listed) == 2
    time.sleep(0.2)
    for _ in range(10):
        assert requests.take() is None
    assert len(listed) == 3
    wanted = request(log, None)
    for _ in range(2):
        assert requests.take() == wanted
    assert walrow.log.cancel_load(log=log) == 1
    assert requests.take() is None


def test_a_process_that_waits_hears_for_what(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    heard: list[str] = []
    load = threading.Thread(
        target=walrow.load,
        args=("public.item",),
        kwargs={"log": log, "progress": heard.append},
    )
    load.start()
    try:
        deadline = time.monotonic() + 20
        while (taken := take(log)) is None or not heard:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert heard == ["waiting for the receiver of the log: walrow receive must run"]
        # As a receiver, another process has locked the file.
        with (log / "_open").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            while len(heard) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert heard.pop() == (
            "waiting for the receiver of the log, which has not begun the load yet"
        )
        note(log, taken, "the receiver is waiting for prepared transaction 'a'")
        # A renewal keeps it.
        _renew(LogObjects(log), taken)
        assert take(log) == taken
        while len(heard) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert heard[1:] == ["the receiver is waiting for prepared transaction 'a'"]
    finally:
        complete(log, taken or LoadRequest("", None), None)
        load.join(20)
    assert not [*log.glob("_load-*")]


def test_a_note_does_not_renew_a_request(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    wanted = request(log, ["public.item"], is_awaited=True)
    (path,) = log.glob("_load-request-*")
    before = json.loads(path.read_text())["renewed"]
    note(log, wanted, "x")
    found = json.loads(path.read_text())
    assert (found["renewed"], found["waits"]) == (before, "x")


def test_a_name_without_its_schema(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    names = ["shop.orders", "a.items", "b.items", "shop.a.b"]
    pictures = {oid: {"name": name} for oid, name in enumerate(names, 16400)}
    write_published(log, Published(pictures, walrow.Lsn(0), None, {}, {}, {}))
    walrow.load("orders", log=log, wait=False)
    taken = take(log)
    assert taken is not None
    assert taken.tables == ["shop.orders"]
    assert walrow.log.cancel_load(["orders"], log=log) == 1
    for name, reason in (
        ("items", "several tables have it"),
        ("none", "no published table has it"),
    ):
        with pytest.raises(walrow.errors.OptionError, match=reason):
            walrow.load(name, log=log, wait=False)
    assert take(log) is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"wait": "no"}, "wait must be True or False, not str"),
        ({"wait": 0}, "wait must be True or False, not int"),
        ({"progress": 5}, "progress must be a function, not int"),
        ({"timeout": 10**400}, "timeout is a number of 1,329 bits: that is too long"),
        ({"tables": "."}, r"tables has '\.', which is no name: write name or schema"),
        ({"tables": ["a.b", ""]}, "tables has an empty name"),
        ({"tables": "a."}, r"tables has 'a\.', which is no name"),
        (
            {"tables": "a.b.c"},
            r"tables has 'a\.b\.c'.*: no published table has it",
        ),
        ({"tables": []}, "tables is empty: name a table"),
        ({"log": ""}, "log is empty"),
        ({"log": "x\ud800"}, "log has a character that no path can have"),
    ],
)
def test_wrong_options_leave_no_request(
    options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    given: dict[str, Any] = {"tables": "a.b", "log": log, "timeout": 0}
    with pytest.raises(walrow.errors.OptionError, match=text):
        walrow.load(**given | options)
    assert take(log) is None


@pytest.mark.parametrize("tables", [b"", {}, {"a.b": 1}, 5, True, [5]])
def test_other_types_are_no_tables(tables: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    for ask in (walrow.load, walrow.log.cancel_load):
        with pytest.raises(walrow.errors.OptionError, match="tables must be a name or"):
            ask(tables, log=log)
    assert take(log) is None


def test_a_published_name_may_have_points(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    pictures = {16400: {"name": "shop.a.b"}}
    write_published(log, Published(pictures, walrow.Lsn(0), None, {}, {}, {}))
    walrow.load("shop.a.b", log=log, wait=False)
    taken = take(log)
    assert taken is not None
    assert taken.tables == ["shop.a.b"]


def test_a_timeout_is_both_errors(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    with pytest.raises(walrow.errors.TimeoutError) as caught:
        walrow.load(log=log, timeout="0s")
    assert isinstance(caught.value, TimeoutError | walrow.Error)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) != ""


def test_a_load_of_several_that_is_given_up_goes_on_with_each_alone(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    joint = request(log, ["s.b", "s.a", "s.a"])
    # After a crash in the middle, it is recorded once more.
    for _ in range(2):
        complete(log, joint, "no right to read s.a")
    alone = [it.tables for it in pending(log)]
    assert alone == [["s.a"], ["s.b"]]
    # The time of the joint request, so later requests come later.
    assert {it.time for it in pending(log)} == {joint.time}
    assert failures(log) == {}
    for failure in ("no right to read s.a", "still none"):
        first = take(log)
        assert first is not None
        assert first.tables == ["s.a"]
        complete(log, first, failure)
        assert failures(log) == {"s.a": failure}
        request(log, ["s.a"])
        (second,) = (it for it in pending(log) if it.tables == ["s.b"])
        complete(log, second, None)
        assert failures(log) == {"s.a": failure}
        request(log, ["s.b"])
    for each in pending(log):
        complete(log, each, None)
    assert failures(log) == {}
    assert not [*log.glob("_load-*")]


@pytest.mark.parametrize(
    ("tables", "refused", "others", "again"),
    [
        # The request for all tables has no names.
        (None, {"s.c": "no right"}, ["s.b", "s.a"], [["s.a", "s.b"]]),
        (["s.a", "s.b", "s.c"], {"s.c": "no right"}, ["s.a", "s.b"], [["s.a", "s.b"]]),
        (["s.a", "s.b"], {"s.a": "no right", "s.b": "no such table"}, [], []),
        # The tables that have broken the load are not known.
        (["s.a", "s.b", "s.c"], {}, [], [["s.a"], ["s.b"], ["s.c"]]),
        (None, {}, [], []),
    ],
)
def test_tables_that_break_a_load_are_set_apart(
    tmp_path: Path,
    tables: list[str] | None,
    refused: dict[str, str],
    others: list[str],
    again: list[list[str]],
) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    joint = request(log, tables)
    # After a crash in the middle, it is recorded once more.
    for _ in range(2):
        complete(log, joint, "it was given up", refused, others)
    assert [it.tables for it in pending(log)] == again
    assert failures(log) == refused
    # A table that is loaded later has no failure any more.
    for table in refused:
        complete(log, request(log, [table]), None)
    assert failures(log) == {}


def test_one_that_somebody_waits_for_is_not_divided(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    awaited = request(log, ["s.a", "s.b"], is_awaited=True)
    complete(log, awaited, "it failed")
    assert pending(log) == []
    assert failures(log) == {}
    found = result_of(LogObjects(log), awaited)
    assert found is not None
    assert found.failure == "it failed"
