"""Runs the pipeline of examples/pipeline with Spark's own command, and compiles the page's code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import walrow
from small_spark import JAVA

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/pipelines.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_pipeline_runs(tmp_path: Path) -> None:
    """Its tables have each change once."""
    pytest.importorskip("pyspark.pipelines", reason="needs Spark 4.1")
    walrow.seal(ROOT / "tests/data/18/rows.text.wire", log=tmp_path / "log")
    shutil.copytree(ROOT / "examples/pipeline", tmp_path / "pipeline")
    spec = tmp_path / "pipeline" / "spark-pipeline.yml"
    storage = "file:///tmp/shop-pipeline"
    assert storage in spec.read_text()
    spec.write_text(spec.read_text().replace(storage, f"file://{tmp_path / 'storage'}"))
    command = [
        str(Path(sys.executable).parent / "spark-pipelines"),
        *("run", "--remote", "local[2]"),
        *("--conf", f"spark.shop.log={tmp_path / 'log'}"),
        *("--conf", "spark.ui.enabled=false"),
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(  # noqa: S603
        command,
        capture_output=True,
        check=False,
        cwd=tmp_path / "pipeline",
        env={
            **os.environ,
            "PATH": path,
            "PYSPARK_PYTHON": sys.executable,
            "JDK_JAVA_OPTIONS": JAVA,
        },
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Run is COMPLETED" in result.stdout + result.stderr
    pq = pytest.importorskip("pyarrow.parquet")
    warehouse = tmp_path / "pipeline" / "spark-warehouse"
    changes = pq.read_table(warehouse / "item_changes").to_pylist()
    assert len(changes) == 10
    assert sorted(each["id"] for each in changes) == [1, 1, 2, 2, 3, 3, 3, 4, 4, 20]
    counts = {
        row["_change_type"]: row["count"]
        for row in pq.read_table(warehouse / "item_counts").to_pylist()
    }
    assert counts == {
        "insert": 4,
        "update_preimage": 1,
        "update_postimage": 3,
        "delete": 2,
    }


def test_the_code_of_the_page_is_python() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "docs/pipelines.md", "exec")
    # Twenty lines, and no more.
    shaping = blocks[1].split("def item_upserts")[1].split("dp.create")[0]
    assert len(shaping.strip().splitlines()) <= 20
