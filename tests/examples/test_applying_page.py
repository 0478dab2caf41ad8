"""Runs the code of docs/applying.md, in order, in a directory with a log."""

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import walrow

pytest.importorskip("pyspark", reason="needs PySpark: pip install pyspark")

import streams
from small_spark import IVY
from table_formats import PACKAGES, has_delta, table_formats

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/applying.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    shlex.split(block.replace("\\\n", " "))
    for block in re.findall(
        r"^```sh\n(walrow apply .*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
]
SESSION = """
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name, value in {settings!r}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
"""
#: A micro-batch, as a stream would call the page's function.
LAST = """
keep_current(None, 0)
for table in ("delta.`{lake}/item`", "delta.`{lake}/stock`", "lake.shop.item"):
    print(table.partition("/")[0], spark.table(table).count())
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.skipif(not has_delta(), reason="needs Delta and Iceberg")
def test_every_block_runs(tmp_path: Path) -> None:
    walrow.seal(ROOT / "tests/data/18/rows.text.wire", log=tmp_path / "log")
    lake = tmp_path / "lake"
    assert len(BLOCKS) == 5
    code = "\n".join(BLOCKS).replace("/lake/", f"{lake}/")
    # The tables of the capture.
    code = re.sub(r"\bitems\b(?!\()", "stock", code.replace("orders", "item"))
    settings = {
        name.replace(".ice", ".lake"): value for name, value in table_formats().items()
    }
    settings["spark.sql.catalog.lake.warehouse"] = str(lake / "iceberg")
    result = subprocess.run(  # noqa: S603
        [
            sys.executable,
            "-c",
            SESSION.format(settings=settings) + code + LAST.format(lake=lake),
        ],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    assert "rows, up to 0/" in result.stdout
    assert "public.item 0" in result.stdout
    assert re.findall(r"^(?:delta|lake).* (\d+)$", result.stdout, re.MULTILINE) == [
        "2",
        "2",
        "2",
    ]


def settings_of(command: list[str]) -> dict[str, str]:
    """The settings of Spark in a command."""
    places = [at for at, word in enumerate(command) if word == "--conf"]
    return dict(command[at + 1].split("=", 1) for at in places)


def test_the_settings_of_the_commands_are_those_of_the_tests() -> None:
    plain, delta, iceberg, history = map(settings_of, COMMANDS)
    tested = {**table_formats(), "spark.jars.packages": PACKAGES}
    assert plain == history == {}
    catalog = "spark.sql.catalog.lake"
    assert iceberg.pop(f"{catalog}.warehouse") == "/lake"
    assert iceberg.pop(catalog) == tested["spark.sql.catalog.ice"]
    assert iceberg.pop(f"{catalog}.type") == tested["spark.sql.catalog.ice.type"]
    assert (
        delta.pop("spark.sql.catalog.spark_catalog")
        == tested["spark.sql.catalog.spark_catalog"]
    )
    assert delta.keys() == iceberg.keys()
    # As the page says: joined with commas.
    for name, value in delta.items():
        assert f"{value},{iceberg[name]}" == tested[name]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", COMMANDS[1:3], ids=["delta", "iceberg"])
@pytest.mark.skipif(not has_delta(), reason="needs Delta and Iceberg")
def test_the_commands_run_as_they_are(tmp_path: Path, command: list[str]) -> None:
    lake = tmp_path / "lake"
    columns = [streams.Column("id", 23, is_key=True)]
    transaction = streams.wired(
        streams.begin(xid=1, lsn=8),
        streams.relation(columns, name="orders"),
        streams.insert(["1"]),
        streams.commit(lsn=8, end=16),
    )
    walrow.seal(io.BytesIO(transaction), log=tmp_path / "log")
    words = [re.sub(r"(?<=[:=])/lake", str(lake), word) for word in command[1:]]
    # What was fetched before.
    words += ["--conf", f"spark.jars.ivy={IVY}", "--conf", "spark.ui.enabled=false"]
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "walrow", *words],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    target = words[words.index("--target") + 1]
    assert f"walrow: 1 row, {target} is at 0/10" in result.stderr
    # Rows are in Parquet files of the target.
    assert list((lake / "orders").rglob("*.parquet")) or list(
        (lake / "shop" / "orders").rglob("*.parquet")
    )
