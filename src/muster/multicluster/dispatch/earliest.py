"""Estimate when a workload would start in a worker cluster, from the manager's data. Pure.

A workload starts at once if there is quota for it and for all workloads that wait before it. Otherwise it starts after
the work ahead: the remaining run time of workloads with quota, and the run time of waiting ones, divided by the queue's
whole quota. The estimate is not the worker's own plan. It only serves to find out which of two clusters has less work,
and later rounds correct it.
"""

from collections.abc import Iterable, Mapping
from math import inf

from msgspec import Struct

from muster.api.conditions import find
from muster.api.kueue import STOP_NONE, ClusterQueue, Workload
from muster.api.kueue.names import ACTIVE
from muster.api.pods import parse_amounts
from muster.api.values.quantity import QuantityError, parse_amount
from muster.queueing.model import PODS

Amounts = Mapping[str, int]


class Ahead(Struct, frozen=True):
    """One of the manager's workloads in a worker's queue.

    size: its requests, by resource.
    seconds: how long it will hold quota, counted from now or from its admission.
    holds: whether it has quota already.
    """

    size: Amounts
    seconds: float
    holds: bool


class Load(Struct, frozen=True):
    """The sums over the manager's workloads in one worker queue.

    held, waiting: the quota that they hold, and the quota that they wait for, by resource.
    work: both amounts, each multiplied by the seconds for which it will be held.
    waits: the number of waiting workloads.
    """

    held: Amounts = {}
    waiting: Amounts = {}
    work: Mapping[str, float] = {}
    waits: int = 0

    def add_workload(self, ahead: Ahead) -> "Load":
        """Return the load with one more workload."""
        return Load(
            _sum(self.held, ahead.size) if ahead.holds else self.held,
            self.waiting if ahead.holds else _sum(self.waiting, ahead.size),
            {**self.work, **{name: self.work.get(name, 0.0) + n * ahead.seconds for name, n in ahead.size.items()}},
            self.waits + (not ahead.holds),
        )


def sum_requests(workload: Workload) -> dict[str, int]:
    """Return the requests of a workload in a worker: its quota in the manager, by resource. Raises `QuantityError`."""
    admission = workload.status.admission
    total: dict[str, int] = {}
    for assignment in admission.pod_set_assignments if admission is not None else ():
        total = _sum(total, parse_amounts(assignment.resource_usage))
    return {name: n for name, n in total.items() if n > 0}


def seconds_until_start(requests: Amounts, queue: ClusterQueue, load: Load, usual: float) -> float:
    """Return the seconds until a workload with these requests would start; `inf` if no start can be estimated.

    load: the manager's workloads in the queue.
    usual: how many seconds other workloads hold their quota. Each waiting workload is assumed to be as large as this
    one. Quota that the queue could borrow does not count.

    Raises `QuantityError`.
    """
    if _is_closed(queue):
        return inf
    nominal, used = _sum_nominal_quota(queue), _sum_used_quota(queue)
    others = max(0, (queue.status.pending_workloads or 0) - load.waits)
    fits, seconds = _fits(requests, queue, nominal, used), 0.0
    for name, n in requests.items():
        quotas = [quota[name] for quota in nominal.values() if name in quota]
        if name == PODS and not quotas:  # pods count only if there is a quota for them
            continue
        if n > max(quotas, default=0):
            return inf
        held = load.held.get(name, 0)
        taken = max(held, sum(usage.get(name, 0) for usage in used.values()))
        fits &= sum(quotas) - taken - load.waiting.get(name, 0) - others * n >= n
        work = load.work.get(name, 0.0) + (taken - held + others * n) * usual
        seconds = max(seconds, work / sum(quotas))
    return 0.0 if fits else seconds


def _is_closed(queue: ClusterQueue) -> bool:
    """Return whether a queue does not admit workloads. A queue without a condition Active counts as admitting."""
    active = find(queue.status.conditions, ACTIVE)
    return queue.spec.stop_policy != STOP_NONE or (active is not None and active.status != "True")


def _fits(requests: Amounts, queue: ClusterQueue, nominal: Mapping[str, Amounts], used: Mapping[str, Amounts]) -> bool:
    """Return whether each resource group has a flavor with enough free quota of all its resources."""

    def has_free(flavor: str, names: Iterable[str]) -> bool:
        quota, taken = nominal[flavor], used.get(flavor, {})
        return all(quota.get(name, 0) - taken.get(name, 0) >= requests[name] for name in names)

    return all(
        any(
            has_free(flavor.name, [name for name in group.covered_resources if name in requests])
            for flavor in group.flavors
        )
        for group in queue.spec.resource_groups
    )


def _sum_nominal_quota(queue: ClusterQueue) -> dict[str, dict[str, int]]:
    """Return the quota by flavor and resource. Raises `QuantityError`, for example if it is negative.

    The quota may come from any server, so it may be invalid.
    """
    flavors = [flavor for group in queue.spec.resource_groups for flavor in group.flavors]
    nominal = {
        one.name: {quota.name: parse_amount(quota.name, quota.nominal_quota) for quota in one.resources}
        for one in flavors
    }
    if any(n < 0 for quotas in nominal.values() for n in quotas.values()):
        raise QuantityError(f"ClusterQueue {queue.metadata.name}: a quota is negative")
    return nominal


def _sum_used_quota(queue: ClusterQueue) -> dict[str, dict[str, int]]:
    """Return the reserved amounts, by flavor and resource."""
    return {
        flavor.name: {usage.name: parse_amount(usage.name, usage.total) for usage in flavor.resources}
        for flavor in queue.status.flavors_reservation
    }


def _sum(one: Amounts, other: Amounts) -> dict[str, int]:
    return {**one, **{name: one.get(name, 0) + n for name, n in other.items()}}
