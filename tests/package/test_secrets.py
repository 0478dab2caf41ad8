"""No function shows a part of a connection string, wherever it is given."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import walrow
import walrow.postgres
from secret_texts import CANARY, TEXTS, URLS, services
from walrow._secrets import is_conninfo, is_secret, shown
from walrow.spark.source_options import SourceOptions

psycopg = pytest.importorskip("psycopg")

CAPTURE = str(Path(__file__).parent.parent / "data" / "18" / "rows.text.wire")
RECEIVED: dict[str, Any] = {
    "start_within": 0,
    "slot": "s",
    "publications": "p",
    "until": "now",
}

#: Each function with a text as its source.
SOURCES: dict[str, Callable[[str], Any]] = {
    "read": lambda text: list(walrow.read(text)),
    "read a list": lambda text: list(walrow.read([text])),
    "read a path": lambda text: list(walrow.read(Path(text))),
    "messages": lambda text: list(walrow.messages(text)),
    "frames": lambda text: list(walrow.frames(text)),
    "tables": walrow.tables,
    "schema": lambda text: walrow.schema(text, "t"),
    "schema of a list": lambda text: walrow.schema([text, CAPTURE], "t"),
}
LOGS: dict[str, Callable[[str, Path], Any]] = {
    "Log": lambda text, _: walrow.Log(text).segments(),
    "load": lambda text, _: walrow.load("public.t", log=text, timeout=0),
    "data source": lambda text, _: walrow.Log(
        SourceOptions.of({"path": text, "table": "t"}).path
    ),
    # A log is written to no URL.
    "seal": lambda text, _: walrow.seal(CAPTURE, log=text),
    "receive": lambda text, _: walrow.receive("host=/none", log=text, **RECEIVED),
}
CATALOGS: dict[str, Callable[[str, Path], Any]] = {
    "read": lambda text, _: walrow.read(CAPTURE, catalog=text),
    "tables": lambda text, _: walrow.tables(CAPTURE, catalog=text),
    "schema": lambda text, _: walrow.schema(CAPTURE, "t", catalog=text),
    "seal": lambda text, log: walrow.seal(CAPTURE, log=log, catalog=text),
    "Decoder": lambda text, _: walrow.Decoder(catalog=text),
    "Catalog": lambda text, _: walrow.Catalog(text),
    "from_file": lambda text, _: walrow.Catalog.from_file(text),
}
SERVERS: dict[str, Callable[[str, Path], Any]] = {
    "receive": lambda text, log: walrow.receive(text, log=log, **RECEIVED),
    "changes": lambda text, _: walrow.postgres.changes(text, table="t"),
    "connect": lambda text, _: walrow.postgres.ReplicationStream.connect(text),
    "catalog": lambda text, _: walrow.postgres.catalog(text),  # type: ignore[arg-type]
    "preflight": lambda text, _: walrow.postgres.preflight(text),  # type: ignore[arg-type]
    "slots": lambda text, _: walrow.postgres.slots(text),  # type: ignore[arg-type]
}


def check(call: Callable[[], Any], said: pytest.CaptureFixture[str]) -> None:
    """The call fails, and neither its error nor an output has the secret."""
    with pytest.raises((walrow.Error, OSError)) as caught:
        call()
    error: BaseException | None = caught.value
    text = "".join(traceback.format_exception(caught.value)) + repr(vars(error))
    while error is not None:
        text += repr(error) + str(error)
        error = error.__cause__ or error.__context__
    assert CANARY not in text + "".join(said.readouterr())
    assert CANARY.encode() not in pickle.dumps(caught.value)


@pytest.mark.parametrize("place", SOURCES)
def test_of_a_source(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text in [*TEXTS, *URLS]:
        if text != "service=mine":
            check(partial(SOURCES[place], text), capsys)


@pytest.mark.parametrize("place", LOGS)
def test_of_a_log(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in [*TEXTS, *URLS]:
        check(partial(LOGS[place], text, tmp_path), capsys)


@pytest.mark.parametrize("place", CATALOGS)
def test_of_a_catalog(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in [*TEXTS, *URLS]:
        check(partial(CATALOGS[place], text, tmp_path / "log"), capsys)


def test_of_the_path_of_a_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    for text in [*TEXTS, *URLS]:
        check(partial(walrow.Catalog.from_file, Path(text)), capsys)


@pytest.mark.parametrize("place", SERVERS)
def test_of_a_server(
    place: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in services(tmp_path).items():
        monkeypatch.setenv(name, value)
    for text in [*TEXTS, *URLS, CANARY, f"{CANARY}=1"]:
        check(partial(SERVERS[place], text, tmp_path / "log"), capsys)


def test_every_secret_of_libpq_is_known() -> None:
    known = psycopg.pq.Conninfo.get_defaults()
    secrets = [it.keyword.decode() for it in known if it.dispchar]
    assert {"password", "sslpassword"} < set(secrets)
    for name in secrets:
        assert is_secret(name)
        assert is_conninfo(f"{name}={CANARY}.wire")
        assert CANARY not in shown(f"host=db {name}='{CANARY} x=y' dbname=shop")


def test_a_path_that_exists_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = Path(CAPTURE).read_bytes()
    for name in ("a b=c d=e.wire", "password=1", "run=1/a.wire", "run=2/a.wire"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(data)
        assert walrow.tables(name)
    assert list(walrow.read("run=1*/*.wire"))
    walrow.seal("run=1/a.wire", log="./run=3")
    assert walrow.Log("run=3").tables()
    assert walrow.Log("run=3").location == "run=3"
    with pytest.raises(FileNotFoundError, match=r"run=9/a\.wire"):
        walrow.read("run=9/a.wire")


def test_a_log_at_a_url_shows_no_credentials(tmp_path: Path) -> None:
    """The file system of http takes the whole URL for a path."""
    pytest.importorskip("aiohttp")
    walrow.seal(CAPTURE, log=tmp_path / "log")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            place = f"127.0.0.1:{server.server_port}/log/"
            log = walrow.Log(f"http://me:{CANARY}@{place}")
            [segment] = log.segments()
            assert log.verify() == []
            assert log.tables()
        finally:
            server.shutdown()
    assert log.location == f"http://{place}"
    assert CANARY not in f"{log!r} {segment!r} {log.tables()!r} {log.source!r}"
    assert CANARY.encode() not in pickle.dumps(segment)


def test_without_psycopg_nothing_is_shown() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; import walrow\n"
        "from walrow._secrets import shown\n"
        "print(*map(shown, sys.argv[1:]), sep='\\n')\n"
    )
    texts = [*TEXTS, f"passwort={CANARY}/x", f"host={CANARY}.wire"]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, *texts, "captures/a.wire", "./run=1/a.wire"],
        capture_output=True,
        text=True,
        check=True,
    )
    *hidden, first, second = done.stdout.splitlines()
    assert hidden == ["(a connection string)"] * len(texts)
    assert (first, second) == ("captures/a.wire", "./run=1/a.wire")
