"""Estimate a mean from a few values, with a confidence interval from Student's t distribution. Pure."""

from collections.abc import Sequence
from functools import cache
from math import atan, cos, pi, sin, sqrt
from statistics import fmean, stdev

from msgspec import Struct

CONFIDENCE = 0.95
# The number of bisections in the search for a quantile, after which floating-point numbers no longer differ.
_HALVINGS = 100


class MeanEstimate(Struct, frozen=True):
    """The mean of some values, one per seed, with its confidence interval.

    low, high: the ends of the interval; None for a single value, which gives no interval.
    """

    mean: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "MeanEstimate":
        """Return the mean of some values, at least one, with its confidence interval."""
        mean = fmean(values)
        if len(values) < 2:
            return cls(mean, None, None)
        margin = find_quantile(CONFIDENCE, len(values) - 1) * stdev(values) / sqrt(len(values))
        return cls(mean, mean - margin, mean + margin)


@cache
def find_quantile(confidence: float, degrees: int) -> float:
    """Return the t for which a value of Student's distribution lies between -t and t with this probability."""
    low, high = 0.0, 1.0
    while _compute_share(high, degrees) < confidence:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _compute_share(middle, degrees) < confidence else (low, middle)
    return high


def _compute_share(t: float, degrees: int) -> float:
    """Return the probability of values from -t to t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = atan(t / sqrt(degrees))
    odd = degrees % 2
    term = cos(angle) if odd else 1.0
    total = 0.0
    for number in range(odd + 2, degrees + 1, 2):
        total += term
        term *= cos(angle) ** 2 * (number - 1) / number
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
