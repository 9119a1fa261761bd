"""The quota of a manager's ClusterQueue, kept equal to what its workers have together (KEP-9988). Pure.

A LocalQueue here and the one of its name in a worker belong together, whatever the ClusterQueues behind them are
called. Flavors of a manager mean nothing in its workers, so there is to be one, which gets the sum of all of theirs.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.api.kueue import ClusterQueue, MultiKueueConfig
from muster.api.kueue.checks import AUTOMATED
from muster.api.kueue.names import NOT_REQUESTED, QUOTA_AUTOMATED, UNSUPPORTED_CONFIGURATION
from muster.api.kueue.quotas import ResourceGroups
from muster.api.values.quantity import QuantityError, amount, format_amount
from muster.multicluster.words import one_line
from muster.queueing.pending.activity import Activity
from muster.queueing.quota.nodes import FOLLOWS_NODES

# What is more is no quota: no machine has it, and counting on with it would go wrong somewhere.
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
    """What is known of a worker's ClusterQueues behind the LocalQueues of a manager's ClusterQueue.

    lost: it is not connected. queues: None while they have not been read. refusal: why they cannot be.
    """

    cluster: str
    lost: bool = False
    queues: tuple[ClusterQueue, ...] | None = None
    refusal: str = ""


class QuotaPlan(Struct, frozen=True):
    """What a ClusterQueue is to have: these quotas, and this condition."""

    groups: ResourceGroups
    automation: Activity


def automated(
    queue: ClusterQueue, config: MultiKueueConfig | None, workers: Sequence[WorkerQueues]
) -> QuotaPlan | None:
    """For a ClusterQueue with a MultiKueue check; None while that cannot be known: all stays as it is.

    config: of the check; None if it is not there. workers: those that it names, as far as there are such clusters.

    One that is lost gives no quota, as upstream has it: nothing more is sent there. What is admitted keeps its own.
    """
    groups = queue.spec.resource_groups
    if config is None:
        return QuotaPlan(groups, NOT_FOUND)
    if config.spec.quota_management != AUTOMATED:
        return QuotaPlan(groups, MANUALLY)
    if len(groups) != 1 or len(groups[0].flavors) != 1:
        return QuotaPlan(groups, FLAVORS)
    if queue.metadata.annotations.get(FOLLOWS_NODES) == "true":
        return QuotaPlan(groups, unsupported(f"its quota is that of the nodes here: {FOLLOWS_NODES}"))
    found = [worker for worker in workers if not worker.lost]
    if any(worker.queues is None and not worker.refusal for worker in found):
        return None
    if problem := next((f'worker cluster "{one.cluster}": {one.refusal}' for one in found if one.refusal), ""):
        return QuotaPlan(groups, unsupported(problem))
    try:
        total = _total(found)
        if missing := sorted(total.keys() - set(groups[0].covered_resources)):
            names = " ".join(missing)
            problem = f"manager-side coveredResources is missing resources configured on workers: [{names}]"
            return QuotaPlan(groups, unsupported(problem))
        return QuotaPlan(_with(groups, total), DONE)
    except QuantityError as error:
        return QuotaPlan(groups, unsupported(str(error)))


def unsupported(problem: str) -> Activity:
    """Nothing is written for such a reason, in which words of a worker may be."""
    return Activity(False, UNSUPPORTED_CONFIGURATION, one_line(problem))


def _total(workers: Iterable[WorkerQueues]) -> dict[str, int]:
    """By resource, of all flavors. Raises `QuantityError`."""
    total: dict[str, int] = {}
    for worker in workers:
        for resource, nominal in _nominal(worker):
            total[resource] = total.get(resource, 0) + nominal
            if not 0 <= nominal <= total[resource] <= MOST:
                raise QuantityError(f'worker cluster "{worker.cluster}": no possible quota of {resource}')
    return total


def _nominal(worker: WorkerQueues) -> Iterable[tuple[str, int]]:
    for queue in worker.queues or ():
        for group in queue.spec.resource_groups:
            for flavor in group.flavors:
                for quota in flavor.resources:
                    try:
                        yield quota.name, amount(quota.name, quota.nominal_quota)
                    except QuantityError as error:
                        raise QuantityError(f'worker cluster "{worker.cluster}": {error}') from None


def _with(groups: ResourceGroups, total: Mapping[str, int]) -> ResourceGroups:
    """The quotas with these amounts; what no worker has is none. Limits stay, and so does what is as much already."""
    group, flavor = groups[0], groups[0].flavors[0]
    quotas = tuple(
        one
        if amount(one.name, one.nominal_quota) == total.get(one.name, 0)
        else replace(one, nominal_quota=format_amount(one.name, total.get(one.name, 0)))
        for one in flavor.resources
    )
    return (replace(group, flavors=(replace(flavor, resources=quotas),)),)
