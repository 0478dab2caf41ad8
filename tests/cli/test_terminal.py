"""No name in a stream or a path can control the terminal."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from walrow.cli.inspect import _count_table
from walrow.cli.terminal import printable, printable_json

#: A window's title, a new line, CSI in one character, and text from right to left.
HOSTILE = "\x1b]0;pwned\x07\n\x9b2J\u202e"
SHOWN = r"\x1b]0;pwned\x07\n\x9b2J\u202e"
LATIN1 = b"caf\xe9"


def server(kind: bytes, *fields: bytes) -> bytes:
    return streams.backend(kind, b"".join(field + b"\0" for field in fields))


def inserted(
    name: bytes, kind: int = 25, value: bytes = b"7", oid: int = 16384
) -> bytes:
    """A transaction that inserts a value into a column and table of the same name."""
    text = name.decode(errors="surrogateescape")
    return streams.wired(
        streams.begin(oid, 100 + oid),
        streams.relation([streams.Column(text, kind, is_key=True)], oid, text),
        streams.insert([value.decode(errors="surrogateescape")], oid),
        streams.commit(100 + oid, 200 + oid),
    )


STREAM = inserted(HOSTILE.encode(), value=HOSTILE.encode())
TIMESTAMP, INTEGERS = 1114, 1007


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b'\"\\é名😀", "a b'\"\\é名😀"),
        (HOSTILE, SHOWN),
        ("\t\r\x7f\xa0\xad", r"\t\r\x7f\xa0\xad"),
        ("\U000e0001", r"\U000e0001"),
        ("caf\udce9", r"caf\xe9"),
        ("\ud800", r"\ud800"),
        (LATIN1, r"caf\xe9"),
        ("é\x1b".encode() + b"\xff", r"é\x1b\xff"),
    ],
)
def test_escapes(text: str | bytes, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_json_is_the_same_without_what_is_not_printable() -> None:
    code_points = [*range(0xD800), *range(0xE000, 0x110000)]
    text = "".join(map(chr, code_points))
    found = printable_json(json.dumps(text, ensure_ascii=False))
    assert found.isprintable()
    assert json.loads(found) == text
    assert printable_json('["é😀", "\x9b\U000e0001"]') == (
        r'["é😀", "\u009b\udb40\udc01"]'
    )


# ------------------------------------------------------------------------------ inspect


@pytest.mark.parametrize(
    ("name", "shown"),
    [(HOSTILE.encode(), SHOWN), (LATIN1, r"caf\xe9")],
    ids=["", "latin1"],
)
def test_names_in_inspected_lines(name: bytes, shown: str, run: Any) -> None:
    found = run("inspect", "-", input=inserted(name))
    assert (found.returncode, found.stderr) == (0, b"")
    [_, _, relation, insert, _] = found.stdout.decode().splitlines()
    assert f"public.{shown} oid=16384 identity=default ({shown}*)" in relation
    assert f"public.{shown} new({shown}='7')" in insert


def test_server_texts_in_inspected_lines(run: Any) -> None:
    stream = [
        server(b"N", b"SERROR", b"C" + HOSTILE.encode(), b"M" + LATIN1, b"\x1bx", b""),
        server(b"S", HOSTILE.encode(), LATIN1),
        server(b"C", LATIN1),
        streams.data(b"Y" + bytes(4) + LATIN1 + b"\0" + HOSTILE.encode() + b"\0"),
        streams.data(
            b"M\0" + bytes(8) + LATIN1 + b"\0" + struct.pack("!I", 4) + LATIN1
        ),
    ]
    found = run("inspect", "-", input=b"".join(stream))
    assert (found.returncode, found.stderr) == (0, b"")
    notice, setting, command, kind, message = found.stdout.decode().split("\n")[1:-1]
    assert rf"sqlstate='{SHOWN}' message='caf\xe9' \x1b='x'" in notice
    assert rf"name='{SHOWN}' value='caf\xe9'" in setting
    assert r"command_tag='caf\xe9'" in command
    assert rf"namespace='caf\xe9' name='{SHOWN}'" in kind
    assert r"prefix='caf\xe9' content=\x636166e9" in message


#: The escapes that rich itself writes: for colours, the cursor, and clearing lines.
OURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\n")


def test_names_on_a_terminal(tmp_path: Path, on_terminal: Any) -> None:
    for name, shown in ((HOSTILE.encode(), SHOWN), (LATIN1, r"caf\xe9")):
        path = tmp_path / "a.wire"
        path.write_bytes(inserted(name))
        found = OURS.sub("", on_terminal("inspect", path))
        assert f"public.{shown} oid=16384" in found
        assert found.isprintable()
        count = OURS.sub("", on_terminal("inspect", "--count", path))
        assert "R Relation" in count
        assert count.isprintable()


def test_table_of_counts_has_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"frames": {"[red]": 1}, "messages": {}, "cells": {}, "bytes": 7}
    _count_table(counts, {"frames": {"[red]": "\x1b"}})
    assert r"[red] \x1b" in capsys.readouterr().out


def test_file_name_in_progress(tmp_path: Path, on_terminal: Any) -> None:
    path = tmp_path / HOSTILE
    path.write_bytes(STREAM * 2000)
    found = on_terminal("inspect", "--count", path, stdout=False)
    assert SHOWN in found
    assert OURS.sub("", found).isprintable()


# --------------------------------------------------------------------------------- JSON


def test_json_lines_are_printable_and_lose_nothing(tmp_path: Path, run: Any) -> None:
    found = run("decode", "-", input=STREAM).stdout.decode()
    assert found.removesuffix("\n").isprintable()
    row = json.loads(found)
    assert row["_table"] == f"public.{HOSTILE}"
    assert row[HOSTILE] == HOSTILE
    out = tmp_path / "out.jsonl"
    run("decode", "--to", out, "-", input=STREAM)
    assert out.read_text("utf-8") == found


def test_inspected_json_is_printable_and_loses_nothing(run: Any) -> None:
    stream = STREAM + inserted(LATIN1)
    found = run("inspect", "--json", "-", input=stream).stdout.decode().split("\n")
    assert found.pop() == ""
    assert all(map(str.isprintable, found))
    fields = [json.loads(line)["message"]["fields"] for line in found]
    assert fields[1]["name"] == HOSTILE
    assert fields[1]["columns"][0]["name"] == HOSTILE
    assert fields[2]["new"] == [HOSTILE]
    assert fields[5]["name"] == {"hex": "636166e9"}


# --------------------------------------------------------------------- errors, warnings


def said(found: Any, code: int) -> list[str]:
    assert found.returncode == code, found.stderr
    lines: list[str] = found.stderr.decode().split("\n")
    assert lines.pop() == ""
    assert all(map(str.isprintable, lines)), lines
    return lines


def test_names_in_errors(run: Any) -> None:
    stream = inserted(HOSTILE.encode(), TIMESTAMP, b"infinity")
    [line] = said(run("decode", "-", input=stream), 1)
    assert line.startswith(rf"walrow: public.{SHOWN}.{SHOWN}: the column's type")
    assert f"--type 'public.{SHOWN}.{SHOWN}=string'" in line
    [line] = said(run("decode", "-", input=inserted(LATIN1)), 1)
    assert "not UTF-8" in line
    [line] = said(run("decode", "--table", HOSTILE, "-", input=inserted(b"t")), 1)
    assert f"no table {SHOWN} in the stream" in line


def test_names_that_look_like_hints(run: Any) -> None:
    name = rb'types={"\x": "a"}'
    [line] = said(run("decode", "-", input=inserted(name, TIMESTAMP, b"infinity")), 1)
    assert 'types={"\\x": "a"}' in line


def test_names_in_warnings(run: Any) -> None:
    stream = inserted(HOSTILE.encode(), TIMESTAMP, b"infinity")
    found = run("decode", "--unrepresentable", "null", "-", input=stream)
    [line] = said(found, 0)
    assert f"warning: public.{SHOWN}.{SHOWN}: 1 value became null" in line
    stream = inserted(HOSTILE.encode(), INTEGERS, b"[2:2]={1}")
    [line] = said(run("decode", "-", input=stream), 0)
    assert f"warning: public.{SHOWN}.{SHOWN}: 1 array lost" in line


def test_server_texts_in_warnings(run: Any) -> None:
    stream = server(b"E", b"SERROR", b"C" + HOSTILE.encode(), b"M" + LATIN1, b"")
    [line] = said(run("decode", "-", input=stream), 4)
    assert f"SQLSTATE {SHOWN}" in line


def test_names_in_usage_errors(tmp_path: Path, run: Any) -> None:
    stream = inserted(HOSTILE.encode()) + inserted(b"t", oid=16385)
    found = run("decode", "--to", tmp_path / f"{HOSTILE}.parquet", "-", input=stream)
    assert f"changes of public.{SHOWN}, public.t" in said(found, 2)[-1]
    assert f"{SHOWN}.parquet takes one table" in said(found, 2)[-1]
    held = "public.\x1b\n\u202e.parquet"
    (tmp_path / HOSTILE).mkdir()
    (tmp_path / HOSTILE / held).touch()
    found = run("decode", "--to", tmp_path / HOSTILE, "-", input=stream)
    assert rf"{SHOWN} contains files of" in said(found, 2)[-1]
    assert r"run, public.\x1b\n\u202e.parquet:" in said(found, 2)[-1]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(HOSTILE, id=""),
        pytest.param(b"\x1b\n\xff", id="bytes", marks=pytest.mark.slow),
    ],
)
def test_arguments_in_usage_errors(
    given: str | bytes, tmp_path: Path, run: Any
) -> None:
    word = os.fsdecode(given)
    directory = tmp_path / word
    directory.mkdir()
    for arguments in (
        (word,),
        ("inspect", word),
        ("inspect", directory),
        ("inspect", f"--{word}", "-"),
        ("inspect", "-", word),
        ("inspect", "--limit", word, "-"),
        ("decode", "--profile", word, "-"),
        ("decode", "--to", word, "-"),
        ("decode", "--type", word, "-"),
        ("decode", "--type", f"{word}=string", "--type", "a=nonsense", "-"),
        ("decode", "--type", f"a={word}", "-"),
        ("decode", "--unrepresentable", f"{word}=x", "-"),
        ("decode", "--unrepresentable", word, "-"),
        ("decode", "--session", word, "-"),
        ("decode", "--session", f"{word}=x", "-"),
        ("decode", "--start", word, "-"),
        ("decode", "--catalog", directory, "-"),
        ("decode", f"wire{word}://x"),
        # Texts are UTF-8.
        ("decode", "--metadata-prefix", "\udcff", "-"),
        ("decode", "--table", "\udcff", "-"),
        ("catalog", "--dsn", "\udcff"),
        ("catalog", "--publication", "\udcff"),
    ):
        found = run(*map(str, arguments), input=b"")
        assert found.returncode == 2, arguments
        said(found, 2)


@pytest.mark.parametrize("given", [HOSTILE.encode(), b"\x1b\n\xff"], ids=["", "bytes"])
def test_file_names_in_errors(given: bytes, tmp_path: Path, run: Any) -> None:
    path = tmp_path / os.fsdecode(given)
    shown = printable(given)
    [line] = said(run("decode", "--to", path / "a.jsonl", "-", input=STREAM), 1)
    assert f"{shown}/a.jsonl: No such file" in line
    path.write_bytes(b"{")
    [line] = said(run("decode", "--catalog", path, "-", input=b""), 2)
    assert f"{shown}: not a catalog" in line
    usage = said(run("inspect", f"{path}.gone"), 2)[-1]
    assert f"{shown}.gone does not exist" in usage


def test_help_of_a_call_without_arguments_has_its_lines(run: Any) -> None:
    lines = said(run(), 2)
    assert lines[0].startswith("Usage: walrow")
    assert any(line.split()[:1] == ["inspect"] for line in lines)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["decod"], "walrow: No such command 'decod'"),
        (["decode"], "walrow decode: Missing argument 'FILE...'."),
        (["decode", "--profil", "x"], "Did you mean '--profile'?"),
        (["decode", "-", "--to", "x.csv"], "walrow decode: "),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], line: str, run: Any) -> None:
    [said_line] = said(run(*arguments), 2)
    assert line in said_line
    assert said_line.endswith("--help.")


def test_quiet_has_no_progress_and_no_warnings(
    data: Path, tmp_path: Path, run: Any, on_terminal: Any
) -> None:
    # The OID of a user-defined type, which only a catalog describes.
    capture, out = data / "types-user.text.wire", tmp_path / "out.jsonl"
    arguments = ("decode", capture, "--to", out)
    assert "warning: types of these columns are unknown" in "".join(
        said(run(*arguments), 0)
    )
    assert said(run(*arguments, "--quiet"), 0) == []
    assert on_terminal(*arguments, "-q") == ""
    assert on_terminal("inspect", "-q", "--count", capture, stdout=False) == ""
    [line] = said(run("decode", "-q", "-", "--to", out, input=b"{}"), 1)
    assert "type byte 0x7B" in line


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_complete_options(shell: str, run: Any) -> None:
    script = run(env={"_WALROW_COMPLETE": f"{shell}_source"})
    assert script.returncode == 0
    assert b"_walrow_completion" in script.stdout
    words = {
        "COMP_WORDS": "walrow decode --profile ",
        "COMP_CWORD": "3",
        "_WALROW_COMPLETE": f"{shell}_complete",
    }
    found = run(env=words).stdout.decode().split()
    assert {"arrow", "spark", "text"} <= {word.split(",")[-1] for word in found}


# ------------------------------------------------------------------------------ catalog


def test_lines_of_psycopg_become_one(run: Any) -> None:
    [line] = said(run("catalog", "--dsn", "host=/gone,/gone2 dbname=d"), 1)
    assert "/gone2" in line
    assert r"\n" not in line


@pytest.mark.live
@pytest.mark.timeout(120)
def test_names_in_catalogs_and_what_servers_say(run: Any) -> None:
    from servers import EmbeddedServer, run_sql

    name = '"' + HOSTILE + '"'
    with EmbeddedServer() as running:
        run_sql(
            running, f"CREATE TABLE {name} (); CREATE PUBLICATION p FOR TABLE {name}"
        )
        found = run("catalog", "--dsn", running.dsn)
        refused = run("catalog", "--dsn", running.dsn_of("no\x1b"))
        missing = run("catalog", "--dsn", running.dsn, "--publication", HOSTILE)
    assert found.returncode == 0, found.stderr
    text = found.stdout.decode()
    assert text.removesuffix("\n").isprintable()
    assert walrow.Catalog(text).tables() == [("public", HOSTILE)]
    [line] = said(refused, 1)
    assert r'database "no\x1b" does not exist' in line
    [line] = said(missing, 2)
    assert f"no publication {SHOWN} in" in line


@pytest.mark.parametrize(
    "to", ["postgresql://me:hunter2@db/x", "https://me:hunter2@db/x.parquet"]
)
def test_outputs_are_local_files(data: Path, run: Any, to: str) -> None:
    [line] = said(run("decode", data / "rows.text.wire", "--to", to), 2)
    assert "only local files" in line
    assert "hunter2" not in line
