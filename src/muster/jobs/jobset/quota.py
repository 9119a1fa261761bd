"""JobSets that need quota: which of their pods wait for it. Pure.

Pods that come while more are wanted of their role than were granted carry a scheduling gate; as many of them are let go
as were granted. Which pods these are does not matter: the Jobs of a role are all alike. What pods that ended gave back
is granted no more: others may have it.
"""

from collections.abc import Iterable, Mapping

from muster.api.core import Pod
from muster.api.jobset import JobSet
from muster.api.kueue import Workload
from muster.api.pods import is_active
from muster.jobs.job.quota import is_gated
from muster.jobs.jobset.size import pods_of_role


def by_role(jobset: JobSet, workload: Workload, granted: Mapping[str, int]) -> dict[str, int]:
    """How many pods each role may still run: podsets correspond to roles by position, whatever they are called."""
    back = {one.name: one.count for one in workload.status.reclaimable_pods}
    pairs = zip(jobset.spec.replicated_jobs, workload.spec.pod_sets, strict=False)
    return {role.name: max(0, granted.get(podset.name, 0) - back.get(podset.name, 0)) for role, podset in pairs}


def must_wait(jobset: JobSet, role: str, granted: int) -> bool:
    """Whether a new pod of a role has to wait."""
    return any(one.name == role and granted < pods_of_role(one) for one in jobset.spec.replicated_jobs)


def may_go(pods: Iterable[Pod], granted: int) -> list[Pod]:
    """Which pods of a role need not wait any longer; they are given the oldest first."""
    there = [pod for pod in pods if is_active(pod)]
    waiting = [pod for pod in there if is_gated(pod)]
    return waiting[: max(0, granted - (len(there) - len(waiting)))]
