"""Average step functions over regular bins of time. Pure."""

from msgspec import Struct

from muster.gang import arrays as np
from muster.gang.arrays import Floats, Ints

# The maximum number of bins of a timeline; charts draw each of them.
MOST_BINS = 750
_WIDTHS = (1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 86_400, 604_800)


class Bins(Struct, frozen=True):
    """Regular intervals of time, in seconds from the start.

    edges: the limits of the bins, one more than there are bins; the last bin may be shorter.
    """

    width: float
    edges: Floats

    def __len__(self) -> int:
        return len(self.edges) - 1

    @classmethod
    def cover(cls, seconds: float, most: int = MOST_BINS) -> "Bins":
        """Return the finest bins with a round width, such as 5 minutes, that cover this number of seconds.

        most: the maximum number of bins.
        """
        width = float(next((one for one in _WIDTHS if seconds <= one * most), _WIDTHS[-1]))
        while seconds > width * most:
            width *= 2
        count = int(-(-seconds // width))
        edges = np.arange(count + 1, dtype=np.float64) * width
        edges[-1] = min(edges[-1], seconds)
        return cls(width, edges)

    def find(self, times: Floats) -> Ints:
        """Return the index of the bin of each time. A time at the very end belongs to the last bin."""
        bins: Ints = np.clip((times // self.width).astype(np.int64), 0, len(self) - 1)
        return bins


def average_steps(bins: Bins, times: Floats, rows: Ints, amounts: Floats, count: int) -> Floats:
    """Return the mean of each amount in each bin: one row per amount.

    times, rows, amounts: the changes, in any order: the time, the index of the amount, and the difference.
    count: the number of amounts.
    """
    found = bins.find(times)
    cells = rows * len(bins) + found
    shape = (count, len(bins))
    size = count * len(bins)
    partial = np.bincount(cells, amounts * (bins.edges[found + 1] - times), size).reshape(shape)
    steps = np.bincount(cells, amounts, size).reshape(shape)
    before = np.cumsum(steps, axis=1) - steps
    means: Floats = before + partial / np.diff(bins.edges)
    return means


def sum_events(bins: Bins, times: Floats, rows: Ints, amounts: Floats, count: int) -> Floats:
    """Return the sum of the events in each bin: an array with `count` rows.

    times, rows, amounts: the time, the row and the amount of each event.
    """
    cells = rows * len(bins) + bins.find(times)
    sums = np.bincount(cells, amounts, count * len(bins)).reshape(count, len(bins))
    return sums.astype(np.float64)
