"""The small objects of a log, and what is no file in its directory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import walrow
from captures import capture
from logs import Publisher, contents, fault, history, published, transactions
from walrow._core import LogObjects

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and pipes")


@pytest.fixture
def log(tmp_path: Path) -> walrow.Log:
    """A log of five segments, with a registered reader."""
    log = published(tmp_path / "log", transactions(5))
    log.register("r")
    return log


def test_an_object_is_created_once_or_replaced_by_comparison(log: walrow.Log) -> None:
    objects = LogObjects(log.path)
    assert objects.create("_load-a", b"1")
    assert not objects.create("_load-a", b"2")
    found, tag = objects.read("_load-a")
    assert found == b"1"
    with objects.lock():
        assert objects.swap("_load-a", b"3", tag)
        assert not objects.swap("_load-a", b"4", tag)
        assert not objects.swap("_load-b", b"4", tag)
    objects.replace("_load-a", b"5")
    objects.replace("_load-b", b"")
    assert objects.list("_load-") == ["_load-a", "_load-b"]
    assert [objects.read(name)[0] for name in objects.list("_load-")] == [b"5", b""]
    # As after an answer that was lost.
    assert objects.create("_load-a", b"5")
    for _ in range(2):
        objects.remove("_load-a")
    with pytest.raises(FileNotFoundError, match="the log has no _load-a"):
        objects.read("_load-a")
    with pytest.raises(FileNotFoundError):
        LogObjects(log.path / "nothing")
    assert not list(log.path.glob(".walrow-*"))


def test_whoever_wants_the_lock_waits_for_it(log: walrow.Log) -> None:
    order: list[str] = []
    started = threading.Event()

    def wait() -> None:
        started.set()
        with LogObjects(log.path).lock():
            order.append("second")

    waiting = threading.Thread(target=wait)
    with LogObjects(log.path).lock():
        waiting.start()
        assert started.wait(10)
        waiting.join(0.1)
        order.append("first")
    waiting.join(10)
    assert order == ["first", "second"]


def test_a_name_does_not_lead_out_of_the_log(log: walrow.Log) -> None:
    outside = log.path.parent / "outside"
    outside.write_text("important", "utf-8")
    objects = LogObjects(log.path)
    for name in ("../outside", str(outside), "", "..", "."):
        for call in (
            lambda name=name: objects.read(name),
            lambda name=name: objects.create(name, b""),
            lambda name=name: objects.replace(name, b""),
            lambda name=name: objects.remove(name),
            lambda name=name: log.read_object(name),
        ):
            assert fault(call)[0] == "store"
    assert outside.read_text("utf-8") == "important"


def test_no_object_is_larger_than_walrow_writes_it(log: walrow.Log) -> None:
    path = log.path / "_load-needed"
    path.touch()
    os.truncate(path, 1 << 40)
    assert fault(log.tables) == ("store", "_load-needed")


TOUCH = """
import os, sys
import walrow
capture, log = sys.argv[1:]
touched = []

def look(event, arguments):
    for each in arguments:
        if isinstance(each, (str, bytes, os.PathLike)):
            path = os.path.abspath(os.fsdecode(each))
            # Python may ask whether there is a directory.
            is_inside = path.startswith(log + "/")
            if is_inside or path == log and event not in ("os.stat", "os.lstat"):
                touched.append((event, path))

def watched(name):
    call = getattr(os, name)
    def instead(*arguments, **options):
        look(f"os.{name}", arguments)
        return call(*arguments, **options)
    setattr(os, name, instead)

# The interpreter reports other calls by itself.
for name in ("stat", "lstat", "access"):
    watched(name)
sys.addaudithook(look)

walrow.seal(capture, log=log, segment_size=1)
opened = walrow.Log(log)
for source in (log, opened):
    assert sum(batch.num_rows for batch in walrow.read(source)) > 0
    assert list(walrow.frames(source))
    assert walrow.tables(source)
    assert walrow.schema(source, "public.item")
assert list(opened.state("public.item"))
opened.tables(), opened.segments(), opened.verify(), opened.resume()
batches = opened.follow(reader="r")
next(batches), next(batches), batches.close()
opened.register("s"), opened.readers(), opened.forget("s")
opened.compact()
opened.retain(bytes=1 << 40)
walrow.load("public.item", log=log, wait=False)
walrow.log.cancel_load(log=log)
assert not touched, touched

# What is seen.
os.scandir(log).close()
open(log + "/_open", "rb").close()
os.path.isfile(log + "/_open")
assert [event for event, _ in touched] == ["os.scandir", "open", "os.stat"], touched
"""


def test_python_itself_touches_no_file_of_a_log(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - its own text
        [sys.executable, "-c", TOUCH, capture("rows").path, tmp_path.resolve() / "log"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


READ = """
import sys, walrow
log = sys.argv[1]
for call in (
    lambda: list(walrow.Log(log).read()),
    lambda: walrow.Log(log).tables(),
    lambda: walrow.Log(log).readers(),
    lambda: walrow.Log(log).resume(),
    lambda: walrow.Log(log).verify(),
    lambda: walrow.seal(b"", log=log),
):
    try:
        call()
    except walrow.errors.LogError as error:
        print(error)
"""


@pytest.mark.parametrize(
    "name",
    ["_load-needed", "_index", "_open", "_loaded-and-removed", "_reader-r", "_lock"],
)
@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_file_is_an_error_at_once(
    log: walrow.Log, name: str, kind: str
) -> None:
    path = log.path / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    # Its memory would grow without an end.
    done = subprocess.run(  # noqa: S603 - its own text
        [sys.executable, "-c", READ, log.path],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if name != "_lock":
        assert done.stdout.startswith(f"{name}: ")


def test_links_are_not_followed(log: walrow.Log) -> None:
    outside = log.path.parent / "outside"
    outside.write_text("important", "utf-8")
    outside.chmod(0o604)
    changes = {
        "_load-accepted": lambda: LogObjects(log.path).replace("_load-accepted", b""),
        "_open": lambda: Publisher(log.path),
        "_lock": lambda: walrow.Log(log.path).register("s"),
        "_reader-r": lambda: walrow.Log(log.path).readers(),
    }
    for name, change in changes.items():
        path = log.path / name
        path.unlink(missing_ok=True)
        path.symlink_to(outside)
        code, file = fault(change)
        assert (code, file) == ("store", name)
        path.unlink()
    assert outside.read_text("utf-8") == "important"
    assert outside.stat().st_mode & 0o777 == 0o604


def test_a_segment_that_was_moved_away_is_moved_back(log: walrow.Log) -> None:
    segment = log.segments()[2].path
    elsewhere = log.path.parent / segment.name
    segment.rename(elsewhere)
    segment.symlink_to(elsewhere)
    with pytest.raises(
        walrow.errors.LogError, match="move the file that it names back"
    ) as it:
        list(walrow.read(log.path))
    assert (it.value.code, it.value.file) == ("store", segment.name)
    assert fault(walrow.Log(log.path).verify) == ("store", segment.name)
    elsewhere.replace(segment)
    assert contents(walrow.read(log.path)) == contents(walrow.read(history(5)))


def test_the_path_of_a_log_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "log"
    link.symlink_to("disk")
    log = published(link, transactions(5))
    log.register("r")
    assert log.compact().merged
    assert contents(log.read()) == contents(walrow.read(history(5)))
    with Publisher(link) as publisher:
        link.unlink()
        (tmp_path / "other").mkdir()
        link.symlink_to("other")
        # It goes on in the directory that it has opened.
        publisher.publish(transactions(6)[5])
    assert not list((tmp_path / "other").iterdir())
    assert walrow.Log(tmp_path / "disk").end == 0x6000


def test_a_writer_whose_log_is_replaced_ends(tmp_path: Path) -> None:
    path, moved = tmp_path / "log", tmp_path / "moved"
    with Publisher(path) as publisher:
        publisher.publish(*transactions(2))
        path.rename(moved)
        path.mkdir()
        publisher.writer.append(transactions(3)[2])
        assert fault(publisher.writer.sync)[0] is not None
        # Put back, it is not what the writer has seen.
        path.rmdir()
        moved.rename(path)
        assert fault(publisher.writer.sync)[0] is not None
    assert not list(path.glob(".walrow-*"))


def test_a_writer_whose_open_file_is_removed_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with Publisher(path) as publisher:
        publisher.publish(*transactions(2))
        for name in ("_open", "_index"):
            (path / name).unlink()
        with pytest.raises(walrow.errors.LogError, match="another process writes"):
            Publisher(path)
        publisher.writer.append(transactions(3)[2])
        assert fault(publisher.writer.sync)[0] is not None
        assert fault(publisher.writer.publish)[0] is not None
    with Publisher(path) as second:
        second.publish(transactions(3)[2])
    assert contents(walrow.read(path)) == contents(walrow.read(history(3)))
