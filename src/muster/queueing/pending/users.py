"""Decide whether a workload may use a ClusterQueue at all, and whether its user has reached a limit there. Pure."""

from muster.api.ours.gpus import is_gpu
from muster.api.ours.teams import NO_LIMITS, NOT_A_USER, USER_LIMIT_REACHED
from muster.queueing.model import PendingReason, QueueSpec, WorkloadInfo
from muster.queueing.quota.tree import Node


def find_foreigner(spec: QueueSpec, workload: WorkloadInfo) -> PendingReason | None:
    """Return why the workload's user may not use a ClusterQueue; None if the user may use it."""
    if spec.users is None or workload.owner in spec.users:
        return None
    whose = ", ".join(sorted(spec.users)) or "nobody"
    return PendingReason(NOT_A_USER, f"ClusterQueue {spec.name} is for {whose}, and not for {_describe_user(workload)}")


def find_user_limit(node: Node, workload: WorkloadInfo) -> PendingReason | None:
    """Return why a limit of the workload's user keeps the workload from starting; None if no limit is reached.

    A workload of an unknown user has no limit. The growth of an elastic workload does not count as a job.

    node: the ClusterQueue.
    """
    limits = node.policy.limits
    if limits == NO_LIMITS or not workload.owner:
        return None
    tally = node.tallies.of_owner(workload.owner)
    if limits.jobs is not None and tally.reserving >= limits.jobs and not workload.growth_of:
        has = f"{workload.owner} has {_format_count(tally.reserving, 'job')} with quota in ClusterQueue {node.name}"
        return PendingReason(USER_LIMIT_REACHED, f"{has}, and each user may have {limits.jobs} at once")
    if limits.gpus is None or not (requested := count_gpus(workload)):
        return None
    reserved = sum(amount for fr, amount in tally.reserved.items() if is_gpu(fr.resource))
    if reserved + requested <= limits.gpus:
        return None
    has = f"{workload.owner} has {_format_count(reserved, 'GPU')} in ClusterQueue {node.name} and asks for {requested}"
    return PendingReason(USER_LIMIT_REACHED, f"{has}, and each user may have {limits.gpus} at once")


def count_gpus(workload: WorkloadInfo) -> int:
    """Return how many GPUs the pods of a workload request in total."""
    return sum(
        amount * podset.count
        for podset in workload.podsets
        for resource, amount in podset.requests.items()
        if is_gpu(resource)
    )


def _describe_user(workload: WorkloadInfo) -> str:
    return workload.owner or "a job whose user is not known"


def _format_count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
