"""Decide whether a sweep takes all the quota of its queue for long.

It takes the sweep's job and the visible quotas, and returns a sentence. A sweep whose limit on concurrent trials is
absent or above the quota starts as many trials as fit the quota, and other jobs of the queue are pending until it ends.
"""

from muster.insight.forecasts.never import VisibleCapacity, find_ask
from muster.insight.record import JobRecord
from muster.queueing.model import PODS, FlavorResource
from muster.queueing.quota.tree import Node
from muster.queueing.requests import ResourceRules, requests_of

# A sweep with this many times the trials that run concurrently makes other jobs wait for as many of its trials in a
# row.
_FAR_MORE = 10


def describe_queue_use(job: JobRecord, room: VisibleCapacity, queue: str) -> str:
    """Return a warning that a sweep uses its whole queue for long, with the option that limits it; else "".

    job: the sweep.
    queue: the name of its LocalQueue.
    """
    namespace, trials = job.metadata.namespace, job.wanted
    quota = room.find_quota(room.best, namespace, queue)
    if quota is None:
        return ""
    [(podset, _)] = find_ask(job).podsets
    requests = requests_of(room.completion.podset(podset, namespace).template.spec, ResourceRules()) | {PODS: 1}
    most = _count_fitting(quota, requests)
    if not most or podset.count < most or trials < _FAR_MORE * most:
        return ""
    warning = f"its {trials} trials take all of queue {queue}, at most {most} at a time, until the sweep ends"
    if most == 1:
        return warning
    return f"{warning}; with a number below {most} after %, as in --array 0-99%{most // 2}, other jobs have the rest"


def _count_fitting(quota: Node, requests: dict[str, int]) -> int | None:
    """Return how many pods with these requests fit the quota; None if the quota limits none of the resources."""
    counts = [
        sum(quota.potential(FlavorResource(flavor, resource)) // amount for flavor in group.flavors)
        for resource, amount in requests.items()
        if amount and (group := quota.policy.group_of(resource)) is not None
    ]
    return min(counts, default=None)
