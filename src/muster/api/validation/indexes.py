"""The rules of texts with completion indexes, such as `0,2-4`."""

import re
from collections.abc import Iterator

_INTEGER = re.compile(r"[+]?[0-9]{1,18}", re.ASCII)


class IndexesError(ValueError):
    """A text with invalid or unordered completion indexes. The message is the API server's."""


def count(text: str, completions: int) -> int:
    """Return the number of indexes in a text.

    Raises:
        IndexesError: the text is invalid.
    """
    total = 0
    previous: int | None = None
    for first, last in _parse_runs(text, completions):
        if previous is not None and previous >= first:
            raise IndexesError(f"non-increasing order, previous: {previous}, current: {first}")
        total += last - first + 1
        previous = last
    return total


def first_overlap(completed: str, failed: str, completions: int) -> int | None:
    """Return the lowest index in both texts; None if there is none. Invalid parts are ignored: `count` reports them.

    completed, failed: indexes as text, such as `1-3,5`.
    """
    runs = [_parse_valid_runs(text, completions) for text in (completed, failed)]
    left, right = next(runs[0], None), next(runs[1], None)
    while left is not None and right is not None:
        if left[0] <= right[1] and right[0] <= left[1]:
            return max(left[0], right[0])
        if left[0] <= right[0]:
            left = next(runs[0], None)
        else:
            right = next(runs[1], None)
    return None


def _parse_runs(text: str, completions: int) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        yield _run(part, completions)


def _parse_valid_runs(text: str, completions: int) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        try:
            run = _run(part, completions)
        except IndexesError:
            continue
        yield run


def _run(part: str, completions: int) -> tuple[int, int]:
    ends = part.split("-")
    if len(ends) > 2:
        rule = "the requirement that an index interval can have at most two parts separated by '-'"
        raise IndexesError(f'the fragment "{part}" violates {rule}')
    numbers = [_parse_index(end, completions) for end in ends]
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise IndexesError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def _parse_index(text: str, completions: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise IndexesError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise IndexesError(f'too large index: "{text}"')
    return int(text)
