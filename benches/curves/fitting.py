"""How a cost grows: fits `fixed + unit * size ** exponent`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Exponents that are tried: 0.00 to 3.00.
_EXPONENTS = [step / 100 for step in range(301)]
#: A cost that grows less than this over the whole axis is constant.
_FLAT = 1.3
#: How far from 1 an exponent of a linear cost may be.
_TOLERANCE = 0.1


@dataclass(frozen=True)
class Fit:
    """How a cost grows with a size.

    Attributes:
        fixed: The cost of size 0.
        unit: The cost of one more, for an exponent of 1.
        exponent: 1 is linear, 2 is quadratic, 0 is constant.
        error: The largest relative distance of a point from the curve.
    """

    fixed: float
    unit: float
    exponent: float
    error: float

    @property
    def verdict(self) -> str:
        """One or two words: constant, less than linear, linear, more than linear."""
        if self.exponent < _TOLERANCE:
            return "constant"
        if self.exponent < 1 - _TOLERANCE:
            return "less than linear"
        if self.exponent <= 1 + _TOLERANCE:
            return "linear"
        return "more than linear"


def fit(sizes: Sequence[float], costs: Sequence[float]) -> Fit:
    """Finds the curve with the least relative errors.

    >>> fit([1, 10, 100], [7, 25, 205])
    Fit(fixed=5.0, unit=2.0, exponent=1.0, error=0.0)

    Args:
        sizes: Positive and different numbers, at least three.
        costs: A positive cost for each size.

    Returns:
        The curve, rounded to three places.

    Raises:
        ValueError: There are fewer than three points, or not as many costs as sizes.
    """
    if len(sizes) < _LEAST_POINTS:
        text = f"a fit needs {_LEAST_POINTS} points, not {len(sizes)}"
        raise ValueError(text)
    points = list(zip(sizes, costs, strict=True))
    if max(costs) < _FLAT * min(costs):
        mean = sum(costs) / len(costs)
        found = (mean, 0.0, 0.0)
    else:
        tried = [(*_line(points, exponent), exponent) for exponent in _EXPONENTS]
        found = min(tried, key=lambda it: sum(e * e for e in _errors(points, *it)))
    error = max(abs(e) for e in _errors(points, *found))
    fixed, unit, exponent = found
    return Fit(_rounded(fixed), _rounded(unit), exponent, round(error, 3))


_LEAST_POINTS = 3


def _line(
    points: Sequence[tuple[float, float]], exponent: float
) -> tuple[float, float]:
    """`fixed` and `unit`, neither below 0, with the least squares of relative errors."""
    # Divided by the cost, each point is fixed * a + unit * b = 1.
    rows = [(1 / cost, size**exponent / cost) for size, cost in points]
    aa, ab, bb = (
        sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1))
    )
    a, b = (sum(row[i] for row in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    if determinant > 1e-12 * aa * bb:
        fixed = (a * bb - b * ab) / determinant
        unit = (b * aa - a * ab) / determinant
        if fixed >= 0 and unit >= 0:
            return fixed, unit
    # A negative part is left out: the curve keeps the part that explains more.
    return (0.0, b / bb) if b * b / bb > a * a / aa else (a / aa, 0.0)


def _errors(
    points: Sequence[tuple[float, float]], fixed: float, unit: float, exponent: float
) -> list[float]:
    return [(fixed + unit * size**exponent) / cost - 1 for size, cost in points]


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")
