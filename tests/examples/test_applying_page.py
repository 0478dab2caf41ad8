"""Runs the code of docs/applying.md, in order, in a directory with a log."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import walrow

pytest.importorskip("pyspark", reason="needs PySpark: pip install pyspark")

from table_formats import table_formats

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/applying.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
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
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    importlib.util.find_spec("delta") is None, reason="needs Delta and Iceberg"
)
def test_every_block_runs(tmp_path: Path) -> None:
    walrow.seal(ROOT / "tests/data/18/rows.text.wire", log=tmp_path / "log")
    lake = tmp_path / "lake"
    assert len(BLOCKS) == 4
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
