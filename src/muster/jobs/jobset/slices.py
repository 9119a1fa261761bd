"""Choose the slice of a JobSet's Jobs that one decision creates, changes or deletes.

A slice is bounded, so that other JobSets are reconciled before the next slice. Jobs whose writes the server refuses
come after all others, the most often refused last, so that they do not delay the other Jobs.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

MAX_JOBS = 500

T = TypeVar("T")


class Rest(NamedTuple):
    """The Jobs that are left for the next slice.

    has_new: whether some of these Jobs have never been refused by the server.
    """

    is_empty: bool
    has_new: bool


def take_slice(
    things: Iterable[T], name_of: Callable[[T], str], refused: Mapping[str, int]
) -> tuple[tuple[T, ...], Rest]:
    """Return the first `MAX_JOBS` items, and what is left for the next slice.

    Jobs that the server never refused come first, then the others, the least refused first.

    name_of: returns the name of the Job that an item concerns.
    refused: how many times in a row the server refused a Job, by name.
    """
    new: list[T] = []
    tried: list[T] = []
    for thing in things:
        if name_of(thing) in refused:
            tried.append(thing)
        elif len(new) == MAX_JOBS:
            return tuple(new), Rest(is_empty=False, has_new=True)
        else:
            new.append(thing)
    tried.sort(key=lambda thing: refused[name_of(thing)])
    is_empty = len(new) + len(tried) <= MAX_JOBS
    return (*new, *tried)[:MAX_JOBS], Rest(is_empty, has_new=False)
