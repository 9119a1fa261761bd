"""Reduce the cost of Python's garbage collector: exclude long-lived objects, and pause it while many are created."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Collections of a big heap cost more than they free: objects that exist after the start are excluded, and others
# are collected rarely (measured: unrelated code runs 3.5 times slower beside 5,000 pods with Python's own thresholds).
# Young objects are collected a few at a time: collecting all at once is one pause (measured: a million objects, 0.5 s).
_THRESHOLDS = (10_000, 5, 2_000)


def settle() -> None:
    """Exclude all existing objects from garbage collection, because they live as long as the process."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector inside the `with` block, as for decoding many objects.

    Decoding creates no garbage, and collections would double its time. A collector that was off stays off.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
