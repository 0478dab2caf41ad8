"""The engines: which one is chosen for a target, and what only Spark writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from walrow._apply.items import Engine
from walrow.errors import OptionError


class Choice(NamedTuple):
    """An engine, and why it was chosen."""

    engine: Engine
    reason: str


def is_path(target: str) -> bool:
    """Whether a target is a Delta table at a path or URL."""
    kind, _, place = target.partition(":")
    return kind == "delta" and ("/" in place or "\\" in place)


def choose(
    asked: str,
    target: str,
    *,
    of_spark: Sequence[str],
    has_delta: bool,
    has_spark: bool,
) -> Choice:
    """Chooses the engine for a target, by the options that only Spark has and by what can be imported.

    Raises:
        OptionError: No engine is there, or the engine that was asked for cannot write the target.
    """
    needs = None
    if not is_path(target):
        needs = "the target is in a catalog"
        if target.startswith("delta:"):
            needs += " (a path has a slash, as delta:./orders has)"
    elif of_spark:
        needs = f"only Spark has {of_spark[0]}"
    if asked == "delta" and needs is not None:
        text = f"{needs}: --engine delta cannot do that, and --engine spark can"
        raise OptionError(text)
    if asked == "spark":
        return Choice("spark", "--engine says so")
    if asked == "delta":
        return Choice("delta", "--engine says so")
    if needs is not None:
        return Choice("spark", needs)
    if has_delta:
        return Choice("delta", "the target is a Delta table at a path")
    if has_spark:
        return Choice("spark", "deltalake is not installed")
    raise OptionError(
        "a Delta table at a path needs pip install 'walrow[delta]', or with Spark and Java, "
        "'walrow[spark]'"
    )


def only_spark(features: Iterable[str]) -> tuple[str, ...]:
    """The features that deltalake does not write: only Spark does."""
    return tuple(sorted(set(features) - _BOTH))


#: Features that deltalake reads and writes right, each tried against Spark.
_BOTH = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
    }
)
