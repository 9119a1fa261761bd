"""Sweeps: Indexed Jobs whose pods are independent trials, and Muster's annotations of them.

The trial with the completion index *k* has the *k*-th index of the Job's array, counted from 0, and in a grid the
values that this index stands for.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain, islice
from math import prod
from typing import Self

import msgspec
from msgspec.structs import force_setattr

from muster.api.values.indexes import Indexes

# The annotation of a Job with the indexes of its trials (`0-99`, `1,3,5` or `0-99:10`), and `%8` to limit the trials
# that run at the same time.
ARRAY_ANNOTATION = "muster.dev/array"

# The annotation of a Job with the values of its grid by variable, as JSON. The last variable changes fastest.
GRID_ANNOTATION = "muster.dev/grid"

# The annotation of a Job with the name of the Job whose trials it repeats.
RETRY_ANNOTATION = "muster.dev/retry-of"

# The annotation of a Job with the completion indexes of trials that a user cancelled, written as `failedIndexes` is.
CANCELLED_ANNOTATION = "muster.dev/cancelled-indexes"

# The API accepts Jobs with more indexes only if few of them run at the same time.
MOST_TRIALS = 100_000

# A variable or argument of a program has at most 128 KiB.
_LONGEST_TEXT = 100_000
_MOST_DIGITS = 9
_QUOTED = 40

_PART = r"(?a)(\d+)(?:-(\d+)(?::(\d+))?)?"
_NAME = r"[A-Za-z][A-Za-z0-9_]*"

# The variables that a grid may not set, because its shell or the trial needs them.
_TAKEN = {"IFS", "PATH", "ENV", "JOB_COMPLETION_INDEX"}


class Array(msgspec.Struct, frozen=True):
    """The indexes of a sweep's trials, in the order of their completion indexes.

    runs: non-empty ranges that do not overlap.
    """

    runs: tuple[range, ...]
    _ends: tuple[int, ...] = ()  # the first completion index after each run

    def __post_init__(self) -> None:
        force_setattr(self, "_ends", tuple(accumulate(map(len, self.runs))))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `0-7`, `1,3,5`, `0-99:10`, or several of them.

        Raises:
            ValueError: the text is invalid; the message says why.
        """
        if len(text) > _LONGEST_TEXT:
            raise ValueError(f"{_quote_value(text)} is longer than {_LONGEST_TEXT} characters")
        array = cls(tuple(map(_run, text.split(","))))
        if (size := sum(map(len, array.runs))) > MOST_TRIALS:
            raise ValueError(f"{_quote_value(text)} has {size} trials, and a job has at most {MOST_TRIALS}")
        seen: set[int] = set()
        for run in array.runs:
            if twice := seen.intersection(run):
                raise ValueError(f"{_quote_value(text)} has {min(twice)} twice")
            seen.update(run)
        return array

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Self:
        """Create an array of ascending indexes."""
        runs: list[range] = []
        for index in indexes:
            if runs and runs[-1].stop == index:
                runs[-1] = range(runs[-1].start, index + 1)
            else:
                runs.append(range(index, index + 1))
        return cls(tuple(runs))

    @property
    def is_plain(self) -> bool:
        """Whether each trial's index equals its completion index: the indexes are 0 to N-1."""
        return len(self.runs) == 1 and self.runs[0] == range(len(self))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, completion: int) -> int:
        """Return the index of the trial with this completion index."""
        at = bisect_right(self._ends, completion)
        return self.runs[at][completion - self._ends[at]]  # counted from the end of its run

    def __iter__(self) -> Iterator[int]:
        return chain(*self.runs)

    def completion(self, index: int) -> int | None:
        """Return the completion index of the trial with this index; None if there is none."""
        before = 0
        for run in self.runs:
            if index in run:
                return before + run.index(index)
            before += len(run)
        return None

    def __str__(self) -> str:
        return ",".join(map(_render_run, self.runs))


def _run(part: str) -> range:
    match = re.fullmatch(_PART, part)
    if match is None:
        raise ValueError(f"{_quote_value(part)} is neither an index nor a range, as 0-7, 1,3,5 or 0-99:10")
    if any(len(number or "") > _MOST_DIGITS for number in match.groups()):
        raise ValueError(f"{_quote_value(part)}: an index has at most {_MOST_DIGITS} digits")
    first = int(match[1])
    last, step = int(match[2] or first), int(match[3] or 1)
    if first > last:
        raise ValueError(f"{part}: the range ends before it begins; say {last}-{first}")
    if step == 0:
        raise ValueError(f"{part}: a step is at least 1")
    run = range(first, last + 1, step)
    return range(first, run[-1] + 1, step)  # the last step may not reach the end of the run


def _render_run(run: range) -> str:
    if len(run) == 1:
        return str(run[0])
    return f"{run[0]}-{run[-1]}" + (f":{run.step}" if run.step > 1 else "")


def _quote_value(text: str) -> str:
    return repr(text) if len(text) <= _QUOTED else f"{text[:_QUOTED]!r}..."


class Grid(msgspec.Struct, frozen=True):
    """The variables of a sweep, each with its values.

    Index 0 stands for the first value of each variable. From index to index the last variable changes fastest.
    """

    axes: Mapping[str, tuple[str, ...]]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Parse texts of the form `NAME=VALUE,VALUE...`.

        Raises:
            ValueError: a text is invalid; the message says why.
        """
        axes: dict[str, tuple[str, ...]] = {}
        for text in texts:
            name, is_, values = text.partition("=")
            if not is_:
                raise ValueError(f"{_quote_value(text)} is not NAME=VALUE,VALUE..., as lr=0.1,0.01")
            if not re.fullmatch(_NAME, name):
                raise ValueError(f"{_quote_value(name)} is no name of a variable, as lr in lr=0.1,0.01")
            if name.startswith("MUSTER_") or name in _TAKEN:
                raise ValueError(f"each trial needs its own {name}: give the variable of the grid another name")
            if name in axes:
                raise ValueError(f"{name} is given twice")
            axes[name] = tuple(values.split(","))
            if "" in axes[name]:
                raise ValueError(f"{_quote_value(text)}: a value of {name} is empty")
            if len(set(axes[name])) < len(axes[name]):
                raise ValueError(f"{_quote_value(text)}: {name} has a value twice")
        grid = cls(axes)
        if len(grid) > MOST_TRIALS:
            raise ValueError(f"{len(grid)} combinations, and a job has at most {MOST_TRIALS} trials")
        if len(str(grid)) > _LONGEST_TEXT:
            raise ValueError(f"its values are longer than {_LONGEST_TEXT} characters")
        return grid

    def __len__(self) -> int:
        return prod(map(len, self.axes.values()))

    def values(self, index: int) -> dict[str, str]:
        """Return the value of each variable in the trial with this index. Indexes beyond the grid wrap around."""
        trial_values = {}
        for name, stride in self.strides().items():
            values = self.axes[name]
            trial_values[name] = values[index // stride % len(values)]
        return trial_values

    def strides(self) -> dict[str, int]:
        """Return, by variable, for how many consecutive indexes the value stays the same."""
        sizes = [*map(len, self.axes.values())]
        return {name: prod(islice(sizes, at + 1, None)) for at, name in enumerate(self.axes)}

    def __str__(self) -> str:
        return msgspec.json.encode(self.axes).decode()


def array_of(annotations: Mapping[str, str], completions: int | None) -> Array | None:
    """Return the indexes of a Job's trials; None if it is no sweep, or if its annotation does not fit."""
    if ARRAY_ANNOTATION not in annotations:
        return None
    try:
        array = Array.parse(annotations[ARRAY_ANNOTATION].partition("%")[0])
    except ValueError:
        return None
    return array if len(array) == completions else None


def cancelled_of(annotations: Mapping[str, str], completions: int) -> Indexes:
    """Return the completion indexes of the trials that a user cancelled."""
    return Indexes.parse(annotations.get(CANCELLED_ANNOTATION, ""), completions)


def grid_of(annotations: Mapping[str, str]) -> Grid | None:
    """Return the grid of a Job's trials; None if it has no valid one."""
    try:
        axes = msgspec.json.decode(annotations.get(GRID_ANNOTATION, ""), type=dict[str, tuple[str, ...]])
    except msgspec.DecodeError:
        return None
    return Grid(axes) if all(axes.values()) else None
