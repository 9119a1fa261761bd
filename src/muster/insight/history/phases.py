"""Divide the life of a job into consecutive phases: it waits for quota, then for nodes, starts, and runs. Pure.

A manager does not record when a job starts in a worker cluster, so the job's time there is one phase.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from muster.insight.history.life import Life, Moment

PhaseName: TypeAlias = Literal["quota", "nodes", "elsewhere", "starting", "running", "stopping"]

TITLES: Final[Mapping[PhaseName, str]] = {
    "quota": "waits for quota",
    "nodes": "waits for nodes",
    "elsewhere": "is in another cluster",
    "starting": "starts",
    "running": "runs",
    "stopping": "gives its place back",
}

# The phase that begins with a decision. Decisions about further pods of a running job begin none.
_BEGUN_BY: Final[Mapping[str, PhaseName]] = {
    "Submitted": "quota",
    "Waiting": "quota",
    "QuotaReserved": "nodes",
    "Unplaced": "nodes",
    "Placed": "starting",
    "Dispatched": "elsewhere",
    "Started": "running",
    "Preempted": "stopping",
    "Evicted": "quota",
    "Recalled": "quota",
    "Restarted": "nodes",
}
# Decisions about growth, repair and resources of a job that holds nodes already.
_OF_MORE_PODS = ("QuotaReserved", "Unplaced", "Placed", "Waiting")
_OF_QUOTA = ("Waiting", "QuotaReserved")


class Phase(Struct, frozen=True):
    """A part of a job's life, such as waiting or running.

    end: when it ended; None if it has not ended.
    """

    name: PhaseName
    start: datetime
    end: datetime | None

    @property
    def title(self) -> str:
        """The name of the phase, as users see it."""
        return TITLES[self.name]


def list_phases(life: Life) -> list[Phase]:
    """Return the phases of a job's life, in order. A phase that began at an unknown time is left out."""
    phases: list[tuple[PhaseName, datetime]] = []
    end = life.facts.ended
    needs_quota = bool(life.facts.queue) or any(moment.what in _OF_QUOTA for moment in life.moments)
    for moment in life.moments:
        phase = _find_phase(moment, phases)
        if phase == "quota" and not needs_quota:
            phase = "nodes"
        if phase is not None and (not phases or phases[-1][0] != phase):
            phases.append((phase, moment.at))
    return [_make_phase(number, phases, end) for number in range(len(phases))]


def _find_phase(moment: Moment, before: Sequence[tuple[PhaseName, datetime]]) -> PhaseName | None:
    now = before[-1][0] if before else None
    if now == "running" and moment.what in _OF_MORE_PODS:
        return None
    if now in ("starting", "elsewhere") and moment.what in ("QuotaReserved", "Waiting"):
        return None
    return _BEGUN_BY.get(moment.what)


def _make_phase(number: int, phases: Sequence[tuple[PhaseName, datetime]], end: datetime | None) -> Phase:
    name, start = phases[number]
    following = phases[number + 1] if number + 1 < len(phases) else None
    until = following[1] if following is not None else end
    if name == "starting" and until is not None and (following is None or following[0] != "running"):
        name = "running"  # only the last start is known; pods that had nodes before are assumed to have run
    return Phase(name, start, max(until, start) if until is not None else None)
