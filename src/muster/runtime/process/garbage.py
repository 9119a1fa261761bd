"""Keeps Python's garbage collector away from the many objects that stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Collections of a big heap cost more than they free: what is there after the start stays, and the rest is looked at
# rarely (measured: unrelated code runs 3.5 times slower beside 5,000 pods with Python's own thresholds). The young are
# looked at a few at a time: all that came since the last look is one pause (measured: a million objects, 0.5 s).
_THRESHOLDS = (10_000, 5, 2_000)


def settle() -> None:
    """What this process holds now stays, and is not looked at again."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage is looked for inside: in a big decode there is none, and looking would double the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
