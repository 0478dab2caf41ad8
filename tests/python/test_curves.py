"""The tool of the cost curves: its fits, its inputs, and the page it makes of results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from curves import page
from curves.axes import AXES
from curves.explanations import CACHES
from curves.fitting import fit
from curves.inputs import Shape, make
from curves.ways import WAYS, measure

import walrow

SIZES = [1, 3, 10, 30, 100, 300, 1000]


@pytest.mark.parametrize(
    ("exponent", "verdict"),
    [
        (0.0, "constant"),
        (0.5, "less than linear"),
        (1.0, "linear"),
        (1.2, "more than linear"),
        (2.0, "more than linear"),
    ],
)
@pytest.mark.parametrize("fixed", [0.0, 20.0])
def test_a_fit_finds_the_exponent_under_noise(
    exponent: float, verdict: str, fixed: float
) -> None:
    noise = [1.02, 0.99, 1.0, 1.01, 0.98, 1.01, 0.99]
    costs = [
        (fixed + 2 * size**exponent) * it for size, it in zip(SIZES, noise, strict=True)
    ]
    found = fit(SIZES, costs)
    assert found.exponent == pytest.approx(exponent, abs=0.09)
    assert found.verdict == verdict
    assert found.error < 0.05


def test_a_fit_of_exact_costs_gives_their_parts() -> None:
    found = fit(SIZES, [0.5 + 0.25 * size for size in SIZES])
    assert (found.fixed, found.unit, found.exponent) == (0.5, 0.25, 1.0)


def test_a_fit_of_two_points_is_refused() -> None:
    with pytest.raises(ValueError, match="a fit needs 3 points, not 2"):
        fit([1, 2], [1, 2])


@pytest.mark.parametrize(
    ("mib", "growth"),
    [
        ([5, 5, 6, 8, 14, 17, 20], "constant"),
        ([5, 10, 40, 60, 70, 71, 72], "levels off"),
        ([5, 6, 7, 9, 20, 50, 170], "grows"),
    ],
)
def test_memory_is_constant_or_levels_off_or_grows(
    mib: list[float], growth: str
) -> None:
    assert page.memory(mib) == growth


def test_an_input_has_the_shape_that_was_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    shape = Shape(rows=50, columns=3, tables=4, rows_a_transaction=20, value_size=11)
    made = make(shape, tmp_path / "input", 50)
    for source in (made.stream, made.log):
        reader = walrow.read(source)
        batches = list(reader)
        assert sum(map(len, batches)) == 50
        assert {batch.table for batch in batches} == {f"public.t{n}" for n in range(4)}
    frames = walrow.read(made.stream).to_pyarrow()
    first = frames["public.t0"]
    assert first.column_names[:3] == ["id", "c1", "c2"]
    assert first["id"].to_pylist() == list(range(13))
    assert {len(text) for text in first["c1"].to_pylist()} == {11}
    assert len({lsn for table in frames.values() for lsn in table["_commit_lsn"]}) == 3


def test_the_axis_of_segments_has_so_many_segments(tmp_path: Path) -> None:
    (axis,) = (axis for axis in AXES if axis.name == "segments")
    for size in axis.points[:3]:
        made = make(axis.shape(size), tmp_path / str(size), size)
        assert len(walrow.Log(made.log).segments()) == size


@pytest.mark.parametrize("way", WAYS)
def test_a_way_is_measured(way: str, tmp_path: Path) -> None:
    made = make(Shape(rows=200), tmp_path / "input", 20)
    cost = measure(WAYS[way], made)
    assert cost.cpu > 0
    assert cost.wall > 0
    assert cost.mib >= 0
    assert not (made.folder / "appended").exists()


def results() -> dict[str, Any]:
    """Results made by hand: rows are linear, columns quadratic."""
    linear = {
        "cpu": [size / 1e3 for size in SIZES],
        "wall": [size / 1e3 for size in SIZES],
        "mib": [5.0, 5.0, 5.0, 6.0, 6.0, 6.0, 6.0],
        "instructions": [1000, 10_000, 100_000, None],
    }
    quadratic = linear | {
        "cpu": [size**2 / 1e6 for size in SIZES],
        "mib": [float(size) for size in SIZES],
        "instructions": [],
    }
    stages = [("server", 3.0, True), ("table", 1.0, True), ("beside", 9.0, False)]
    return {
        "axes": {
            "columns": {"sizes": SIZES, "curves": {"other": quadratic}},
            "rows": {"sizes": SIZES, "curves": {"read": linear}},
        },
        "whole_way": {
            "changes": 1_000_000,
            "stages": [
                {"name": name, "cpu": cpu, "wall": 2.0, "is_part": is_part}
                for name, cpu, is_part in stages
            ],
        },
        "machine": {
            "date": "2026-11-27",
            "cpu": "A CPU",
            "cores": 2,
            "system": "An OS",
            "load": 0.1,
        },
    }


def test_the_page_judges_each_curve() -> None:
    made = "\n".join(page.lines(results()))
    assert "Measured on 2026-11-27: A CPU, 2 cores, An OS, load 0.1." in made
    assert (
        "| read | 1 ms | 1.00 s | 1.00 | 1.00 | linear | 5 MiB | 6 MiB | constant |"
        in made
    )
    assert (
        "| other | 1 µs | 1.00 s | 2.00 |  | more than linear | 1 MiB | 1000 MiB | grows |"
        in made
    )
    assert "- other: **the time is more than linear: not explained yet.**" in made
    assert "- other: a batch has up to 16,384 rows" in made
    # The results have another order.
    assert made.index("## Rows") < made.index("## Columns")


def test_time_beyond_linear_instructions_is_explained() -> None:
    made = results()
    read = made["axes"]["rows"]["curves"]["read"]
    assert CACHES not in "\n".join(page.lines(made))
    read["cpu"] = [size**1.3 / 1e3 for size in SIZES]
    assert f"- read: {CACHES}" in page.lines(made)


def test_the_page_names_the_slowest_stage_of_the_way() -> None:
    made = "\n".join(page.lines(results()))
    assert "**The slowest stage is server: 75% of the CPU time.**" in made
    assert "| table | 1.00 s | 1.0 µs | 25% | 2.00 s |" in made
    assert "| beside | 9.00 s | 9.0 µs |  | 2.00 s |" in made


@pytest.mark.slow
def test_the_same_results_make_the_same_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for folder in ("one", "other"):
        page.write(results(), tmp_path / folder)
    one, other = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        for folder in ("one", "other")
    )
    assert set(one) == {"curves.md", "curves-rows.svg", "curves-columns.svg"}
    assert one == other
    for name in pictures(one["curves.md"].decode()):
        assert name in one


def pictures(text: str) -> list[str]:
    return [part.split(")")[0] for part in text.split("](") if ".svg)" in part]


def test_an_unknown_axis_is_refused() -> None:
    folder = Path(__file__).resolve().parents[2] / "benches/curves"
    ran = subprocess.run(  # noqa: S603
        [sys.executable, str(folder), "measure", "rowz"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert "no axis is called rowz" in ran.stderr
