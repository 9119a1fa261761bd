"""Decide whether one more job of a user may wait in a ClusterQueue, by the limits for each user. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from muster.api.kueue import PodSet
from muster.api.ours.gpus import is_gpu
from muster.api.ours.teams import UserLimits
from muster.api.pods import pod_requests


class InLine(Struct, frozen=True):
    """The number of jobs that wait in a ClusterQueue, usually of one user, and the number of GPUs that they request."""

    jobs: int = 0
    gpus: int = 0

    def __add__(self, other: "InLine") -> "InLine":
        return InLine(self.jobs + other.jobs, self.gpus + other.gpus)


def measure_job(podsets: Iterable[PodSet]) -> InLine:
    """Return the count 1 and the requested GPUs of one job, from its podsets. Raises `QuantityError`."""
    return InLine(1, sum(_count_gpus(podset) * podset.count for podset in podsets))


def refuse_in_line(user: str, queue: str, limits: UserLimits, waiting: InLine, more: InLine) -> str:
    """Return why more jobs of a user may not wait in a ClusterQueue; "" if they may.

    waiting: the jobs that wait already.
    more: the new job.
    """
    if limits.waiting_jobs is not None and waiting.jobs + more.jobs > limits.waiting_jobs:
        return (
            f"{user} has {waiting.jobs} waiting {'job' if waiting.jobs == 1 else 'jobs'} in ClusterQueue {queue}, "
            f"and each user may have {limits.waiting_jobs} in line"
        )
    if limits.waiting_gpus is not None and more.gpus and waiting.gpus + more.gpus > limits.waiting_gpus:
        return (
            f"the waiting jobs of {user} in ClusterQueue {queue} ask for {waiting.gpus} GPUs, this one asks for "
            f"{more.gpus}, and each user may have {limits.waiting_gpus} in line"
        )
    return ""


def _count_gpus(podset: PodSet) -> int:
    requests = pod_requests(podset.template.spec)
    return sum(amount for resource, amount in requests.items() if is_gpu(resource))
