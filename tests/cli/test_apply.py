"""`walrow apply`, mostly with a Spark that is not there. tests/spark has it with targets."""

from __future__ import annotations

import os
import signal
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install pyspark")

import walrow
import walrow.spark.modes
from walrow._apply.items import Applied
from walrow._apply.options import SparkApplyOptions
from walrow._apply.units import LogContents
from walrow.cli import app
from walrow.spark.modes import call_of

ARGUMENTS = (
    "apply",
    "--engine=spark",
    "log",
    "--table",
    "public.t",
    "--target",
)
VALUE = "4711 is a value"


class FakeSpark:
    """A session with settings, which starts at once."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.starting: Callable[[], None] = lambda: None
        self.stopped = 0
        self.conf = types.SimpleNamespace(get=self.settings.get)

    def appName(self, _name: str) -> FakeSpark:  # noqa: N802 - as Spark has it
        return self

    def config(self, name: str, value: str) -> FakeSpark:
        self.settings[name] = value
        return self

    def getOrCreate(self) -> FakeSpark:  # noqa: N802 - as Spark has it
        self.starting()
        return self

    def stop(self) -> None:
        self.stopped += 1
        text = "there is no Java any more"
        raise RuntimeError(text)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSpark]:
    fake = FakeSpark()
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", fake)
    # There is no log, either.
    monkeypatch.setattr(walrow.spark.modes, "check_call", lambda *_, **__: None)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    yield fake
    signal.signal(signal.SIGTERM, before[0])
    signal.signal(signal.SIGHUP, before[1])


def applying(
    monkeypatch: pytest.MonkeyPatch, *results: BaseException | Applied
) -> list[dict[str, Any]]:
    """Makes calls have these results, and an interruption after them. Returns the options."""
    calls: list[dict[str, Any]] = []

    def apply(_spark: Any, _log: str, **options: Any) -> Applied:
        calls.append(options)
        if len(calls) > len(results):
            interrupt()
        result = results[len(calls) - 1]
        if isinstance(result, BaseException):
            raise result
        return result

    monkeypatch.setattr(walrow.spark.modes, "apply_changes", apply)
    return calls


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    # The handler runs now, at the latest.
    for _ in range(1000):
        pass


def applied(token: str | None) -> Applied:
    return Applied("public.t", "delta:/t", walrow.Lsn(1), walrow.Lsn(2), token=token)


def conflict() -> walrow.errors.ApplyError:
    return walrow.errors.ApplyError(
        "others were first", code="conflict", target="delta:/t"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--table", "itme", "--target", "delta:a.b.c"], "no table 'itme'"),
        (["--table", "item", "--target", "a.b.c"], "target 'a.b.c' is not one of"),
        (["--table", "item", "--target", "delta:a.b.c", "--key", "x"], "a column x"),
        (
            ["--table", "item", "--target", "delta:a.b.c", "--type", "x=y"],
            "Arrow type",
        ),
        (
            ["--table", "item", "--target", "delta:a.b.c", "--column", "x"],
            "no column x",
        ),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else "",
)
def test_words_are_checked_before_spark_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    text: str,
) -> None:
    fake = FakeSpark()
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", fake)
    fake.starting = pytest.fail
    walrow.seal("tests/data/18/rows.text.wire", log=tmp_path)
    code = app.run(["apply", "--engine=spark", str(tmp_path), *words])
    assert code in {1, 2}
    assert text in capsys.readouterr().err


def test_a_time_is_a_place_in_the_log(tmp_path: Path) -> None:
    walrow.seal("tests/data/18/rows.text.wire", log=tmp_path)
    log = walrow.Log(tmp_path)
    given: dict[str, Any] = {"table": "public.item", "target": "delta:/t"}
    for end, place in (
        ("2001-01-01T00:00Z", walrow.Lsn(0)),
        ("2100-01-01T00:00Z", log.end),
        (0x1000, walrow.Lsn(0x1000)),
        (None, log.end),
    ):
        options = SparkApplyOptions(None, tmp_path, **given, end=end)
        assert call_of(LogContents(log), options).end == place


def test_a_conflict_ends_only_a_single_call(
    spark: FakeSpark,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = applying(monkeypatch, conflict(), applied("{}"), conflict(), applied("{}"))
    assert app.run([*ARGUMENTS, "delta:/t", "--every", "0.01"]) == 130
    assert len(calls) == 5
    said = capsys.readouterr().err
    assert said.count("others were first: the next attempt is in 0.01 seconds\n") == 2
    assert "Traceback" not in said
    applying(monkeypatch, conflict())
    assert app.run([*ARGUMENTS, "delta:/t"]) == 1
    other = walrow.errors.ApplyError("load it", code="incomplete", table="public.t")
    applying(monkeypatch, applied("{}"), other)
    assert app.run([*ARGUMENTS, "delta:/t", "--every", "0.01"]) == 1
    assert spark.stopped == 3


def test_resume_from_counts_until_the_target_has_a_record(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = conflict(), applied(None), applied("{}"), applied("{}")
    calls = applying(monkeypatch, *results)
    command = [*ARGUMENTS, "delta:/t", "--every", "0.01", "--resume-from", "0/1"]
    assert app.run(command) == 130
    lsn = walrow.Lsn(1)
    assert [it["resume_from"] for it in calls] == [lsn, lsn, lsn, None, None]
    assert spark.stopped == 1


def test_errors_of_spark_are_one_line_without_values(
    spark: FakeSpark,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, PySparkRuntimeError

    class ParseError(AnalysisException):  # type: ignore[misc]
        def getCondition(self) -> str:  # noqa: N802 - as Spark has it
            return "PARSE_SYNTAX_ERROR"

    extensions = "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension"
    catalog = "spark.sql.catalog.ice=org.apache.iceberg.spark.SparkCatalog"
    whole = "walrow.spark.apply_changes raises it whole"
    for target, error, name, hint, *settings in (
        ("delta:/t", ParseError(VALUE), "PARSE_SYNTAX_ERROR (ParseError)", extensions),
        ("delta:/t", Py4JError(VALUE), "Py4JError", whole, extensions),
        ("iceberg:ice.a.t", Py4JError(VALUE), "Py4JError", f"--conf {catalog}"),
        ("iceberg:ice.a.t", Py4JError(VALUE), "Py4JError", whole, catalog),
    ):
        spark.settings.clear()
        applying(monkeypatch, error)
        confs = [f"--conf={setting}" for setting in settings]
        assert app.run([*ARGUMENTS, target, *confs]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"walrow: Spark: {name}; ")
        assert hint in said
        assert said.count("\n") == 1
        assert VALUE not in said

    def starting() -> None:
        raise PySparkRuntimeError(
            errorClass="JAVA_GATEWAY_EXITED", messageParameters={}
        )

    spark.starting = starting
    assert app.run([*ARGUMENTS, "delta:/t"]) == 1
    assert capsys.readouterr().err == (
        "walrow: Spark: JAVA_GATEWAY_EXITED (PySparkRuntimeError); "
        "Spark does not start: see above what it says\n"
    )


@pytest.mark.parametrize("place", ["start", "Spark's handler", "call", "suppressed"])
def test_an_interruption_is_quiet(
    spark: FakeSpark,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
) -> None:
    """Py4J raises errors of its own."""
    from py4j.protocol import Py4JError

    before = signal.getsignal(signal.SIGINT)

    def fail(*_given: Any, **_options: Any) -> Any:
        try:
            interrupt()
        except BaseException:
            if place == "suppressed":
                return applied("{}")
        raise Py4JError(VALUE)

    def handle(_number: int, _frame: Any) -> None:
        raise Py4JError(VALUE)

    def starting() -> None:
        if place == "Spark's handler":
            signal.signal(signal.SIGINT, handle)
        if place in {"start", "Spark's handler"}:
            fail()

    spark.starting = starting
    monkeypatch.setattr(walrow.spark.modes, "apply_changes", fail)
    assert app.run([*ARGUMENTS, "delta:/t"]) == 130
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "Py4J" not in said
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(150)
def test_a_spark_without_delta(
    run: Callable[..., Any], data: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    walrow.seal(data / "rows.text.wire", log=log)
    given = (log, "--table", "public.item", "--target", f"delta:{tmp_path}/t")
    master = ("--conf=spark.master=local[1]", "--conf=spark.ui.enabled=false")
    result = run("apply", *given, *master, timeout=120, text=True)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith(
        "walrow: Spark: PARSE_SYNTAX_ERROR (org.apache.spark.sql.catalyst.parser."
        "ParseException); Delta needs its jar, --conf spark.jars.packages="
    )


@pytest.mark.slow
def test_an_interrupted_start_leaves_no_java(
    start: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    pid = tmp_path / "pid"
    script.write_text(
        f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}\nexec sleep 60\n"
    )
    script.chmod(0o700)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    process = start(*ARGUMENTS, "delta:/t")
    until(pid.exists)
    process.send_signal(signal.SIGINT)
    # Java has its stderr, too.
    assert process.communicate(timeout=20) == (b"", b"")
    assert process.returncode == 130
    until(lambda: not is_there(int(pid.read_text("utf-8"))))


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_there(pid: int) -> bool:
    """Whether a process runs, and is not only kept for a parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
