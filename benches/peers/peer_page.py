"""Writes docs/speed/peers.md and its plot from target/bench/peers.json."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from peer_table import CELLS, COUNTED, FLOOR, REFERENCE, ROOT

if TYPE_CHECKING:
    from pathlib import Path

RESULTS = ROOT / "target" / "bench" / "peers.json"
PAGE = ROOT / "docs" / "speed" / "peers.md"
PLOT = PAGE.with_suffix(".svg")

#: The captures in the plot.
PLOTTED = ("narrow", "pgbench", "wide", "mixed", "tiny")
COLOURS = {
    "columns": "#1b6ca8",
    "visits": "#7fb4d6",
    "texts": "#b0b0b0",
    "values": "#d08c4a",
}


class Target(NamedTuple):
    """A ratio that was aimed at.

    Args:
        capture: Its capture.
        what: The two times.
        relation: `≤`, `<` or `≥`.
        bound: The aim.
        ratio: As measured; None if one of the two was not.
    """

    capture: str
    what: str
    relation: str
    bound: float
    ratio: float | None

    def is_reached(self) -> bool | None:
        """Whether the ratio keeps the bound."""
        if self.ratio is None:
            return None
        return {
            "≤": self.ratio <= self.bound,
            "<": self.ratio < self.bound,
            "≥": self.ratio >= self.bound,
        }[self.relation]


#: RecordBatches to the floor.
FLOOR_BOUNDS = {"narrow": 1.5, "pgbench": 1.6, "wide": 1.5, "mixed": 1.2, "tiny": 1.7}
#: RecordBatches to the fastest parser's messages: less than, or at most.
PEER_BOUNDS = {
    "narrow": ("<", 1.0),
    "pgbench": ("<", 1.0),
    "tiny": ("<", 1.0),
    "wide": ("≤", 1.15),
}
#: The fastest parser to walrow's messages, and to its walk over cells.
MESSAGE_BOUNDS = {"narrow": 4.0, "pgbench": 4.0, "wide": 4.0, "mixed": 3.0, "tiny": 2.5}


def main() -> None:
    """Writes the page and the plot."""
    if not RESULTS.exists():
        sys.exit(f"no {RESULTS.relative_to(ROOT)}: make bench-peers")
    results = json.loads(RESULTS.read_text())
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    plot(results, PLOT)
    PAGE.write_text(page(results))
    print(f"wrote {PAGE.relative_to(ROOT)} and {PLOT.name}")


def targets(results: dict[str, Any]) -> list[Target]:
    """The aims, with the ratios of these results."""
    makes = {peer["name"]: peer["makes"] for peer in results["peers"]}
    found = []
    for capture, each in results["captures"].items():
        ns = {name: times["min_ns"] for name, times in each["times"].items()}
        own = ns[REFERENCE]
        others = {name: it for name, it in ns.items() if is_other(name)}
        typed = {name: it for name, it in others.items() if makes[name] == "values"}
        best = min(others, key=others.__getitem__, default=None)
        if capture in FLOOR_BOUNDS:
            ratio = own / ns[FLOOR] if FLOOR in ns else None
            bound = FLOOR_BOUNDS[capture]
            found.append(Target(capture, "RecordBatches / floor", "≤", bound, ratio))
        if capture in PEER_BOUNDS and best:
            what = f"RecordBatches / fastest peer's parsing ({best})"
            found.append(Target(capture, what, *PEER_BOUNDS[capture], own / ns[best]))
        if capture == "mixed" and typed:
            name = min(typed, key=typed.__getitem__)
            what = f"RecordBatches / fastest peer with typed values ({name})"
            found.append(Target(capture, what, "<", 1.0, own / ns[name]))
        if capture in MESSAGE_BOUNDS and best:
            for name in (COUNTED, CELLS):
                what = f"best peer ({best}) / {name.removeprefix('walrow, ')}"
                ratio = ns[best] / ns[name] if name in ns else None
                found.append(Target(capture, what, "≥", MESSAGE_BOUNDS[capture], ratio))
        if capture in FLOOR_BOUNDS and "walrow.read" in ns:
            ratio = ns["walrow.read"] / own
            what = "walrow.read / RecordBatches"
            found.append(Target(capture, what, "≤", 1.03, ratio))
    return found


def is_other(name: str) -> bool:
    """Whether a parser is somebody else's library."""
    return not name.startswith(("walrow", "floor", "struct"))


def page(results: dict[str, Any]) -> str:
    """The page as Markdown."""
    machine = results["machine"]
    captures = results["captures"]
    loads = [each["load"] for each in captures.values()]
    turns = f"{results['rounds']} rounds"
    if "passes" in results:
        turns += f" of {results['passes']} passes"
    # Each parser is one process, so a load of more than the cores is other work.
    busy = [
        "- **Noise:** other programs had the processor, too. Medians say little, and small differences nothing."
    ]
    if max(loads) <= machine["cores"]:
        busy = []
    lines = [
        "# Beside other parsers",
        "",
        "`make bench-peers` writes this page again on your machine.",
        "",
        f"- **When and where:** {results['date']}, {machine['cpu']}, {machine['cores']} cores,"
        f" {machine['os']}, load {min(loads):.1f} to {max(loads):.1f}.",
        f"- **How:** each parser runs in its own process, which has the capture in memory. It has its"
        f" turn in each of {turns}. A pass parses the whole capture and drops the results.",
        f"- **Captures:** {', '.join(captures)}.",
        "- **Fair:** all parsers count the same messages, cells and NULLs as walrow, as far as they"
        " tell. A difference ends the run.",
        "- **What each makes:** *columns* are typed Arrow batches, *values* are messages with values"
        " of the language's types, *texts* are messages with texts or bytes, *visits* leave nothing"
        " behind. So `walrow, RecordBatches` does more than a parser of texts.",
        f"- **Two walks:** `{COUNTED}` makes a message of each payload, as other parsers do, and visits its"
        f" cells without a list of them. `{CELLS}` visits the cells of rows as walrow's decoder does, and"
        " makes no message of a row, which the harness of no other parser does. Both, and the floor's walk, give"
        " each value to a black box, so that no work is optimised away. Texts are not checked as UTF-8 there.",
        *busy,
        "",
        "## Time",
        "",
        "**Minimum** / median of all passes in nanoseconds a row / ratio of the minimum to walrow's"
        " RecordBatches.",
        "",
        "![Nanoseconds a row of each parser](peers.svg)",
        "",
        "| parser | language | makes | " + " | ".join(captures) + " |",
        "|---" * (3 + len(captures)) + "|",
    ]
    for peer in results["peers"]:
        cells = [cell(each["times"].get(peer["name"])) for each in captures.values()]
        if any(it != "-" for it in cells):
            row = [peer["name"], peer["language"], peer["makes"], *cells]
            lines.append("| " + " | ".join(row) + " |")
    lines += ["", "The captures:", ""]
    lines += [
        f"- {name}: {each['bytes'] / 1e6:.1f} MB, {each['rows']:,} rows,"
        f" {each['transactions']:,} transactions"
        for name, each in captures.items()
    ]
    lines += ["", "## Targets", "", "By minima.", ""]
    lines += ["| target | aim | measured | |", "|---|---|---|---|"]
    for target in targets(results):
        reached = {True: "reached", False: "**missed**", None: "not measured"}
        ratio = "-" if target.ratio is None else f"{target.ratio:.2f}"
        lines.append(
            f"| {target.capture}: {target.what} | {target.relation} {target.bound:g}"
            f" | {ratio} | {reached[target.is_reached()]} |"
        )
    lines += ["", "## Not measured", ""]
    lines += [f"- {name}: {reason}" for name, reason in results["absent"].items()]
    lines += [f"- {it['peer']}: {it['reason']}" for it in results["skipped"]]
    lines += [
        f"- {name} on {capture}: {reason}"
        for capture, each in captures.items()
        for name, reason in each["skipped"].items()
    ]
    return "\n".join(lines) + "\n"


def cell(times: dict[str, float] | None) -> str:
    """A parser's times of a capture."""
    if times is None:
        return "-"
    low, middle, ratio = (times[name] for name in ("min_ns", "median_ns", "ratio_min"))
    return f"**{low:,.0f}** / {middle:,.0f} / {ratio:.2f}"


def plot(results: dict[str, Any], path: Path) -> None:
    """Draws a bar for each parser, one panel a capture, on a logarithmic scale."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    # The same results give the same file.
    mpl.rcParams.update({"svg.hashsalt": "walrow", "svg.fonttype": "none"})
    shown = [name for name in PLOTTED if name in results["captures"]]
    peers = {peer["name"]: peer["makes"] for peer in results["peers"]}
    names = [
        name
        for name in reversed(peers)
        if any(name in results["captures"][it]["times"] for it in shown)
    ]
    figure = Figure(
        figsize=(3 + 2.4 * len(shown), 1.5 + 0.24 * len(names)), layout="constrained"
    )
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for panel, capture in zip(panels, shown, strict=True):
        times = results["captures"][capture]["times"]
        values = [times[name]["min_ns"] if name in times else 0 for name in names]
        panel.barh(names, values, color=[COLOURS[peers[name]] for name in names])
        panel.axvline(times[REFERENCE]["min_ns"], color="black", linewidth=0.8)
        panel.set_xscale("log")
        panel.set_title(capture)
        panel.set_xlabel("ns a row")
    figure.legend(
        handles=[Patch(color=colour, label=makes) for makes, colour in COLOURS.items()],
        loc="outside lower center",
        ncols=len(COLOURS),
    )
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
