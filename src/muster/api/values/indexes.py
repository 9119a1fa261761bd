"""Sets of completion indexes in the notation of a Job's status: `0,2-4,7,8`.

The runs of `Indexes` ascend, do not touch and are not empty. So equal sets are equal values, and the text of a set is
unique. The cost grows with the number of runs, not of indexes: 100,000 succeeded indexes are one run.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property

from msgspec import Struct

Run = tuple[int, int]  # the first and the last index, which are both in the set

# Longer digit strings cannot be an index (the API allows 100,000) and are not worth parsing.
_MAX_DIGITS = 9


class Indexes(Struct, frozen=True, dict=True):
    """An immutable set of non-negative integers, stored as runs."""

    runs: tuple[Run, ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> "Indexes":
        """Return the set of some integers, which may be unordered and repeated."""
        return cls(_join_runs((index, index) for index in sorted(set(indexes))))

    @classmethod
    def parse(cls, text: str, limit: int) -> "Indexes":
        """Parse the indexes below `limit` in a status. Invalid parts are ignored.

        A controller cannot refuse an existing status, so the work of ignored indexes is done again. The validation of
        specs has its own parser.
        """
        runs = (_parse_run(part, limit) for part in text.split(",")) if text else ()
        return cls(_join_runs(sorted(run for run in runs if run is not None)))

    def __str__(self) -> str:
        """Return the text of the set, as upstream writes it.

        A run of one index is `a`, of two `a,b`, of more `a-b`.
        """
        return ",".join(str(first) if first == last else f"{first}{'-' if last - first > 1 else ','}{last}"
                        for first, last in self.runs)  # fmt: skip

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __contains__(self, index: int) -> bool:
        at = bisect_right(self._firsts, index) - 1
        return at >= 0 and index <= self.runs[at][1]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.runs:
            yield from range(first, last + 1)

    def __or__(self, other: "Indexes") -> "Indexes":
        if not self.runs or not other.runs:
            return self if self.runs else other
        return Indexes(_join_runs(sorted((*self.runs, *other.runs))))

    def __sub__(self, other: "Indexes") -> "Indexes":
        runs: list[Run] = []
        for first, last in self.runs:
            start = first
            for cut_first, cut_last in other.runs[max(bisect_right(other._firsts, first) - 1, 0) :]:
                if cut_first > last:
                    break
                if cut_first > start:
                    runs.append((start, cut_first - 1))
                start = max(start, cut_last + 1)
            if start <= last:
                runs.append((start, last))
        return Indexes(tuple(runs))

    def __and__(self, other: "Indexes") -> "Indexes":
        return self - (self - other)

    def overlap(self, other: "Indexes") -> int:
        """Return how many indexes are in both sets."""
        count = here = there = 0
        while here < len(self.runs) and there < len(other.runs):
            (first, last), (other_first, other_last) = self.runs[here], other.runs[there]
            count += max(0, min(last, other_last) - max(first, other_first) + 1)
            here, there = here + (last <= other_last), there + (other_last <= last)
        return count

    def lowest_missing(self, count: int, limit: int) -> list[int]:
        """Return the lowest `count` integers below `limit` that are not in the set, or fewer if there are fewer."""
        missing: list[int] = []
        start = 0
        for first, last in (*self.runs, (limit, limit)):
            if len(missing) >= count or start >= limit:
                break
            missing.extend(range(start, min(first, limit, start + count - len(missing))))
            start = last + 1
        return missing

    @cached_property
    def _firsts(self) -> list[int]:
        return [first for first, _ in self.runs]

    @cached_property
    def _size(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)


def _parse_run(part: str, limit: int) -> Run | None:
    first_text, dash, last_text = part.partition("-")
    first = _parse_index(first_text)
    last = _parse_index(last_text) if dash else first
    if first is None or last is None or last < first or first >= limit:
        return None
    return first, min(last, limit - 1)


def _parse_index(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def _join_runs(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return ascending runs, with touching or overlapping ones merged."""
    joined: list[Run] = []
    for first, last in runs:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return tuple(joined)
