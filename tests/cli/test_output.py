"""Where `walrow decode --to` writes: files, links, pipes and directories."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streams
import walrow
from walrow.cli import source
from walrow.cli.output import Files, file_name, is_file_name

READERS: dict[str, Callable[[Any], pa.Table]] = {
    "parquet": pq.read_table,
    "arrow": lambda file: pa.ipc.open_file(file).read_all(),
}


def history(tables: Iterable[tuple[str, str]], column: str = "id") -> bytes:
    """A transaction that inserts a row of one integer, 7, into each table."""
    changes = [
        message
        for oid, (schema, table) in enumerate(tables, 16384)
        for message in (
            streams.relation([streams.Column(column, 23)], oid, table, schema),
            streams.insert(["7"], oid),
        )
    ]
    return streams.wired(streams.begin(), *changes, streams.commit())


# -------------------------------------------------------------------- links and pipes


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl"])
def test_output_through_a_link_keeps_the_link(
    data: Path, tmp_path: Path, run: Any, form: str
) -> None:
    (tmp_path / "far").mkdir()
    path, link = tmp_path / "far" / f"out.{form}", tmp_path / f"link.{form}"
    link.symlink_to(path.relative_to(tmp_path))
    decode = ("decode", "--table", "item", "--to", link)
    # The file behind the link may be missing.
    for before in (b"", b"before"):
        if before:
            path.write_bytes(before)
        assert run(*decode, data / "rows.text.wire").returncode == 0
        assert link.is_symlink()
        assert len(path.read_bytes()) > 1000
        assert set(tmp_path.rglob("*")) == {tmp_path / "far", path, link}
    kept = path.read_bytes()
    assert run(*decode, "-", input=b"\xff" * 99).returncode == 1
    assert link.is_symlink()
    assert path.read_bytes() == kept


def read_pipe(path: Path) -> tuple[threading.Thread, list[bytes]]:
    """Reads a named pipe to its end. The thread is daemonic: the pipe may never be opened."""
    found: list[bytes] = []
    thread = threading.Thread(
        target=lambda: found.append(path.read_bytes()), daemon=True
    )
    thread.start()
    return thread, found


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl"])
def test_pipe_is_written_and_stays_a_pipe(
    data: Path, tmp_path: Path, run: Any, form: str
) -> None:
    pipe, out = tmp_path / f"pipe.{form}", tmp_path / f"out.{form}"
    os.mkfifo(pipe)
    decode = ("decode", "--table", "item", "--to")
    thread, found = read_pipe(pipe)
    assert run(*decode, pipe, data / "rows.text.wire").returncode == 0
    assert pipe.is_fifo()
    thread.join(20)
    assert run(*decode, out, data / "rows.text.wire").returncode == 0
    if form == "jsonl":
        assert found == [out.read_bytes()]
    else:
        table = READERS[form](pa.BufferReader(found[0]))
        assert table.equals(READERS[form](out))
    assert set(tmp_path.iterdir()) == {pipe, out}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_error_leaves_no_whole_file_in_a_pipe(
    data: Path, tmp_path: Path, run: Any, form: str
) -> None:
    pipe = tmp_path / f"pipe.{form}"
    os.mkfifo(pipe)
    thread, found = read_pipe(pipe)
    broken = (data / "rows.text.wire").read_bytes() * 1000 + b"\xff" * 99
    result = run("decode", "--table", "item", "--to", pipe, "-", input=broken)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    thread.join(20)
    with pytest.raises(pa.ArrowInvalid):
        READERS[form](pa.BufferReader(found[0]))


def test_stdout_by_its_name_is_stdout(data: Path, tmp_path: Path, run: Any) -> None:
    path = data / "rows.text.wire"
    wanted = run("decode", path).stdout
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        decode = ("decode", "--format", "json", "--to", name, path)
        assert run(*decode).stdout == wanted
        log = tmp_path / "log"
        log.write_bytes(b"before\n")
        with log.open("ab") as file:
            run(*decode, stdout=file, stderr=None, capture_output=False)
        assert log.read_bytes() == b"before\n" + wanted
    assert list(tmp_path.iterdir()) == [log]
    assert run(*decode[:-3], "--to", "/dev/null", path).returncode == 0


# ------------------------------------------------------------- outputs that are inputs


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a line of the shell in which `walrow` is the command."""
    script = f'walrow() {{ "$0" -m walrow "$@"; }}; {command}'
    return subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", script, sys.executable],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=20,
    )


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("walrow decode a.jsonl --to a.jsonl", "a.jsonl is the file a.jsonl"),
        (
            "walrow decode a.jsonl --to ./d/../a.jsonl",
            "./d/../a.jsonl is the file a.jsonl",
        ),
        ("walrow decode a.jsonl --to soft.jsonl", "soft.jsonl is the file a.jsonl"),
        ("walrow decode soft.jsonl --to a.jsonl", "a.jsonl is the file soft.jsonl"),
        ("walrow decode a.jsonl --to hard.jsonl", "hard.jsonl is the file a.jsonl"),
        ("walrow decode --table t a.jsonl --to a.jsonl --format parquet", "a.jsonl is"),
        ("walrow decode - --to a.jsonl <a.jsonl", "a.jsonl is the file stdin"),
        ("walrow decode /dev/stdin --to a.jsonl <a.jsonl", "the file /dev/stdin"),
        (
            "walrow decode file://$PWD/a.jsonl --to a.jsonl",
            "a.jsonl is the file file://",
        ),
        ("walrow decode a.jsonl >>a.jsonl", "stdout is the file a.jsonl"),
        ("walrow decode - <a.jsonl >>hard.jsonl", "stdout is the file stdin"),
        ("walrow decode - <>a.jsonl >&0", "stdout is the file stdin"),
        (
            "walrow decode a.jsonl --format json --to /dev/stdout >>a.jsonl",
            "/dev/stdout is the file a.jsonl",
        ),
        (
            "walrow decode a.jsonl --format json --to /dev/fd/3 3>>soft.jsonl",
            "/dev/fd/3",
        ),
        ("walrow inspect a.jsonl >>a.jsonl", "stdout is the file a.jsonl"),
        ("walrow inspect --json - <a.jsonl >>a.jsonl", "stdout is the file stdin"),
        ("walrow inspect --count a.jsonl >>a.jsonl", "stdout is the file a.jsonl"),
        (
            "walrow decode --catalog c.json a.jsonl --format json --to c.json",
            "c.json is the file c.json",
        ),
        (
            "walrow decode --catalog c.json a.jsonl >>c.json",
            "stdout is the file c.json",
        ),
        (
            "walrow decode d/public.t.jsonl --to d",
            "d/public.t.jsonl is the file d/public",
        ),
        ("walrow decode a.jsonl --to e/", "e/s.t.2.parquet is the file a.jsonl"),
        (
            "walrow decode --catalog e/s.c.jsonl - --to e/ </dev/null",
            "e/s.c.jsonl is the",
        ),
    ],
)
def test_output_that_is_an_input_is_refused(
    tmp_path: Path, command: str, names: str
) -> None:
    stream = history([("public", "t")])
    (tmp_path / "a.jsonl").write_bytes(stream)
    (tmp_path / "c.json").write_text("{}")
    (tmp_path / "soft.jsonl").symlink_to("a.jsonl")
    (tmp_path / "hard.jsonl").hardlink_to(tmp_path / "a.jsonl")
    for folder in ("d", "e"):
        (tmp_path / folder).mkdir()
    (tmp_path / "d" / "public.t.jsonl").write_bytes(stream)
    (tmp_path / "e" / "s.t.2.parquet").hardlink_to(tmp_path / "a.jsonl")
    (tmp_path / "e" / "s.c.jsonl").write_text("{}")
    before = {file: file.is_dir() or file.read_bytes() for file in tmp_path.rglob("*")}
    found = shell(tmp_path, command)
    assert found.returncode == 2, found.stderr
    line = found.stderr.decode().splitlines()[-1]
    assert names in line
    assert "which is also an input: write to another" in line
    after = {file: file.is_dir() or file.read_bytes() for file in tmp_path.rglob("*")}
    assert after == before


@pytest.mark.parametrize(
    "command",
    [
        "walrow decode - --to out.jsonl <a.jsonl",
        "walrow decode a.jsonl --to copy.jsonl",
        "walrow decode a.jsonl >>copy.jsonl",
        "walrow decode --catalog c.json a.jsonl --to d/",
        "cat a.jsonl | walrow decode - | cat",
        "walrow decode /dev/null --format json --to /dev/null",
        "walrow decode - </dev/null >/dev/null",
        "walrow decode a.jsonl --to out.jsonl >>a.jsonl",
    ],
)
def test_other_files_pipes_and_devices_are_written(
    tmp_path: Path, command: str
) -> None:
    stream = history([("public", "t")])
    for name in ("a.jsonl", "copy.jsonl"):
        (tmp_path / name).write_bytes(stream)
    (tmp_path / "c.json").write_text("{}")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "notes").touch()
    found = shell(tmp_path, command)
    assert (found.returncode, found.stderr) == (0, b"")
    assert (tmp_path / "a.jsonl").read_bytes() == stream


def test_file_of_a_url_may_have_no_descriptor() -> None:
    assert source._regular(object()) is None


# ------------------------------------------------------------------------ directories


@pytest.mark.parametrize("form", ["parquet", "arrow", "json"])
def test_directory_of_an_earlier_run_is_refused(
    data: Path, tmp_path: Path, run: Any, form: str
) -> None:
    path = data / "rows.text.wire"
    notes = tmp_path / "notes.txt"
    notes.touch()
    decode = ("decode", "--format", form, "--to", f"{tmp_path}/")
    assert run(*decode, path).returncode == 0
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(before) == 3
    found = run("decode", "--to", f"{tmp_path}/", data / "alter-names.text.wire")
    assert found.returncode == 2
    assert b"earlier run" in found.stderr
    assert b"public.item" in found.stderr
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_new_output_directory_is_removed_after_an_error(
    data: Path, tmp_path: Path, run: Any
) -> None:
    broken = (data / "rows.text.wire").read_bytes() + b"\xff" * 99
    found = run("decode", "--to", f"{tmp_path}/out/", "-", input=broken)
    assert found.returncode == 1
    assert list(tmp_path.iterdir()) == []
    kept = tmp_path / "kept"
    kept.mkdir()
    assert run("decode", "--to", kept, "-", input=broken).returncode == 1
    assert list(tmp_path.rglob("*")) == [kept]


def two_versions_and_a_table(start: Any, directory: Path) -> Any:
    """Decodes three files, and waits until the first one is open."""
    process = start("decode", "--to", f"{directory}/", "-")
    begin, commit = streams.begin(), streams.commit()
    versions = [
        message
        for columns in (["id"], ["id", "more"])
        for message in (
            streams.relation(
                [streams.Column(name, 23) for name in columns], 16384, "a"
            ),
            streams.insert(["7"] * len(columns), 16384),
        )
    ]
    other = streams.relation([streams.Column("id", 23)], 16385, "b")
    changes = [*versions, other, streams.insert(["7"], 16385)]
    process.stdin.write(streams.wired(begin, *changes, commit))
    process.stdin.flush()
    until = time.monotonic() + 30
    while not (directory.is_dir() and list(directory.iterdir())):
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.01)
    return process


def test_files_that_cannot_all_get_their_names_are_listed(
    tmp_path: Path, start: Any
) -> None:
    directory = tmp_path / "out"
    process = two_versions_and_a_table(start, directory)
    taken = directory / "public.a.2.parquet"
    taken.mkdir()
    output, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert output == b""
    assert said.decode() == (
        f"walrow: {taken}: Is a directory; complete and in place: public.a.parquet; "
        "the other files were removed\n"
    )
    assert sorted(directory.iterdir()) == [taken, directory / "public.a.parquet"]
    assert pq.read_table(directory / "public.a.parquet")["id"].to_pylist() == [7]


def test_no_name_means_nothing_written(tmp_path: Path, start: Any) -> None:
    directory = tmp_path / "out"
    process = two_versions_and_a_table(start, directory)
    taken = directory / "public.a.parquet"
    taken.mkdir()
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.decode() == (
        f"walrow: {taken}: Is a directory; 3 rows decoded, nothing written\n"
    )
    assert list(directory.iterdir()) == [taken]


def test_files_that_cannot_be_removed_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    files = Files()
    for path in (first, second):
        files.create(path, "json", None)
    replace = Path.replace

    def read_only(path: Path, *target: Path, **_: Any) -> None:
        if target == (first,):
            replace(path, *target)
            return
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    # As if the file system became read-only after the first name.
    monkeypatch.setattr(Path, "replace", read_only)
    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(OSError, match=r"Read-only.*b\.jsonl"), files:
        files.commit()
    (left,) = set(tmp_path.iterdir()) - {first}
    assert files.written() == (
        "complete and in place: a.jsonl; incomplete files that could not be removed: "
        f"{left.name}"
    )


class Named:
    """The attributes of a batch that name its file."""

    def __init__(self, schema: str, table: str) -> None:
        self.schema_name, self.table_name = schema, table


def name(schema: str, table: str, version: int = 1, form: str = "parquet") -> str:
    return file_name(Named(schema, table), version, form)  # type: ignore[arg-type]


def test_file_names_keep_letters_of_any_script() -> None:
    assert name("públic", "注文 x") == "públic.注文 x.parquet"
    assert name("a'b", "$1-_(2)", 3, "json") == "a'b.$1-_(2).3.jsonl"
    assert name("a.b", "c/d%\\\n") == "a%2Eb.c%2Fd%25%5C%0A.parquet"
    assert name("a", "b.2") != name("a", "b", 2)


@pytest.mark.parametrize("letter", ["x", "é", "名", "😀", "/", ".", "\x01"])
def test_longest_names_are_names_of_files(letter: str, tmp_path: Path) -> None:
    # 63 bytes each are the longest that PostgreSQL takes.
    longest = letter * (63 // len(letter.encode()))
    found = {
        name(longest, longest[1:] + end, version, form)
        for version in (1, 2, 10)
        for form in ("parquet", "arrow", "json")
        for end in (letter, "a", "b")
    }
    assert len(found) == 27
    for each in found:
        assert is_file_name(each)
        (tmp_path / each).touch()
    if letter in "xé名":
        whole = f"{longest}.{longest}.parquet"
        assert name(longest, longest) == whole
    else:
        assert all(len(each.encode()) <= 255 for each in found)


def test_tables_of_long_names_get_files(tmp_path: Path, run: Any) -> None:
    tables = [("名" * 21, "表" * 21), ("/" * 63, "." * 62 + "a"), ("/" * 63, "." * 63)]
    for form in ("parquet", "json"):
        to = ("decode", "--format", form, "--to", f"{tmp_path}/{form}/", "-")
        found = run(*to, input=history(tables))
        assert (found.returncode, found.stderr) == (0, b"")
        assert len(list((tmp_path / form).iterdir())) == 3
    [batch] = walrow.read(history(tables[:1]))
    assert (tmp_path / "parquet" / file_name(batch, 1, "parquet")).exists()


def limited(soft: int, hard: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_as_many_tables_as_the_process_may_open_files(tmp_path: Path, run: Any) -> None:
    stream = history([("public", f"t{number}") for number in range(100)])
    to = ("decode", "--to", f"{tmp_path}/out/", "-")
    found = run(*to, input=stream, preexec_fn=limited(60, 300))
    assert (found.returncode, found.stderr) == (0, b"")
    assert len(list((tmp_path / "out").iterdir())) == 100
    to = ("decode", "--to", f"{tmp_path}/no/", "-")
    found = run(*to, input=stream, preexec_fn=limited(60, 60))
    assert found.returncode == 1
    [line] = found.stderr.decode().splitlines()
    assert os.strerror(errno.EMFILE) in line
    assert "ulimit -n" in line
    assert "--table" in line
    assert not (tmp_path / "no").exists()


def test_versions_of_a_table_take_one_open_file(tmp_path: Path, run: Any) -> None:
    renamed = history([("public", "t")], column="no")
    # Each is a session of its own, because the transactions are the same.
    both = (history([("public", "t")]), renamed)
    stream = b"".join(streams.SESSION + each for each in both * 50)
    to = ("decode", "--to", f"{tmp_path}/out/", "-")
    found = run(*to, input=stream, preexec_fn=limited(60, 60))
    assert (found.returncode, found.stderr) == (0, b"")
    assert len(list((tmp_path / "out").iterdir())) == 100


# --------------------------------------------------------------- closed standard streams


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("inspect FILE >&-", 1),
        ("inspect --json FILE >&-", 1),
        ("inspect --count FILE >&-", 1),
        ("inspect --count --json FILE >&-", 1),
        ("decode FILE >&-", 1),
        ("decode --format json --to /dev/stdout FILE >&-", 1),
        ("inspect - <&-", 1),
        ("inspect --count - <&-", 1),
        ("decode - <&-", 1),
        ("inspect - <&- >&-", 1),
        ("--help >&-", 1),
        ("decode --to OUT FILE <&- >&-", 0),
        ("decode --to OUT FILE <&- >&- 2>&-", 0),
        ("inspect FILE >&- 2>&-", 1),
        ("inspect GONE 2>&-", 2),
        ("decode --nothing 2>&-", 2),
        ("inspect FILE </dev/null >/dev/null 2>&-", 0),
    ],
)
def test_closed_output_prints_no_traceback(
    data: Path, tmp_path: Path, command: str, code: int
) -> None:
    words = {
        "FILE": str(data / "rows.text.wire"),
        "OUT": str(tmp_path / "out.jsonl"),
        "GONE": str(tmp_path / "gone"),
    }
    for word, path in words.items():
        command = command.replace(word, f"'{path}'")
    found = subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", f'"$0" -m walrow {command}', sys.executable],
        capture_output=True,
        check=False,
        timeout=50,
    )
    assert found.returncode == code, found.stderr
    text = found.stderr.decode()
    if code == 0 or "2>&-" in command:
        assert text == ""
    else:
        [line] = text.splitlines()
        assert line.startswith("walrow: stdin or stdout: Bad file descriptor")
    if "--to '" in command:
        lines = (tmp_path / "out.jsonl").read_text().splitlines()
        assert all(json.loads(line) for line in lines)
        assert lines


def test_tables_with_the_same_joined_name_stay_separate(
    tmp_path: Path, run: Any
) -> None:
    stream = history([("a.b", "c"), ("a", "b.c")])
    refused = run("decode", "-", "--to", tmp_path / "one.parquet", input=stream)
    assert refused.returncode == 2, refused.stderr
    assert b"takes one table" in refused.stderr
    done = run("decode", "-", "--to", f"{tmp_path / 'all'}/", input=stream)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "all").iterdir())) == 2


def test_shortened_file_names_are_unique(tmp_path: Path, run: Any) -> None:
    long = ("." * 63, "." * 13 + "a" * 50)
    folder = tmp_path / "all"
    assert (
        run("decode", "-", "--to", f"{folder}/", input=history([long])).returncode == 0
    )
    [short] = folder.iterdir()
    # A table may have this name.
    schema, _, table = short.name.removesuffix(".parquet").partition(".")
    names = [part.replace("%2E", ".") for part in (schema, table)]
    both = tmp_path / "both"
    stream = history([long, (names[0], names[1])])
    assert run("decode", "-", "--to", f"{both}/", input=stream).returncode == 0
    assert len(list(both.iterdir())) == 2


def test_the_end_of_a_chained_url_is_an_input(tmp_path: Path, run: Any) -> None:
    pytest.importorskip("fsspec")
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.wire", history([("public", "t")]))
    before = path.read_bytes()
    url = f"zip://x.wire::file://{path}"
    refused = run("decode", url, "--to", path, "--format", "json")
    assert refused.returncode == 2, refused.stderr
    assert path.read_bytes() == before
    done = run("decode", url, "--to", tmp_path / "out.jsonl")
    assert done.returncode == 0, done.stderr
