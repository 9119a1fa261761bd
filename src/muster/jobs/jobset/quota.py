"""Decide which pods of a JobSet with a queue wait for quota. Pure.

Pods that are created while their role wants more pods than it was granted get a scheduling gate. The gates of as many
pods as were granted are removed, no matter which, because the Jobs of a role are alike. Quota that ended pods have
returned is not granted again, because other workloads may use it.
"""

from collections.abc import Iterable, Mapping

from muster.api.core import Pod
from muster.api.jobset import JobSet
from muster.api.kueue import Workload
from muster.api.pods import is_active
from muster.jobs.job.quota import is_gated
from muster.jobs.jobset.size import pods_of_role


def by_role(jobset: JobSet, workload: Workload, granted: Mapping[str, int]) -> dict[str, int]:
    """Return how many pods each role may still run. Podsets correspond to roles by position, whatever their names.

    granted: how many pods of each podset were granted.
    """
    back = {one.name: one.count for one in workload.status.reclaimable_pods}
    pairs = zip(jobset.spec.replicated_jobs, workload.spec.pod_sets, strict=False)
    return {role.name: max(0, granted.get(podset.name, 0) - back.get(podset.name, 0)) for role, podset in pairs}


def must_wait(jobset: JobSet, role: str, granted: int) -> bool:
    """Return whether a new pod of a role has to wait for quota, because the role has more pods than were granted.

    granted: how many pods the role may run, from `by_role`.
    """
    return any(one.name == role and granted < pods_of_role(one) for one in jobset.spec.replicated_jobs)


def may_go(pods: Iterable[Pod], granted: int) -> list[Pod]:
    """Return the pods of a role, oldest first, whose gate is to be removed because they have quota now."""
    there = [pod for pod in pods if is_active(pod)]
    waiting = [pod for pod in there if is_gated(pod)]
    return waiting[: max(0, granted - (len(there) - len(waiting)))]
