"""Search for victims in other orders, because the usual order of candidates found none.

Whether a candidate may be preempted depends on the earlier victims: a ClusterQueue that no longer borrows has no
candidates. So the usual order may free too little although another order suffices.

This search visits the sets of candidates that can be reached one allowed step at a time, each set once, and stops after
a fixed number of steps.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from muster.queueing.scheduling.preemption.candidates import AssumedAdmission, Victim

# The limit of steps for each head. A step tries a candidate, removes a victim or puts one back. It costs up to some
# tens of microseconds.
STEPS: Final = 400

_OUT_OF_STEPS: Final = "The search for workloads to preempt ended after {steps} steps without a result"
_LEFT_OUT: Final = "The search for workloads to preempt found none among {count} candidates, and left out the others"


class ThoroughSearch:
    """One search in a trial. All candidates hold quota at the start and, without success, at the end.

    may_take: returns whether a candidate may be preempted in the current state of the trial.
    fits: returns whether the workload fits.
    keep: returns the needed victims if it fits; empty if some of them may not be preempted without the others.
    left_out: whether there are more candidates than these.
    steps: the limit of steps.
    gave_up: a sentence if the steps were used up or candidates were left out, so that victims may exist nevertheless;
    else "".
    """

    def __init__(
        self,
        trial: AssumedAdmission,
        candidates: Sequence[Victim],
        may_take: Callable[[Victim], bool],
        fits: Callable[[], bool],
        keep: Callable[[], tuple[Victim, ...]],
        *,
        left_out: bool = False,
        steps: int = STEPS,
    ) -> None:
        self._trial = trial
        self._candidates = [(index, victim, _make_equivalence_key(victim)) for index, victim in enumerate(candidates)]
        self._may_take = may_take
        self._fits = fits
        self._keep = keep
        self._left_out = left_out
        self._steps = steps
        self._looks = 0
        self._moved = trial.moves
        self._visited: set[frozenset[int]] = set()
        self.gave_up = ""

    def run(self) -> tuple[Victim, ...]:
        """Return victims with which the workload fits; empty if the search finds none."""
        victims = self._extend(frozenset())
        if not victims:
            self._trial.retake(())
            if self._left_out and not self.gave_up:
                self.gave_up = _LEFT_OUT.format(count=len(self._candidates))
        return victims

    def _extend(self, indexes: frozenset[int]) -> tuple[Victim, ...]:
        tried: set[Hashable] = set()
        for index, victim, kind in self._candidates:
            if index in indexes or kind in tried:
                continue
            tried.add(kind)
            self._looks += 1
            if self._looks + self._trial.moves - self._moved > self._steps:
                self.gave_up = _OUT_OF_STEPS.format(steps=self._steps)
                return ()
            more = indexes | {index}
            if more in self._visited or not self._may_take(victim):
                continue
            self._visited.add(more)
            if (victims := self._take(victim, more)) or self.gave_up:
                return victims
        return ()

    def _take(self, victim: Victim, more: frozenset[int]) -> tuple[Victim, ...]:
        """Remove a victim, and search for further victims until the workload fits.

        Return all victims, or none if that fails. After a failure the victim is put back, unless the search gave up.
        """
        self._trial.take(victim)
        if not self._fits():
            victims = self._extend(more)
            if not victims and not self.gave_up:
                self._trial.undo()
            return victims
        before = self._trial.taken[:-1]
        victims = self._keep()
        if not victims:
            self._trial.retake(before)
        return victims


def _make_equivalence_key(victim: Victim) -> Hashable:
    """Return a value that is equal for equivalent candidates, of which only the first is tried."""
    workload = victim.workload
    if workload.places:
        return workload.key
    return workload.queue, victim.reason, tuple(sorted((workload.usage or {}).items()))
