"""The features of Delta tables that each engine supports."""

from __future__ import annotations

from collections.abc import Iterable


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
