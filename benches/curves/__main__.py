"""Cost curves: time and memory against rows, columns, tables and so on.

`python benches/curves measure` writes target/bench/curves.json, `python benches/curves page`
makes docs/speed/curves.md of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PATHS = [str(ROOT / folder) for folder in ("benches", "tests", "examples")]
sys.path[:0] = _PATHS

from curves import machine, page, whole_way  # noqa: E402
from curves.axes import AXES  # noqa: E402
from curves.measuring import build_once, measure  # noqa: E402

#: The file of all results.
RESULTS = ROOT / "target/bench/curves.json"
ROUNDS = 3
WHOLE_WAY = "whole way"


def main() -> None:
    """Measures, or makes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("measure", help="measure, into curves.json")
    names = [axis.name for axis in AXES] + [WHOLE_WAY]
    command.add_argument("names", nargs="*", help=f"of {', '.join(names)}; all")
    command.add_argument(
        "--quick", action="store_true", help="three sizes of each axis, once"
    )
    commands.add_parser("page", help="make docs/speed/curves.md of curves.json")
    options = parser.parse_args()
    if options.command == "page":
        page.write(json.loads(RESULTS.read_text()), ROOT / "docs/speed")
        return
    if unknown := set(options.names) - set(names):
        parser.error(f"no axis is called {', '.join(sorted(unknown))}")
    run(options.names or names, quick=options.quick)


def run(names: list[str], *, quick: bool) -> None:
    """Measures these axes. Earlier results of the other axes stay."""
    # For the processes that measure.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"axes": {}}
    by_name = {axis.name: axis for axis in AXES}
    once = build_once()
    if once is None:
        print("no valgrind: instructions are not counted")
    with tempfile.TemporaryDirectory(dir=RESULTS.parent) as folder:
        for name in names:
            print(f"== {name}", flush=True)
            if name == WHOLE_WAY:
                transactions = 1_000 if quick else 50_000
                results["whole_way"] = whole_way.measure(Path(folder), transactions)
                _save(results)
                continue
            axis = by_name[name]
            sizes = axis.points[:3] if quick else axis.points
            rounds = 1 if quick else ROUNDS
            curves = measure(axis, sizes, rounds, once, Path(folder))
            results["axes"][axis.name] = {
                "sizes": sizes,
                "curves": {way: asdict(curve) for way, curve in curves.items()},
            }
            _save(results)


def _save(results: dict[str, object]) -> None:
    results["machine"] = machine.describe()
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
