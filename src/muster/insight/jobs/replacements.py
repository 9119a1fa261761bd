"""Explain which pods of a pod group need replacement, how they ended, and what to do. Pure."""

from collections.abc import Iterable

from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.kueue import Workload
from muster.api.kueue.names import FINISHED, MANAGED_FINALIZER, WAITING_FOR_REPLACEMENT_PODS
from muster.api.pods import is_deleting
from muster.insight.jobs.failures import count_of, describe_pod_end
from muster.insight.text import group_alike


def needs_replacements(workload: Workload) -> bool:
    """Return whether a Workload waits until its user creates pods to replace the ended ones.

    Return False if it has finished.
    """
    conditions = workload.status.conditions
    return is_true(conditions, WAITING_FOR_REPLACEMENT_PODS) and not is_true(conditions, FINISHED)


def describe_replacements(workload: Workload, pods: Iterable[Pod]) -> str:
    """Return which pods of a group ended, how, and what to do; "" if the group needs no replacements.

    pods: the group's pods. A pod that was replaced has lost its finalizer and is not named.
    """
    if not needs_replacements(workload):
        return ""
    ended = [pod for pod in pods if MANAGED_FINALIZER in pod.metadata.finalizers and _has_ended(pod)]
    ways = group_alike(
        (pod.metadata.name, describe_pod_end(pod)) for pod in sorted(ended, key=lambda pod: pod.metadata.name)
    )
    which = "; ".join(_make_clause(names, way) for names, way in ways) or "pods of the group have ended"
    number = count_of(len(ended), "pod") if ended else "pods"
    advice = f"create {number} with the same labels and annotations, or give the group up with: muster cancel"
    return f"{which}. No controller replaces them: {advice} {workload.metadata.name}"


def _make_clause(names: str, way: str) -> str:
    return f"each of {names} {way}" if ", " in names else f"{names} {way}"


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase == "Failed" or (is_deleting(pod) and pod.status.phase != "Succeeded")
