"""Draws the curves of an axis as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def draw(
    axis: str,
    sizes: Sequence[int],
    curves: Mapping[str, Mapping[str, Any]],
    path: Path,
) -> None:
    """Draws CPU time on the left and peak memory on the right.

    The dotted line is what grows as the size does. The same results make the same file.

    Args:
        axis: What grows.
        sizes: Its sizes.
        curves: `cpu` in seconds and `mib` of each way, one of each size.
        path: The file to write.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "walrow"
    # Letters as letters: a tenth of the size.
    mpl.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot as plt

    figure, (time, memory) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for way, curve in curves.items():
        time.plot(sizes, curve["cpu"], marker="o", markersize=3, label=way)
        memory.plot(sizes, curve["mib"], marker="o", markersize=3, label=way)
    most = max(curve["cpu"][-1] for curve in curves.values())
    guide = [most * size / sizes[-1] for size in sizes]
    time.plot(sizes, guide, color="grey", linestyle=":", label="linear")
    time.set(xscale="log", yscale="log", xlabel=axis, ylabel="seconds of CPU time")
    memory.set(xscale="log", xlabel=axis, ylabel="peak memory, MiB", ylim=(0, None))
    time.set_ylim(bottom=min(curve["cpu"][0] for curve in curves.values()) / 2)
    time.legend(fontsize="small")
    for panel in (time, memory):
        panel.grid(visible=True, alpha=0.3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
