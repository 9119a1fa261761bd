"""Find out how deleted pods ended, for the condition of the failed Job. Pure.

Failed pods are kept, and their own status shows how they failed. But pods whose containers restarted in place are
deleted when the Job ends, and a pod that a user deletes leaves no status.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from muster.api.batch import PodFailurePolicy
from muster.api.core import Pod
from muster.api.pods import find_condition, is_deleting, is_finished
from muster.jobs.interruption import DISRUPTION_TARGET, SUSPENDED, interruption_of
from muster.jobs.job.pod_failure_policy import FAIL_JOB, judge

_NEVER = datetime.max.replace(tzinfo=UTC)


def last_words(pods: Iterable[Pod], failed: Sequence[Pod]) -> str:
    """Return how the first failed container ended; without one, which pod was deleted; else "".

    Only pods that are deleted because the Job ends are considered.

    pods: all pods of the Job.
    failed: the pods whose failure ends the Job now. If one of these pods is kept, the result is "", because that pod
    shows how it ended.
    """
    if any(pod.status.phase == "Failed" and not is_deleting(pod) for pod in failed):
        return ""
    ends = [end for pod in pods if not is_finished(pod) for end in _list_ends(pod)]
    if ends:
        return min(ends)[1]
    return next((_describe_deletion(pod) for pod in failed if is_deleting(pod)), "")


def describe_interruption(pods: Iterable[Pod], policy: PodFailurePolicy | None, *, or_fails: bool = False) -> str:
    """Return how the platform ended the first interrupted pod that no policy rule covers; "" if there is none.

    A pod that was ended by the suspension of its Job does not count, because a resume of the Job recreates the pod.

    or_fails: whether a pod also counts if the policy rule that covers it fails the Job.
    """
    for pod in pods:
        interruption = interruption_of(pod)
        if interruption is None or interruption.reason == SUSPENDED:
            continue
        judgement = judge(policy, pod)
        if judgement.has_no_rule or (or_fails and judgement.action == FAIL_JOB):
            return f"Pod {_name_pod(pod)} {interruption.message}"
    return ""


def _list_ends(pod: Pod) -> Iterable[tuple[datetime, str]]:
    """Yield when and how containers of a pod failed, in the wording of a podFailurePolicy."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        for ended in (status.state.terminated, status.last_state.terminated):
            if status.restart_count and ended is not None and ended.exit_code:
                text = f"Container {status.name} for pod {_name_pod(pod)} failed with exit code {ended.exit_code}"
                yield ended.finished_at or _NEVER, text


def _describe_deletion(pod: Pod) -> str:
    why = find_condition(pod, DISRUPTION_TARGET)
    return f"Pod {_name_pod(pod)} was deleted" + (f": {why.message}" if why is not None and why.message else "")


def _name_pod(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
