"""`walrow apply` without Spark, and which engine it takes."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import walrow
from servers.s3 import BUCKET, S3
from walrow._apply.engines import choose
from walrow.cli.places import resolved

PATH = "delta:/lake/t"


@pytest.mark.parametrize(
    ("target", "of_spark", "has_delta", "has_spark", "engine", "reason"),
    [
        (PATH, [], True, True, "delta", "at a path"),
        (PATH, [], True, False, "delta", "at a path"),
        ("delta:s3://bucket/t", [], True, True, "delta", "at a path"),
        (PATH, [], False, True, "spark", "deltalake is not installed"),
        (PATH, ["--conf"], True, True, "spark", "only Spark has --conf"),
        (PATH, ["--cluster-by"], True, False, "spark", "only Spark has --cluster-by"),
        ("delta:a.b.c", [], True, True, "spark", "in a catalog"),
        ("delta:lake", [], True, True, "spark", "as delta:./orders has"),
        ("iceberg:a.b.c", [], True, True, "spark", "in a catalog"),
    ],
)
def test_the_engine_that_is_taken(  # noqa: PLR0917 - a table
    target: str,
    of_spark: list[str],
    has_delta: bool,  # noqa: FBT001
    has_spark: bool,  # noqa: FBT001
    engine: str,
    reason: str,
) -> None:
    found = choose(
        "auto", target, of_spark=of_spark, has_delta=has_delta, has_spark=has_spark
    )
    assert found.engine == engine
    assert reason in found.reason


def test_engines_that_are_asked_for() -> None:
    def chosen(asked: str, target: str, of_spark: list[str]) -> str:
        return choose(
            asked, target, of_spark=of_spark, has_delta=True, has_spark=True
        ).engine

    assert chosen("spark", PATH, []) == "spark"
    assert chosen("delta", PATH, []) == "delta"
    for target, of_spark in ((PATH, ["--conf"]), ("iceberg:a.b", []), ("delta:t", [])):
        with pytest.raises(walrow.errors.OptionError, match="--engine spark can"):
            chosen("delta", target, of_spark)
    with pytest.raises(walrow.errors.OptionError) as caught:
        choose("auto", PATH, of_spark=[], has_delta=False, has_spark=False)
    assert "walrow[delta]" in str(caught.value)
    assert "walrow[spark]" in str(caught.value)


@pytest.fixture
def log(tmp_path: Path, data: Path) -> Path:
    pytest.importorskip("pyarrow")
    pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")
    walrow.seal(data / "rows.text.wire", log=tmp_path / "log")
    return tmp_path / "log"


def test_a_table_without_spark(run: Callable[..., Any], log: Path) -> None:
    target = f"delta:{log.parent}/t"
    given = (log, "--table", "public.item", "--target", target)
    first = run("apply", *given, text=True)
    assert first.returncode == 0, first.stderr
    said, done = first.stderr.splitlines()
    assert said == "walrow: engine delta: the target is a Delta table at a path"
    assert re.fullmatch(r"walrow: \d rows, delta:\S+ is at 0/\w+", done)
    again = run("apply", *given, "--json", "--engine", "delta", text=True)
    assert again.stderr == ""
    found = json.loads(again.stdout)
    assert (found["engine"], found["committed"]) == ("delta", False)
    assert found["engine_reason"] == "--engine says so"
    quiet = run("apply", *given, "--quiet", text=True)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    for more, text in (
        (("--engine", "delta", "--conf", "a=b"), "only Spark has --conf"),
        (("--conf", "a=b", "--memory", "1GiB"), "only --engine delta has --memory"),
        (("--memory", "many"), "many is not a size"),
        (("--conf", "a=b", "--storage-option", "a=b"), "has --storage-option"),
        (("--storage-option", "hush-hush"), "expected NAME=VALUE"),
        (("--storage-option", "=hush-hush"), "expected NAME=VALUE"),
    ):
        refused = run("apply", *given, *more, text=True)
        assert refused.returncode == 2
        assert text in refused.stderr
        assert "hush" not in refused.stderr


def test_the_end_is_a_time(run: Callable[..., Any], log: Path) -> None:
    target = f"delta:{log.parent}/t"
    given = (log, "--table", "public.item", "--target", target)
    before = run("apply", *given, "--end", "2001-02-03T04:05:06Z", text=True)
    assert before.returncode == 0, before.stderr
    _, place, done = before.stderr.splitlines()
    assert place == "walrow: --end is 2001-02-03T04:05:06.000Z, in the log 0/0"
    assert done.startswith("walrow: nothing new, ")
    end = walrow.Log(log).end
    after = run("apply", *given, "--end", "2100-01-01T00:00+02:00", text=True)
    assert after.returncode == 0, after.stderr
    assert f"--end is 2099-12-31T22:00:00.000Z, in the log {end}\n" in after.stderr
    assert after.stderr.endswith(f" rows, {target} is at {end}\n")
    quiet = run("apply", *given, "--end", "today", "--quiet", text=True)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    refused = run("apply", *given, "--end", "soon", text=True)
    assert refused.returncode == 2
    assert "'--end': soon is not an LSN, such as" in refused.stderr


def test_a_place_is_printed_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--every`, the time is looked up again and again."""
    directory, time = walrow.Log(log)._log, dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    place = resolved(directory, "--end", time)
    assert isinstance(place, walrow.Lsn)
    assert resolved(directory, "--end", time, place) == place
    assert capsys.readouterr().err.count("--end is 2100-01-01T00:00:00.000Z") == 1


def test_options_of_an_object_store(s3: S3, log: Path) -> None:
    """As another process: the store is a thread here."""
    command = [sys.executable, "-m", "walrow", "apply", str(log)]
    command += ["--table", "public.item", "--target", f"delta:s3://{BUCKET}/cli/t"]
    command += ["--storage-option", "AWS_ALLOW_HTTP=true"]

    def apply(*more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603
            [*command, *more],
            capture_output=True,
            check=False,
            env=os.environ | s3.environment | environment,
            text=True,
            timeout=60,
        )

    # An option on the command line overrides the environment.
    region = ("--storage-option", "AWS_REGION=us-east-1")
    done = apply("--json", *region, AWS_DEFAULT_REGION="nowhere")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["committed"]
    assert any(it.endswith(".json") for it in s3.files.ls(f"{BUCKET}/cli/t/_delta_log"))
    locked = apply("--storage-option", "AWS_S3_LOCKING_PROVIDER=dynamodb")
    assert locked.returncode == 1
    assert "DynamoDB" in locked.stderr
    secret = ("--storage-option", "AWS_SECRET_ACCESS_KEY=my-secret-value")
    unreached = ("--storage-option", "AWS_ENDPOINT_URL=http://127.0.0.1:9")
    retries = ("--storage-option", "max_retries=0")
    failed = apply(*secret, *unreached, *retries)
    assert failed.returncode == 1
    assert "does not answer" in failed.stderr
    assert "my-secret-value" not in failed.stderr + failed.stdout


def test_ctrl_c_says_that_a_commit_may_come(log: Path) -> None:
    code = (
        "import deltalake.table, sys, time\n"
        "from walrow.cli.app import run\n"
        "def slow(self):\n"
        "    print('merging', flush=True)\n"
        "    time.sleep(20)\n"
        "deltalake.table.TableMerger.execute = slow\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    place = f"delta:{log.parent}/t"
    given = ["apply", str(log), "--table", "public.item", "--target", place]
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"merging\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=15)
    assert time.monotonic() - began < 3
    assert process.returncode == 130
    assert b"the last commit may yet have been made" in said
    assert b"Traceback" not in said


def test_a_history(run: Callable[..., Any], log: Path) -> None:
    given = [log, "--table", "public.item"]
    given += ["--target", f"delta:{log.parent}/t", "--mode", "history"]
    first = run("apply", *given, text=True)
    assert ", true since 20" in first.stderr
    again = run("apply", *given, "--json", text=True)
    found = json.loads(again.stdout)
    assert found["mode"] == found["token"]["mode"] == "history"
    assert found["since"].startswith("20")
    other = run("apply", *given[:-2], text=True)
    assert other.returncode == 1
    assert "go on with --mode history" in other.stderr
