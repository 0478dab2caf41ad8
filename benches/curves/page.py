"""Makes the page of the curves from their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from curves.axes import AXES
from curves.explanations import CACHES, MEMORY, TIME
from curves.fitting import Fit, fit
from curves.plots import draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: Memory that grows less than this over three decades is constant.
CONSTANT_MIB = 16


def write(results: Mapping[str, Any], folder: Path) -> None:
    """Writes curves.md, and a picture of each axis.

    Args:
        results: The contents of `curves.json`.
        folder: The directory of the page. It is created if necessary.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, axis in results["axes"].items():
        draw(name, axis["sizes"], axis["curves"], folder / picture(name))
    (folder / "curves.md").write_text("\n".join(lines(results)) + "\n")


def picture(axis: str) -> str:
    """The file of an axis's picture."""
    return f"curves-{axis.replace(' ', '-')}.svg"


def lines(results: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the page."""
    yield from _INTRODUCTION.splitlines()
    yield ""
    yield _machine(results["machine"])
    if way := results.get("whole_way"):
        yield from _whole_way(way)
    for axis in AXES:
        if axis.name in results["axes"]:
            yield from _axis(axis.name, axis.about, results["axes"][axis.name])


def _machine(machine: Mapping[str, Any]) -> str:
    return (
        f"Measured on {machine['date']}: {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['system']}, load {machine['load']}."
    )


# ------------------------------------------------------------------------- an axis


def _axis(name: str, about: str, result: Mapping[str, Any]) -> Iterator[str]:
    sizes, curves = result["sizes"], result["curves"]
    yield from ("", f"## {name[0].upper()}{name[1:]}", "")
    yield about
    yield from ("", f"![Time and memory against {name}]({picture(name)})", "")
    yield (
        f"| way | CPU time at {sizes[0]:,} | at {sizes[-1]:,} | exponent | of instructions |"
        f" | memory at {sizes[0]:,} | at {sizes[-1]:,} | |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    notes: list[tuple[str, str]] = []
    for way, curve in curves.items():
        time = fit(sizes, curve["cpu"])
        counted = [
            (size, count)
            for size, count in zip(sizes[::2], curve["instructions"], strict=False)
            if count is not None
        ]
        exact = (
            fit(*zip(*counted, strict=True)) if len(counted) > _LEAST_COUNTS else None
        )
        growth = memory(curve["mib"])
        yield (
            f"| {way} | {seconds(curve['cpu'][0])} | {seconds(curve['cpu'][-1])}"
            f" | {time.exponent:.2f} | {f'{exact.exponent:.2f}' if exact else ''}"
            f" | {(exact or time).verdict} | {curve['mib'][0]:.0f} MiB"
            f" | {curve['mib'][-1]:.0f} MiB | {growth} |"
        )
        notes += _notes(name, way, time, exact, growth)
    if notes:
        yield ""
        # One explanation often holds for several ways.
        for text in dict.fromkeys(text for _, text in notes):
            ways = ", ".join(dict.fromkeys(way for way, it in notes if it == text))
            yield f"- {ways}: {text}"


_LEAST_COUNTS = 2


def _notes(
    axis: str, way: str, time: Fit, exact: Fit | None, growth: str
) -> Iterator[tuple[str, str]]:
    """The explanation of each cost that is not as it should be.

    Instructions do not depend on other work of the machine: where they are counted, they decide.
    """
    verdict = (exact or time).verdict
    if verdict != "linear":
        missing = f"**the time is {verdict}: not explained yet.**"
        yield way, TIME.get((axis, way), TIME.get((axis, ""), missing))
    elif time.verdict == "more than linear":
        yield way, CACHES
    if growth != "constant":
        missing = "**the memory grows: not explained yet.**"
        yield way, MEMORY.get((axis, way), MEMORY.get((axis, ""), missing))


def memory(mib: list[float]) -> str:
    """How memory grows over an axis: constant, levels off, or grows."""
    least, most = min(mib), max(mib)
    if most - least < CONSTANT_MIB:
        return "constant"
    # The last decade is the last two steps.
    if mib[-1] - mib[-3] < max(CONSTANT_MIB, (most - least) / 10):
        return "levels off"
    return "grows"


def seconds(value: float) -> str:
    """A time with a fitting unit.

    >>> seconds(0.0123), seconds(2.5), seconds(0.00042)
    ('12.3 ms', '2.50 s', '420 µs')
    """
    if value >= 1:
        return f"{value:.2f} s"
    if value >= _MILLI:
        return f"{value * 1e3:.3g} ms"
    return f"{value * 1e6:.0f} µs"


_MILLI = 1e-3

# ---------------------------------------------------------------------- the whole way


def _whole_way(way: Mapping[str, Any]) -> Iterator[str]:
    changes = way["changes"]
    stages = way["stages"]
    total = sum(stage["cpu"] for stage in stages if stage["is_part"])
    slowest = max((it for it in stages if it["is_part"]), key=lambda it: it["cpu"])
    yield from ("", "## The whole way", "")
    yield (
        f"pgbench's {changes:,} changes on their way from the server to Delta tables, in one "
        f"round, with the first load there. **The slowest stage is {slowest['name']}: "
        f"{slowest['cpu'] / total:.0%} of the CPU time.**"
    )
    yield from (
        "",
        "| stage | CPU time | a change | share | wall time |",
        "|---|---|---|---|---|",
    )
    for stage in stages:
        share = f"{stage['cpu'] / total:.0%}" if stage["is_part"] else ""
        yield (
            f"| {stage['name']} | {stage['cpu']:.2f} s"
            f" | {stage['cpu'] / changes * 1e6:.1f} µs | {share} | {stage['wall']:.2f} s |"
        )
    yield from ("", "Lines without a share are not part of this way.")


_INTRODUCTION = """# What grows with what

This page shows the time and the memory of walrow while its input grows a thousand times, on eight axes. `make curves`
measures it again and makes this page.

For each way and each of seven sizes, a new process runs. The time is CPU time of all its threads, the least value of several
rounds. In a round, all sizes and ways take turns. The memory is the process's peak, without what a very small input
needs. The curve `fixed + unit * size ^ k` is fitted to the points, and the exponent `k` is in the table: 1 is linear, 2
quadratic, 0 constant. With valgrind, there is an exponent of the Rust library's instructions,
too. It does not depend on other work of the machine, so it decides.

| way | what it does |
|---|---|
| read | `walrow.read` of a capture |
| append | `walrow.seal` of the capture, to a new log |
| read log | `walrow.read` of that log |
| state | `Log.state` of the first table |
| net | `Log.net` of the first table, from the log's beginning |
| open | `Log(...)`, and its end |
| follow | opens a log, and `Log.follow` gives the batch of the last transaction |
| read chunks | `walrow.read` of an iterator of chunks |
| feed | `Decoder.feed` of each chunk |"""
