"""The small objects of a log, and what is no file in its directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import walrow
from captures import capture
from logs import contents, fault, history, published, transactions

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and pipes")


@pytest.fixture
def log(tmp_path: Path) -> walrow.Log:
    """A log of five segments, with a registered reader."""
    log = published(tmp_path / "log", transactions(5))
    log.register("r")
    return log


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
