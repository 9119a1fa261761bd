"""Split the unbound pods of a gang by demand: first start, repair, growth, or next wave. Pure.

A gang that has not started has one demand: to start whole. A running gang has three separate demands:

- *repair*: members that the gang lost. The existing replacements are placed together, before every other gang, because
  a broken gang makes little use of its nodes. A repair does not wait for pods that are still to be created.
- *growth*: members that an elastic gang adds. All of them are placed together, as new demand of the gang's priority.
- *the next wave*: completions still to do, of a Job with more completions than parallelism. Each pod of a wave is
  placed alone, as new demand of the gang's priority.

Only the first start and a growth wait until all their pods exist. A gang whose repair finds no room neither grows nor
starts its next wave or stage.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Demand(StrEnum):
    """The reason why pods of a gang wait: its first start, a repair, growth, or the next wave."""

    START = "start"
    REPAIR = "repair"
    GROWTH = "growth"
    WAVE = "wave"


class Size(Struct, frozen=True):
    """The current and the desired size of a gang.

    wanted: the number of members that should run now.
    bound: the number of members that have a node.
    held: the number of members at the gang's last start or growth, including finished members that `done` counts.
    done: the number of finished completion indexes; 0 if members have no index.
    in_waves: whether the Job has more completions than parallelism, and its first wave has started.
    """

    wanted: int
    bound: int = 0
    held: int = 0
    done: int = 0
    in_waves: bool = False

    @property
    def lost_members(self) -> int:
        """The number of members that ran and no longer run."""
        return max(0, min(self.held - self.done, self.wanted) - self.bound)

    @property
    def growth(self) -> int:
        """The number of desired members that the gang has never had."""
        return max(0, self.wanted + self.done - max(self.held, self.done))


class Demands(Struct, Generic[T], frozen=True):
    """The unbound pods of a gang by demand, without the pods that wait for further pods to be created."""

    start: tuple[T, ...] = ()
    repair: tuple[T, ...] = ()
    growth: tuple[T, ...] = ()
    wave: tuple[T, ...] = ()


def split_demands(unbound: Sequence[T], size: Size, place: Callable[[T], int] | None = None) -> Demands[T]:
    """Split the unbound pods of a gang by demand.

    unbound: the pods that need a node, in the order in which they get one.
    place: returns the index of a pod in its gang, from 0; None if the gang's pods have no index.
    """
    pods = tuple(unbound)
    if size.in_waves:
        return Demands(wave=pods)
    if not size.bound:
        return Demands(start=pods if len(pods) >= size.wanted else ())
    if place is None:
        repair, growth = pods[: size.lost_members], pods[size.lost_members :]
    else:
        repair = tuple(pod for pod in pods if place(pod) < size.held)
        growth = tuple(pod for pod in pods if place(pod) >= size.held)
    return Demands(repair=repair, growth=growth if len(growth) >= size.growth else ())


def describe_demand(demand: Demand, pods: int) -> str:
    """Return a sentence that describes what a running gang with this number of waiting pods waits for.

    Returns "" if the gang has not started.
    """
    count = "1 pod" if pods == 1 else f"{pods} pods"
    match demand:
        case Demand.START:
            return ""
        case Demand.REPAIR:
            return f"The gang runs without {count} that it lost."
        case Demand.GROWTH:
            return f"The gang runs, and waits to grow by {count}."
        case Demand.WAVE:
            return "The job runs, and waits to start pods of its next wave."
