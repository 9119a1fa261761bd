"""Decide which broken gangs give up their nodes, and when. Pure.

A broken gang runs without members that it lost. It makes little use of its nodes, which others could use. Two rules
keep broken gangs from waiting forever for each other's nodes:

1. A broken gang that finds no room takes the nodes of broken gangs that come after it in the order of gangs, if that
completes it. Those gangs lose all their pods, and restart when there is room for all of them.
2. A broken gang that is not complete again before a timeout gives up all its nodes, and restarts in the same way.

A gang takes nodes only from gangs that come after it, and a gang that gave up its nodes is no longer broken. So no two
gangs take nodes from each other, and without new losses the process ends.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from muster.gang.order.preemption import Candidate

# A resistance that is lower than every pod priority.
_LEAST = -(2**31)


def make_rivals(behind: Iterable[Candidate]) -> list[Candidate]:
    """Return broken gangs as candidates that are preempted before all others, each as a whole, the last gang first.

    behind: the broken gangs that come after the gang to be completed, in order.
    """
    return [
        replace(gang, resistance=_LEAST - number, quorums=(), protected=0.0)
        for number, gang in enumerate(behind, start=1)
    ]


def gives_back_at(broken_since: float, timeout: float) -> float | None:
    """Return the time at which a broken gang gives up its nodes, in seconds; None for never, if `timeout` is 0."""
    return broken_since + timeout if timeout > 0 else None
