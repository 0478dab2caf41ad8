"""Writes docs/speed/end-to-end.md and its plot, of the results of run.py. Needs matplotlib.

The group of dependencies `bench` has it: pip install --group bench.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

_ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = _ROOT / "target/bench/end_to_end.json"
PAGE = _ROOT / "docs/speed/end-to-end.md"
PLOT = PAGE.with_suffix(".svg")

_TEXT = """# From a server to a Delta table

PostgreSQL {server} has the changes of one table, and each way keeps a Delta table as it is there. Measured on {date}, on a machine with
{machine}. Medians of {rounds}. After each phase, all rows of all tables were equal to the server's.{load}

| way | what it is |
|---|---|
| walrow run | walrow {walrow}: `walrow run shop.toml`, a receiver and an applier, with a log between them |
| walrow receive, apply | the same as two commands, one after the other |
| Debezium | Debezium's embedded engine {debezium}, which prints JSON, and a script that merges it with delta-rs |
| wal2json | pg_recvlogical with wal2json {wal2json}, and such a script |

The scripts gather lines for a second, or 100,000 lines, keep the last line of each key, and merge them with delta-rs {deltalake}: see
[benches/end_to_end](../../benches/end_to_end). walrow writes with the same delta-rs. The last row of a phase shows that all rows are there: the
time ends when it is in the table, and begins when the way's processes start. All changes were committed before.

![Rows a second, and CPU time a row]({plot})

{tables}

The CPU time has all processes of a way. The server's CPU time is beside it: each way has a walsender, which decodes the WAL.

The numbers do not show the promises. With walrow, each change is applied exactly once after a crash at any point, and a value that the
server did not send stays as it is. Debezium and pg_recvlogical confirm to the server as soon as a line is in the pipe: if a script dies, the
lines that it has not merged are lost.

`benches/end_to_end/run.py` measures this again, and `benches/end_to_end/page.py` writes this page.
"""


class Line(NamedTuple):
    """The medians of a way in a phase."""

    way: str
    rows: int
    seconds: float
    cpu: float
    server: float

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds

    @property
    def cpu_a_row(self) -> float:
        """Microseconds of CPU a row."""
        return self.cpu / self.rows * 1e6


def main() -> None:
    """Writes the page and the plot."""
    found = json.loads(RESULTS.read_text())
    results = found["results"]
    if wrong := [it for it in results if it["difference"] is not None]:
        msg = f"rows differ in {wrong[0]['way']}: there is nothing to compare"
        raise SystemExit(msg)
    phases = list(dict.fromkeys(it["phase"] for it in results))
    by_phase = {phase: lines(results, phase) for phase in phases}
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    plot({phase: by_phase[phase] for phase in phases[:2]})
    load = max(it["load"] for it in results)
    cores = int(found["machine"].split()[0])
    text = _TEXT.format(
        **found["versions"],
        date=found["date"],
        machine=found["machine"],
        rounds=counted(max(it["round"] for it in results) + 1),
        load=busy(load) if load > cores + 1 else "",
        plot=PLOT.name,
        tables="\n\n".join(table(phase, by_phase[phase]) for phase in phases),
    )
    PAGE.write_text(text)
    print(f"written: {PAGE.relative_to(_ROOT)} and {PLOT.name}")


def busy(load: float) -> str:
    """A warning for readers: the machine did other work, too."""
    return f"\n\n**The machine did other work (load {load:.0f}): compare CPU time, not elapsed time.**"


def counted(rounds: int) -> str:
    """The number of rounds."""
    return f"{rounds} rounds" if rounds > 1 else "1 round"


def lines(results: list[dict[str, Any]], phase: str) -> list[Line]:
    """A line for each way, the ways in their order in the results."""
    found = []
    for way in sorted({it["way"] for it in results}, key=_ORDER.index):
        own = [it for it in results if (it["way"], it["phase"]) == (way, phase)]
        fields = [median(it[name] for it in own) for name in _MEASURED]
        found.append(Line(way, own[0]["rows"], *fields))
    return found


def table(phase: str, of: list[Line]) -> str:
    """The table of a phase."""
    if of[0].rows == 1:
        head = "| one row: what a start takes | s | CPU, s |\n|---|---:|---:|"
        rows = [f"| {it.way} | {it.seconds:.1f} | {it.cpu:.2f} |" for it in of]
        return "\n".join([head, *rows])
    head = (
        f"| {of[0].rows:,} rows: {phase} | rows/s | CPU, us a row | times walrow run | server, us a row |\n"
        "|---|---:|---:|---:|---:|"
    )
    rows = [
        f"| {it.way} | {it.rate:,.0f} | {it.cpu_a_row:.1f} | {it.cpu / of[0].cpu:.1f} |"
        f" {it.server / it.rows * 1e6:.1f} |"
        for it in of
    ]
    return "\n".join([head, *rows])


def plot(phases: dict[str, list[Line]]) -> None:
    """Draws rates and CPU time, of the phases with many rows."""
    # So that the same results give the same file.
    plt.rcParams.update({"svg.hashsalt": "walrow", "font.size": 9})
    figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
    for at, (phase, of) in enumerate(phases.items()):
        places = [n + 0.2 * (2 * at - 1) for n in range(len(of))]
        rates = axes[0].barh(places, [it.rate for it in of], 0.38, label=phase)
        axes[0].bar_label(rates, fmt="{:,.0f}", padding=2)
        costs = axes[1].barh(places, [it.cpu_a_row for it in of], 0.38, label=phase)
        axes[1].bar_label(costs, fmt="{:.0f}", padding=2)
        axes[0].set_yticks(range(len(of)), [it.way for it in of])
    axes[0].invert_yaxis()
    for each, title in zip(axes, ("rows a second", "CPU, us a row"), strict=True):
        each.set_title(title)
        each.margins(x=0.15)
        each.spines[["top", "right"]].set_visible(False)
    axes[0].legend()
    figure.savefig(PLOT, metadata={"Date": None})


_ORDER = ["walrow run", "walrow receive, apply", "Debezium", "wal2json"]
_MEASURED = ("seconds", "cpu", "server_cpu")


if __name__ == "__main__":
    main()
