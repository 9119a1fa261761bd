"""Chooses the slice of a JobSet's Jobs that one decision creates, changes or deletes.

A slice is bounded, so that other JobSets have their turns before the next one. Jobs whose writes the server refuses
come after all others, the most often refused last, so that they do not keep other Jobs from being tried.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

MAX_JOBS = 500

T = TypeVar("T")


class Rest(NamedTuple):
    """The Jobs that one slice of the work leaves to the next. has_new: whether some of them were never refused."""

    is_empty: bool
    has_new: bool


def take_slice(
    things: Iterable[T], name_of: Callable[[T], str], refused: Mapping[str, int]
) -> tuple[tuple[T, ...], Rest]:
    """Return at most `MAX_JOBS` things, and the rest.

    name_of: the name of the Job that a thing concerns. refused: how often in a row the server refused a Job, by name.
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
