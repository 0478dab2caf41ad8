"""walrow beside the floor and CSV: against_floor.py [DIR].

Runs the bench `ratios` and benches/instructions.py over the captures of DIR, writes their figures with
the date and the kind of machine to target/bench/floor.json, and makes docs/speed/floor.md of them.
`--page` only makes the page again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instructions import compiler
from workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "target/bench"
PAGE = ROOT / "docs/speed/floor.md"


def main() -> None:
    """Measures, if asked to, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", type=Path, default=ROOT / "target/bench-data")
    parser.add_argument("--page", action="store_true", help="of the last figures")
    options = parser.parse_args()
    file = RESULTS / "floor.json"
    if not options.page:
        RESULTS.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(_measured(options.dir), indent=2) + "\n")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(page(json.loads(file.read_text()))) + "\n")


def _measured(directory: Path) -> dict[str, Any]:
    """Runs both benches."""
    machine = {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME"),
        "compiler": compiler(),
        "load": round(os.getloadavg()[0], 1),
    }
    ratios = RESULTS / "ratios.json"
    bench = ["cargo", "bench", "-q", "-p", "walrow-benches", "--features", "csv"]
    subprocess.run(  # noqa: S603
        [*bench, "--bench", "ratios", "--", f"--json={ratios}"],
        cwd=ROOT,
        check=True,
        env={**os.environ, "WALROW_BENCH_DATA": str(directory.resolve())},
    )
    counts = RESULTS / "instructions.json"
    counts.unlink(missing_ok=True)
    count = [sys.executable, str(ROOT / "benches/instructions.py"), str(directory)]
    subprocess.run([*count, "--json", str(counts)], check=True)  # noqa: S603
    return {
        "machine": machine,
        "captures": json.loads(ratios.read_text()),
        # Without valgrind, there are none.
        "instructions": json.loads(counts.read_text()) if counts.exists() else {},
    }


def _cpu() -> str:
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else platform.machine()


def page(results: dict[str, Any]) -> Iterator[str]:
    """The lines of docs/speed/floor.md."""
    machine = results["machine"]
    yield "# walrow beside the floor"
    yield ""
    yield "`python benches/against_floor.py` makes this page, and benches/README.md explains it."
    yield ""
    yield (
        f"Measured on {machine['date']}: {machine['cpu']}, {machine['cores']} cores,"
        f" {machine['system']}, {machine['compiler']}, load {machine['load']} at the start."
    )
    yield ""
    yield from _table(
        ("capture", "MB", "rows", "floor", "walrow", "walrow / floor", "instructions"),
        (
            (
                each["name"] + (" (small)" if each["small"] else ""),
                f"{each['bytes'] / 1e6:.1f}",
                f"{each['rows']:,}",
                f"{_ns(each, 'floor'):.0f}",
                f"{_ns(each, 'walrow'):.0f}",
                _ratio(each, "walrow / floor"),
                _instructions(results, each["name"]),
            )
            for each in results["captures"]
        ),
    )
    yield ""
    yield (
        "`floor` and `walrow` are nanoseconds a row, the least of all rounds. Each ratio is given twice: of these two times, and as"
        " the median of all rounds. `instructions` is the ratio of instructions."
    )
    yield ""
    yield "## arrow-csv over the same rows"
    yield ""
    names = ("arrow-csv / walrow", "arrow-csv / floor")
    own = [f"{name}, own columns" for name in names]
    yield (
        "With the metadata columns, except `_unsent`, then with the table's own columns alone, which both"
        " read. `arrow-csv / floor` is the most that walrow could reach."
    )
    yield ""
    yield from _table(
        ("capture", *names, *own),
        (
            (each["name"], *(_ratio(each, name) for name in (*names, *own)))
            for each in results["captures"]
            if names[0] in each["ratios"]
        ),
    )
    yield ""
    yield "## Cells and memory"
    yield ""
    yield (
        "`cells` is walrow's walk over every message and cell, as its decoder reads rows, over the floor's. Each value goes to a"
        " black box. The other columns are of a decoder:"
        " allocations a row, pages touched for the first time in a second pass, and the most memory that is held at a time."
    )
    yield ""
    yield from _table(
        (
            "capture",
            "cells",
            "allocations a row",
            "page faults",
            "peak MiB",
            "floor's",
        ),
        (
            (
                each["name"],
                _ratio(each, "walrow walk / floor walk"),
                f"{own['allocations']:.3f}",
                "-" if own["page_faults"] is None else f"{own['page_faults']:,}",
                f"{own['peak_bytes'] / 2**20:.1f}",
                f"{each['readers']['floor']['peak_bytes'] / 2**20:.1f}",
            )
            for each in results["captures"]
            for own in (each["readers"]["walrow"],)
        ),
    )
    yield ""
    yield "## The captures"
    yield ""
    for name, workload in WORKLOADS.items():
        yield f"- `{name}`: {workload.about}."
    yield "- `segments`: `pgbench` from a log of segments of 100 kB."
    yield ""
    yield "`.binary` is the same with `binary` on."


def _ns(each: dict[str, Any], reader: str) -> float:
    return float(each["readers"][reader]["ns"]["least"])


def _ratio(each: dict[str, Any], name: str) -> str:
    found = each["ratios"].get(name)
    return f"{found['least']:.2f} / {found['median']:.2f}" if found else "-"


def _instructions(results: dict[str, Any], name: str) -> str:
    found = results["instructions"].get(name)
    return f"{found['all']:.2f}" if found else "-"


def _table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|---{'|---:' * (len(heads) - 1)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    main()
