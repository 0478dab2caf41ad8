"""Rounds: each parser has its turn in each of them, so that noise meets all alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from peer_harness import Harness, HarnessError, differences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from peer_harness import Counts

#: A parser that takes longer than this has one pass a round.
SLOW_NS = 1_000_000_000


class CountsDifferError(Exception):
    """Two parsers find different things in a capture."""


@dataclass
class Measured:
    """A parser's passes over a capture.

    Args:
        rounds: For each round, the nanoseconds of its passes.
    """

    rounds: list[list[int]] = field(default_factory=list)

    @property
    def minimum(self) -> int:
        """Nanoseconds of the fastest pass: noise only ever adds."""
        return min(min(each) for each in self.rounds)

    @property
    def median(self) -> float:
        """Nanoseconds of the median pass."""
        return median(ns for each in self.rounds for ns in each)

    def ratio_of_minima(self, base: Measured) -> float:
        """How many times as long as another parser."""
        return self.minimum / base.minimum

    def median_ratio(self, base: Measured) -> float:
        """The median of the rounds' ratios, each of the round's fastest passes."""
        pairs = zip(self.rounds, base.rounds, strict=True)
        return median(min(own) / min(other) for own, other in pairs)


def compare_counts(
    capture: Path, harnesses: Mapping[str, Harness], reference: str
) -> tuple[dict[str, Counts], dict[str, str]]:
    """Counts a capture with each harness, all against the reference.

    Returns:
        The counts, and for each harness that cannot read the capture, its error.

    Raises:
        CountsDifferError: Two parsers differ. The error names both.
    """
    counts: dict[str, Counts] = {}
    failed: dict[str, str] = {}
    for name in [reference, *(it for it in harnesses if it != reference)]:
        try:
            harnesses[name].load(capture)
            counts[name] = harnesses[name].count()
        except HarnessError as error:
            if name == reference:
                raise
            failed[name] = str(error)
            continue
        found = differences(reference, counts[reference], name, counts[name])
        if found:
            raise CountsDifferError(f"{capture.name}: " + "; ".join(found))
    return counts, failed


def measure(
    harnesses: Sequence[Harness], rounds: int, passes: int
) -> dict[str, Measured]:
    """Has each harness parse its capture, in turns.

    Args:
        harnesses: Each has loaded the capture.
        rounds: How often each has its turn, after one pass that does not count.
        passes: How often it parses in a turn; once if it is slow.

    Raises:
        HarnessError: A parser failed, or two passes gave different numbers of results.
    """
    warm = {harness.name: harness.run() for harness in harnesses}
    measured = {name: Measured() for name in warm}
    for _ in range(rounds):
        for harness in harnesses:
            expected = warm[harness.name]
            turn = []
            for _ in range(passes if expected.ns < SLOW_NS else 1):
                ns, items = harness.run()
                if items != expected.items:
                    message = (
                        f"{harness.name} gave {items} results after {expected.items}"
                    )
                    raise HarnessError(message)
                turn.append(ns)
            measured[harness.name].rounds.append(turn)
    return measured
