"""Compute the quota of a manager's ClusterQueue as the sum of its workers' quotas (Kueue KEP-9988). Pure.

A manager's LocalQueue and a worker's LocalQueue of the same name belong together, whatever the names of their
ClusterQueues. A manager's flavors have no meaning in its workers. So there must be exactly one flavor, which gets the
sum of all of the workers' flavors.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.api.kueue import ClusterQueue, MultiKueueConfig
from muster.api.kueue.checks import AUTOMATED
from muster.api.kueue.names import NOT_REQUESTED, QUOTA_AUTOMATED, UNSUPPORTED_CONFIGURATION
from muster.api.kueue.quotas import ResourceGroups
from muster.api.ours.teams import FOLLOWS_NODES
from muster.api.values.quantity import QuantityError, format_amount, parse_amount
from muster.multicluster.links.sanitizing import one_line
from muster.queueing.pending.activity import Activity

# A larger amount is invalid as quota: no machine has it, and sums with it would overflow.
MOST = 2**63 - 1

NOT_FOUND = Activity(False, UNSUPPORTED_CONFIGURATION, "The referenced MultiKueueConfig was not found.")
MANUALLY = Activity(False, NOT_REQUESTED, "MultiKueue manager quota automation has not been requested.")
FLAVORS = Activity(
    False,
    UNSUPPORTED_CONFIGURATION,
    "Quota automation requires that the manager-side ClusterQueue has exactly one ResourceFlavor",
)
DONE = Activity(True, QUOTA_AUTOMATED, "ClusterQueue quota is automatically managed based on MultiKueue workers.")


class WorkerQueues(Struct, frozen=True):
    """The observed ClusterQueues of a worker for the LocalQueues of a manager's ClusterQueue.

    lost: whether the worker is not connected.
    queues: None while they have not been read.
    refusal: why they cannot be read; "" if they can.
    """

    cluster: str
    lost: bool = False
    queues: tuple[ClusterQueue, ...] | None = None
    refusal: str = ""


class QuotaPlan(Struct, frozen=True):
    """The quotas and the condition that a ClusterQueue should have."""

    groups: ResourceGroups
    automation: Activity


def plan_quota(
    queue: ClusterQueue, config: MultiKueueConfig | None, workers: Sequence[WorkerQueues]
) -> QuotaPlan | None:
    """Return the quotas and condition for a ClusterQueue with a MultiKueue check; None while data are missing.

    config: the check's MultiKueueConfig; None if it does not exist.
    workers: the existing workers that the config names. As upstream, a lost worker counts no quota: no new workloads
    are sent there, and admitted ones keep their quota.
    """
    groups = queue.spec.resource_groups
    if config is None:
        return QuotaPlan(groups, NOT_FOUND)
    if config.spec.quota_management != AUTOMATED:
        return QuotaPlan(groups, MANUALLY)
    if len(groups) != 1 or len(groups[0].flavors) != 1:
        return QuotaPlan(groups, FLAVORS)
    if queue.metadata.annotations.get(FOLLOWS_NODES) == "true":
        return QuotaPlan(groups, make_unsupported_activity(f"its quota is that of the nodes here: {FOLLOWS_NODES}"))
    present_workers = [worker for worker in workers if not worker.lost]
    if any(worker.queues is None and not worker.refusal for worker in present_workers):
        return None
    if problem := next(
        (f'worker cluster "{one.cluster}": {one.refusal}' for one in present_workers if one.refusal), ""
    ):
        return QuotaPlan(groups, make_unsupported_activity(problem))
    try:
        total = _sum_quota(present_workers)
        if missing := sorted(total.keys() - set(groups[0].covered_resources)):
            names = " ".join(missing)
            problem = f"manager-side coveredResources is missing resources configured on workers: [{names}]"
            return QuotaPlan(groups, make_unsupported_activity(problem))
        return QuotaPlan(_replace_amounts(groups, total), DONE)
    except QuantityError as error:
        return QuotaPlan(groups, make_unsupported_activity(str(error)))


def make_unsupported_activity(problem: str) -> Activity:
    """Return the activity of a queue whose quota is not written; the reason may quote a worker."""
    return Activity(False, UNSUPPORTED_CONFIGURATION, one_line(problem))


def _sum_quota(workers: Iterable[WorkerQueues]) -> dict[str, int]:
    """Return the sum of the nominal quota of all flavors of all workers, by resource. Raises `QuantityError`."""
    total: dict[str, int] = {}
    for worker in workers:
        for resource, nominal in _list_nominal(worker):
            total[resource] = total.get(resource, 0) + nominal
            if not 0 <= nominal <= total[resource] <= MOST:
                raise QuantityError(f'worker cluster "{worker.cluster}": no possible quota of {resource}')
    return total


def _list_nominal(worker: WorkerQueues) -> Iterable[tuple[str, int]]:
    for queue in worker.queues or ():
        for group in queue.spec.resource_groups:
            for flavor in group.flavors:
                for quota in flavor.resources:
                    try:
                        yield quota.name, parse_amount(quota.name, quota.nominal_quota)
                    except QuantityError as error:
                        raise QuantityError(f'worker cluster "{worker.cluster}": {error}') from None


def _replace_amounts(groups: ResourceGroups, total: Mapping[str, int]) -> ResourceGroups:
    """Return the groups with these amounts as quotas.

    A resource that no worker has gets 0. Limits stay, and equal amounts keep their notation.
    """
    group, flavor = groups[0], groups[0].flavors[0]
    quotas = tuple(
        one
        if parse_amount(one.name, one.nominal_quota) == total.get(one.name, 0)
        else replace(one, nominal_quota=format_amount(one.name, total.get(one.name, 0)))
        for one in flavor.resources
    )
    return (replace(group, flavors=(replace(flavor, resources=quotas),)),)
