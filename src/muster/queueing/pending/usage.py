"""Admission fair sharing: how much each LocalQueue used lately, which orders the LocalQueues of one ClusterQueue.

Usage decays: what was used one half-life ago counts half. Between two samples a LocalQueue is charged a penalty for
each workload at its admission, so that it cannot have everything admitted before its usage is seen; once the workload's
reservation is accounted for, the penalty has become part of what was consumed. Amounts are those of
`api.quantity.amount`; they are floats here, for only their order matters and nothing is admitted by them.

The rules are Kueue's (KEP-4136 admission fair sharing).
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct, field

_CPU = "cpu"


class Decay(Struct, frozen=True):
    """The settings.

    half_life: after which usage counts half; 0: the past never fades, and nothing is added to it.
    sampling: how often usage is taken. weights: of resources, 1 where there is none.
    """

    half_life: timedelta
    sampling: timedelta = timedelta(minutes=5)
    weights: Mapping[str, float] = field(default_factory=dict)

    def kept(self, elapsed: timedelta) -> float:
        """How much of the past still counts after that time, from 1 to 0."""
        return math.pow(0.5, max(elapsed, timedelta()) / self.half_life) if self.half_life else 1.0

    def decayed(self, old: Mapping[str, float], current: Mapping[str, float], elapsed: timedelta) -> dict[str, float]:
        """What was consumed, at the end of a time in which `current` was in use."""
        kept = self.kept(elapsed)
        return _sum(_times(old, kept), _times(current, 1 - kept))

    def penalty(self, requests: Mapping[str, float]) -> dict[str, float]:
        """For the admission of a workload: as if it had run for one sampling interval."""
        return _times(requests, 1 - self.kept(self.sampling))

    def score(self, consumed: Mapping[str, float], weight: float) -> float:
        """One number for what was consumed, by the weight of the LocalQueue; who has no weight is last."""
        if weight <= 0:
            return math.inf
        # CPUs are kept in thousandths, and compared with bytes and pieces of other resources as whole ones.
        units = {resource: value / 1000 if resource == _CPU else value for resource, value in sorted(consumed.items())}
        return sum(self.weights.get(resource, 1.0) * value for resource, value in units.items()) / weight


class Account(Struct, frozen=True):
    """Of one LocalQueue.

    consumed: the decayed usage as of `updated`. penalties: of workloads whose reservation is not accounted for yet.
    """

    updated: datetime
    consumed: Mapping[str, float] = field(default_factory=dict)
    penalties: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def penalty(self) -> dict[str, float]:
        """All penalties together."""
        total: dict[str, float] = {}
        for penalty in self.penalties.values():
            total = _sum(total, penalty)
        return total

    @property
    def faded(self) -> bool:
        """Nothing is left that could be told from nothing."""
        return not self.penalties and not any(round(value) for value in self.consumed.values())


class Accounts:
    """Of all LocalQueues, by `namespace/name`. What is kept in their status restores them after a restart."""

    def __init__(self, decay: Decay) -> None:
        self._decay = decay
        self._accounts: dict[str, Account] = {}

    def get(self, local_queue: str) -> Account | None:
        """None if nothing is known of it."""
        return self._accounts.get(local_queue)

    def restore(self, local_queue: str, consumed: Mapping[str, float], updated: datetime) -> None:
        """What its status says was consumed, on top of what is known already."""
        known = self._accounts.get(local_queue, Account(updated))
        self._accounts[local_queue] = Account(
            max(known.updated, updated), _sum(known.consumed, consumed), known.penalties
        )

    def charge(self, local_queue: str, workload: str, requests: Mapping[str, float], now: datetime) -> None:
        """A workload got quota. The same one again replaces its penalty."""
        known = self._accounts.get(local_queue, Account(now))
        penalties = {**known.penalties, workload: self._decay.penalty(requests)}
        self._accounts[local_queue] = Account(known.updated, known.consumed, penalties)

    def refund(self, local_queue: str, workload: str) -> None:
        """It did not keep its quota long enough to be accounted for; nothing happens if it owes nothing."""
        known = self._accounts.get(local_queue)
        if known is not None and workload in known.penalties:
            self._accounts[local_queue] = Account(known.updated, known.consumed, _without(known.penalties, workload))

    def settle(self, local_queue: str, workload: str, current: Mapping[str, float], now: datetime) -> None:
        """The workload's reservation counts in the LocalQueue's usage (`current`): its penalty is consumed now."""
        known = self._accounts.get(local_queue)
        if known is not None and (penalty := known.penalties.get(workload)) is not None:
            consumed = self._decay.decayed(known.consumed, current, now - known.updated)
            self._accounts[local_queue] = Account(
                max(known.updated, now), _sum(consumed, penalty), _without(known.penalties, workload)
            )

    def sample(self, local_queue: str, current: Mapping[str, float], now: datetime) -> Account:
        """Account for what is in use (`current`) since the last time. A clock that goes back accounts for nothing."""
        known = self._accounts.get(local_queue, Account(now))
        consumed = self._decay.decayed(known.consumed, current, now - known.updated)
        account = Account(max(known.updated, now), consumed, known.penalties)
        self._accounts[local_queue] = account
        return account

    def forget(self, local_queue: str) -> None:
        """The LocalQueue is gone."""
        self._accounts.pop(local_queue, None)

    def score(self, local_queue: str, weight: float) -> float:
        """By which LocalQueues are ordered, the lowest first; who never used anything has 0."""
        known = self._accounts.get(local_queue)
        used = _sum(known.consumed, known.penalty) if known is not None else {}
        return self._decay.score(used, weight)


def _times(amounts: Mapping[str, float], factor: float) -> dict[str, float]:
    return {resource: value * factor for resource, value in amounts.items()}


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {resource: one.get(resource, 0.0) + other.get(resource, 0.0) for resource in {**one, **other}}


def _without(penalties: Mapping[str, Mapping[str, float]], workload: str) -> dict[str, Mapping[str, float]]:
    return {key: penalty for key, penalty in penalties.items() if key != workload}
