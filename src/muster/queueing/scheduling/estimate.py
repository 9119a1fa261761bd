"""Estimate when a waiting workload will start, by simulating admission cycles into the future.

Workloads that hold quota end one after the other, by their time limit or by the usual run times of their queue. After
each end, the simulation runs a cycle. So the estimate follows every rule of quota, order and preemption.

Future submissions are unknown. The estimate has one of three certainties:

- sure: only time limits, which are enforced, precede the start, and no other workload is admitted before.
- likely: other workloads are admitted or evicted first, or the estimate rests on similar past run times.
- a guess: the estimate rests on past run times that differ widely, are few, or are already exceeded.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import IntEnum
from heapq import heappop, heappush
from statistics import fmean, median
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.kueue.names import MISCONFIGURED, SUSPENDED
from muster.queueing.model import FlavorSpec, WorkloadInfo
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling import cycle

# The maximum number of future ends that an estimate simulates.
MOST_ENDS = 2000
# The maximum number of consecutive cycles with changes, because workloads might preempt each other forever.
_MOST_CYCLES = 200

# A likely estimate needs at least this many past run times. The longest may be at most this many times the shortest.
_ENOUGH, _ALIKE = 3, 2.0

_NAMED = 3


class Certainty(IntEnum):
    """The certainty of an estimate."""

    NONE = 0
    GUESS = 1
    LIKELY = 2
    SURE = 3

    def __str__(self) -> str:
        return ("cannot say", "a guess", "likely", "sure")[self]


class RunTime(Struct, frozen=True):
    """The probable time for which a workload holds quota after it is admitted.

    limit: the time after which the workload is stopped; None if there is no limit.
    expected: the run time that its user expects, if that is sooner.
    recent: the run times of similar earlier runs.
    """

    limit: timedelta | None = None
    recent: tuple[timedelta, ...] = ()
    expected: timedelta | None = None


class StartEstimate(Struct, frozen=True):
    """The estimated start of a workload.

    at: the time; None if it cannot be estimated.
    because: the reason for the estimate, for users.
    """

    at: datetime | None
    certainty: Certainty
    because: str


class Step(NamedTuple):
    """A start or an end that a forecast expects.

    holder: the workload with the quota that it gets; None if it ends.
    """

    at: datetime
    key: str
    holder: WorkloadInfo | None


class _Rest(Struct, frozen=True):
    """How much longer a workload holds its quota, with the certainty and the reason."""

    time: timedelta
    certainty: Certainty
    because: str


def estimate_rest(run: RunTime, ran: timedelta, *, strict: bool = False) -> _Rest | None:
    """Return how much longer a workload that ran for the time `ran` holds its quota; None if its end is unknown.

    strict: whether no workload passes another in its queue, so that run times add up before a start. Then their mean is
    used. If others pass, a start follows few ends, and the median is used, which few long runs do not change.
    """
    limit = run.limit - ran if run.limit is not None else None
    longer = [time for time in run.recent if time > ran]
    usual: _Rest | None
    if run.expected is not None and run.expected > ran:
        usual = _Rest(run.expected - ran, Certainty.LIKELY, "as its user expects")
    elif longer:
        alike = len(run.recent) >= _ENOUGH and max(run.recent) <= _ALIKE * min(run.recent)
        middle = timedelta(seconds=(fmean if strict else median)([time.total_seconds() for time in longer]))
        usual = _Rest(middle - ran, Certainty.LIKELY if alike else Certainty.GUESS, "as those before it")
    elif run.recent:
        # The workload has run longer than all earlier runs, so the best guess is that it runs as long again.
        usual = _Rest(ran, Certainty.GUESS, "though it runs longer than those before it")
    elif limit is None:
        return None
    else:
        usual = None
    if limit is not None and (usual is None or limit <= usual.time):
        return _Rest(max(limit, timedelta()), Certainty.SURE, "by its time limit")
    return usual


class StartForecast(Struct):
    """A simulation of admission cycles, which runs only until the requested starts are known.

    It changes the tree and the queues, so pass copies.

    runs: the run times of all workloads whose end can be estimated, running or waiting, by key.
    names: the names of workloads in messages, by key.
    steps: the starts and the ends so far, the oldest first; a caller may drop steps that it has read.
    ends: the expected end of each workload that has held quota, by key; None if its end is unknown. A caller that drops
    the step of an end may forget the end, too.
    preempts: whether a workload has been preempted.
    latest: the workload that started last in the latest cycle; None if none did.
    passed_ends: how many ends the simulation has passed, without the forgotten ones.
    """

    tree: Tree
    queues: Queues
    flavors: Mapping[str, FlavorSpec]
    runs: Mapping[str, RunTime]
    now: datetime
    settings: cycle.AdmissionSettings
    names: Mapping[str, str]
    steps: deque[Step] = field(default_factory=deque)
    ends: dict[str, datetime | None] = field(default_factory=dict)
    preempts: bool = False
    latest: WorkloadInfo | None = None
    passed_ends: int = 0
    _certainty: Certainty = Certainty.SURE
    _because: str = "there is room for it"
    _estimates: dict[str, StartEstimate] = field(default_factory=dict)  # by key of a workload that started
    _takeovers: dict[str, str] = field(default_factory=dict)  # by key of a preemptor: a reason that names its victims
    _next_ends: list[tuple[datetime, str, datetime | None, _Rest]] = field(default_factory=list)
    _cycles: int = 0  # at the current time of the simulation
    _may_admit: bool = True  # whether another cycle at this time may change something

    def __post_init__(self) -> None:
        for node in self.tree.queues.values():
            for holder in node.workloads.values():
                self._expect_end(holder)

    def estimate(self, keys: Iterable[str]) -> dict[str, StartEstimate]:
        """Return, by key, when each of these workloads is expected to get quota.

        Later calls continue the simulation.
        """
        wanted = [*keys]
        unknown = set(wanted) - self._estimates.keys()
        while unknown and self._advance():
            unknown -= self._estimates.keys()
        return {key: self._estimates.get(key) or self._explain_unknown(key) for key in wanted}

    def add(self, workload: WorkloadInfo) -> None:
        """Add a waiting workload, and try it at the current time of the simulation."""
        self.queues.add(workload)
        self._may_admit = self._may_admit or bool(self.queues.untried)

    def has_reached(self, moment: datetime) -> bool:
        """Return whether the simulation expects no further event up to and including this time."""
        if self.now >= moment:
            return True
        end = self._find_next_end()
        return not self._may_admit and (end is None or end[0] > moment)

    def forget_end(self, key: str) -> None:
        """Drop the records of a workload whose expected end has happened. The end no longer counts as passed."""
        self.passed_ends -= 1
        del self.ends[key]
        self._estimates.pop(key, None)  # a workload that held quota from the beginning has none

    def find_end(self, holder: WorkloadInfo, now: datetime) -> datetime | None:
        """Return when a workload that holds quota now is expected to end; None if its end is unknown."""
        rest = self._find_rest(holder, now)
        return now + rest.time if rest is not None else None

    def _advance(self) -> bool:
        """Run the next cycle. Return False if there is none, or if the estimate simulates no further."""
        if not self._may_admit:
            if self.passed_ends == MOST_ENDS or not self._pass_time():
                return False
            self.passed_ends += 1
            self._cycles = 0
        outcome = cycle.run(self.tree, self.queues, self.flavors, self.settings, self.now)
        for preemption in outcome.preemptions:
            self._preempt(preemption)
        self.preempts = self.preempts or bool(outcome.preemptions)
        self.latest = outcome.admitted[-1].workload if outcome.admitted else None
        for admission in outcome.admitted:
            self._note_start(admission.workload.key)
            self.steps.append(Step(self.now, admission.workload.key, admission.workload))
            self._certainty = min(self._certainty, Certainty.LIKELY)
            self._expect_end(admission.workload)
        self._cycles += 1
        self._may_admit = bool(outcome.preemptions or self.queues.untried) and self._cycles < _MOST_CYCLES
        return True

    def _note_start(self, key: str) -> None:
        """Record the estimate of a workload that starts now, unless it has started before."""
        takeover = self._takeovers.pop(key, None)
        if key in self._estimates:
            return
        certainty = self._certainty if takeover is None else min(self._certainty, Certainty.LIKELY)
        self._estimates[key] = StartEstimate(self.now, certainty, takeover or self._because)

    def _explain_unknown(self, key: str) -> StartEstimate:
        """Return why the simulation has not found the start of a workload."""
        late = f"more than {MOST_ENDS} others have to end before"
        because = late if self.passed_ends == MOST_ENDS else self._explain_stuck(key)
        return StartEstimate(None, Certainty.NONE, because)

    def _preempt(self, preemption: cycle.CyclePreemption) -> None:
        """Free the quota of the victims at once, and put them back into their queues."""
        victims = [victim.workload for victim in preemption.victims]
        if preemption.workload.key not in self._estimates:
            because = f"it takes the place of {self._join_names([victim.key for victim in victims])}"
            self._takeovers[preemption.workload.key] = because
        for victim in victims:
            self._release(victim)
            self.queues.add(replace(victim, usage=None, reserved=None, evicted=False, places=()))

    def _expect_end(self, holder: WorkloadInfo) -> None:
        rest = self._find_rest(holder, self.now)
        self.ends[holder.key] = None if rest is None else self.now + rest.time
        if rest is not None:
            heappush(self._next_ends, (self.now + rest.time, holder.key, holder.reserved, rest))

    def _find_rest(self, holder: WorkloadInfo, now: datetime) -> _Rest | None:
        """Return how much longer a workload holds its quota from now on; None if its end is unknown."""
        if holder.evicted:
            return _Rest(timedelta(), Certainty.LIKELY, "as it is evicted")
        ran = now - holder.reserved if holder.reserved is not None else timedelta()
        strict = self.tree.queues[holder.queue].policy.strict
        return estimate_rest(self.runs.get(holder.key, RunTime()), max(ran, timedelta()), strict=strict)

    def _pass_time(self) -> bool:
        """Advance to the next end of a workload, whose quota is then free, or to the next end of a backoff.

        Return False if there is neither. At the end of its backoff, a workload is tried again.
        """
        wake = self.queues.next_wake
        end = self._find_next_end()
        if end is None or (wake is not None and wake < end[0]):
            if wake is None:
                return False
            self.now = wake
            return True
        at, key, _, rest = heappop(self._next_ends)
        holder = self.tree.holder(key)
        assert holder is not None, "only the ends of holders are next"
        self.now = max(at, self.now)
        self._certainty = min(self._certainty, rest.certainty)
        self._because = f"{self.names.get(key, key)} ends then, {rest.because}"
        self._takeovers = dict.fromkeys(self._takeovers, "")
        self._release(holder)
        self.queues.forgive(self.tree.queues[holder.queue])
        self.steps.append(Step(self.now, key, None))
        return True

    def _release(self, holder: WorkloadInfo) -> None:
        """Free the quota and the topology domains of a workload, and wake the workloads that this could help."""
        self.tree.release(holder)
        self.queues.flush(self.tree.queues[holder.queue], holder.usage)
        if holder.places:
            self.queues.flush_places()

    def _find_next_end(self) -> tuple[datetime, str, datetime | None, _Rest] | None:
        """Return the earliest expected end of a workload that still holds its quota; None if there is none.

        The result has the time of the end, the workload's key, since when it holds quota, and how much longer it holds
        it.
        """
        while self._next_ends:
            _, key, since, _ = self._next_ends[0]
            holder = self.tree.holder(key)
            if holder is not None and holder.reserved == since:
                return self._next_ends[0]
            heappop(self._next_ends)
        return None

    def _explain_stuck(self, key: str) -> str:
        """Return why the workload waits although no other workload is expected to end."""
        why = self.queues.why(key)
        if why is not None and why.reason in (SUSPENDED, MISCONFIGURED):
            return why.message
        holders = sorted(key for node in self.tree.queues.values() for key in node.workloads)
        if holders:
            return f"nothing says when {self._join_names(holders)} {'ends' if len(holders) == 1 else 'end'}"
        return f"it does not fit even if nothing else runs{f': {why.message}' if why is not None else ''}"

    def _join_names(self, keys: list[str]) -> str:
        """Return the names of the first few workloads, and how many more there are."""
        more = len(keys) - _NAMED
        names = (self.names.get(key, key) for key in keys[:_NAMED])
        return ", ".join(names) + (f" and {more} more" if more > 0 else "")
