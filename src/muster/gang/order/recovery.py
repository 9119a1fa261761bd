"""Decide which broken gangs give their nodes back, and when. Pure.

A broken gang runs without members that it lost. It makes little use of its nodes, which others could use. Two rules
keep broken gangs from waiting for each other's nodes for ever:

1. A broken gang that finds no room takes the nodes of broken gangs that come after it, if that makes it whole. Those
gangs lose all their pods, and restart when there is room for all of them.
2. A broken gang that is not whole again in time gives all its nodes back, and restarts likewise.

A gang takes only from gangs that come after it, and a gang that gave its nodes back is no longer broken. So no two
gangs take from each other, and without new losses the process ends.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from muster.gang.order.preemption import Candidate

# A resistance below every pod priority.
_LEAST = -(2**31)


def make_rivals(behind: Iterable[Candidate]) -> list[Candidate]:
    """Return broken gangs as candidates that are preempted before all others, the last gang first, each as a whole.

    behind: the broken gangs that come after the gang to be completed, in their order.
    """
    return [
        replace(gang, resistance=_LEAST - number, quorums=(), protected=0.0)
        for number, gang in enumerate(behind, start=1)
    ]


def gives_back_at(broken_since: float, timeout: float) -> float | None:
    """Return the time at which a broken gang gives its nodes back, in seconds; None if `timeout` is 0, for never."""
    return broken_since + timeout if timeout > 0 else None
