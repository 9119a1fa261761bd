"""Compute the recent usage of each LocalQueue, which orders the LocalQueues of one ClusterQueue.

Usage decays: after one half-life it counts half. Between two samples, each admission charges a penalty to the
LocalQueue. Otherwise a LocalQueue could have all its workloads admitted before the next sample. When the usage includes
the workload, consumption replaces its penalty.

Amounts have the units of `api.values.quantity.parse_amount`. They are floats here, because they only order queues and
admit nothing. The rules are Kueue's admission fair sharing (Kueue KEP-4136).
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, field

from muster.api.config.types import AdmissionFairSharing
from muster.api.values.durations import HOUR

_CPU = "cpu"

# The settings if only some queues request the order: a half-life of a week, as in Slurm.
ON_DEMAND: Final = AdmissionFairSharing(usage_half_life_time=7 * 24 * HOUR)


class Decay(Struct, frozen=True):
    """The settings by which past usage decays.

    half_life: the time after which usage counts half; with 0, past usage neither decays nor grows.
    sampling: how often usage is sampled.
    weights: the weights of resources, 1 by default.
    """

    half_life: timedelta
    sampling: timedelta = timedelta(minutes=5)
    weights: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, sharing: AdmissionFairSharing) -> "Decay":
        """Return the decay settings of a Configuration."""
        half_life = timedelta(microseconds=sharing.usage_half_life_time // 1000)
        sampling = timedelta(microseconds=sharing.usage_sampling_interval // 1000)
        return cls(half_life, sampling, sharing.resource_weights)

    def decay_factor(self, elapsed: timedelta) -> float:
        """Return the part of past usage that still counts after the time `elapsed`, from 1 to 0."""
        return math.pow(0.5, max(elapsed, timedelta()) / self.half_life) if self.half_life else 1.0

    def decay_usage(
        self, old: Mapping[str, float], current: Mapping[str, float], elapsed: timedelta
    ) -> dict[str, float]:
        """Return the consumed amounts after a period `elapsed` in which `current` was in use."""
        rest = self.decay_factor(elapsed)
        return _add_amounts(_multiply_amounts(old, rest), _multiply_amounts(current, 1 - rest))

    def penalty(self, requests: Mapping[str, float]) -> dict[str, float]:
        """Return the amounts to charge for an admission: the usage of the workload in one sampling interval."""
        return _multiply_amounts(requests, 1 - self.decay_factor(self.sampling))

    def score(self, consumed: Mapping[str, float], weight: float) -> float:
        """Return the weighted sum of the consumed amounts, divided by the weight of the LocalQueue.

        The score is infinite for weight 0, so that such a LocalQueue comes last.
        """
        if weight <= 0:
            return math.inf
        # CPUs are counted in thousandths, but here compared with whole units of other resources.
        units = {resource: value / 1000 if resource == _CPU else value for resource, value in sorted(consumed.items())}
        return sum(self.weights.get(resource, 1.0) * value for resource, value in units.items()) / weight


class RecentUsage(Struct, frozen=True):
    """The account of one LocalQueue's recent usage.

    consumed: the decayed usage as of `updated`.
    penalties: the amounts for usage that no sample has measured yet, by workload.
    """

    updated: datetime
    consumed: Mapping[str, float] = field(default_factory=dict)
    penalties: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def penalty(self) -> dict[str, float]:
        """The amount of each resource in all penalties: usage that no sample has measured yet."""
        total: dict[str, float] = {}
        for penalty in self.penalties.values():
            total = _add_amounts(total, penalty)
        return total

    @property
    def has_faded(self) -> bool:
        """Whether the usage has decayed to almost nothing, so that the account can be dropped."""
        return not self.penalties and not any(round(value) for value in self.consumed.values())


class Accounts:
    """The accounts of recent usage of all LocalQueues, by `namespace/name`.

    After a restart the accounts are restored from the status of the LocalQueues.
    """

    def __init__(self, decay: Decay) -> None:
        self._decay = decay
        self._accounts: dict[str, RecentUsage] = {}

    def get(self, local_queue: str) -> RecentUsage | None:
        """Return the account of a LocalQueue; None if it has none."""
        return self._accounts.get(local_queue)

    def restore(self, local_queue: str, consumed: Mapping[str, float], updated: datetime) -> None:
        """Add the usage in the status of a LocalQueue to the LocalQueue's account, as after a restart."""
        account = self._accounts.get(local_queue, RecentUsage(updated))
        self._accounts[local_queue] = RecentUsage(
            max(account.updated, updated), _add_amounts(account.consumed, consumed), account.penalties
        )

    def charge(self, local_queue: str, workload: str, requests: Mapping[str, float], now: datetime) -> None:
        """Charge the penalty for a newly admitted workload to a LocalQueue's account.

        A penalty that was charged for the same workload before is replaced.
        """
        account = self._accounts.get(local_queue, RecentUsage(now))
        penalties = {**account.penalties, workload: self._decay.penalty(requests)}
        self._accounts[local_queue] = RecentUsage(account.updated, account.consumed, penalties)

    def refund(self, local_queue: str, workload: str) -> None:
        """Remove the penalty of a workload that lost its quota before a sample measured its usage."""
        account = self._accounts.get(local_queue)
        if account is not None and workload in account.penalties:
            self._accounts[local_queue] = RecentUsage(
                account.updated, account.consumed, _drop_penalty(account.penalties, workload)
            )

    def settle(self, local_queue: str, workload: str, current: Mapping[str, float], now: datetime) -> None:
        """Move a workload's penalty into the consumed usage, because later samples measure the workload itself.

        The LocalQueue's usage since the last sample is added, too.

        current: the amounts in use in that time, not multiplied by the time.
        """
        account = self._accounts.get(local_queue)
        if account is not None and (penalty := account.penalties.get(workload)) is not None:
            consumed = self._decay.decay_usage(account.consumed, current, now - account.updated)
            self._accounts[local_queue] = RecentUsage(
                max(account.updated, now), _add_amounts(consumed, penalty), _drop_penalty(account.penalties, workload)
            )

    def sample(self, local_queue: str, current: Mapping[str, float], now: datetime) -> RecentUsage:
        """Add a LocalQueue's usage since the last sample to its account, whose older usage decays; return the account.

        current: the amounts in use in that time, not multiplied by the time.

        If the clock was set back, nothing is added.
        """
        old = self._accounts.get(local_queue, RecentUsage(now))
        consumed = self._decay.decay_usage(old.consumed, current, now - old.updated)
        account = RecentUsage(max(old.updated, now), consumed, old.penalties)
        self._accounts[local_queue] = account
        return account

    def forget(self, local_queue: str) -> None:
        """Remove the account of a deleted LocalQueue."""
        self._accounts.pop(local_queue, None)

    def score(self, local_queue: str, weight: float) -> float:
        """Return the number by which LocalQueues are ordered, the lowest first; 0 for one without past usage."""
        account = self._accounts.get(local_queue)
        used = _add_amounts(account.consumed, account.penalty) if account is not None else {}
        return self._decay.score(used, weight)


def _multiply_amounts(amounts: Mapping[str, float], factor: float) -> dict[str, float]:
    return {resource: value * factor for resource, value in amounts.items()}


def _add_amounts(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {resource: one.get(resource, 0.0) + other.get(resource, 0.0) for resource in {**one, **other}}


def _drop_penalty(penalties: Mapping[str, Mapping[str, float]], workload: str) -> dict[str, Mapping[str, float]]:
    return {key: penalty for key, penalty in penalties.items() if key != workload}
