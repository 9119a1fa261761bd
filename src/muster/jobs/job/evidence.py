"""What befell pods that take their story with them: the Job that fails by them tells it in its condition. Pure.

Pods that failed stay, and say themselves how. Those whose containers restarted in place are deleted with the Job's end,
and those that a user deletes are gone at once.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from muster.api.core import Pod
from muster.api.pods import find_condition, is_deleting, is_finished

_NEVER = datetime.max.replace(tzinfo=UTC)


def last_words(pods: Iterable[Pod], failed: Sequence[Pod]) -> str:
    """What the first container that failed and was restarted ended with, else which pod was deleted; "" for neither.

    pods: all of the Job. failed: those that make it fail now. One that failed and stays is not spoken for.
    """
    if any(pod.status.phase == "Failed" and not is_deleting(pod) for pod in failed):
        return ""
    ends = [end for pod in pods if not is_finished(pod) for end in _ends(pod)]
    if ends:
        return min(ends)[1]
    return next((_deletion(pod) for pod in failed if is_deleting(pod)), "")


def _ends(pod: Pod) -> Iterable[tuple[datetime, str]]:
    """When containers of it failed, and with what, in the words of a podFailurePolicy."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        for ended in (status.state.terminated, status.last_state.terminated):
            if status.restart_count and ended is not None and ended.exit_code:
                text = f"Container {status.name} for pod {_name(pod)} failed with exit code {ended.exit_code}"
                yield ended.finished_at or _NEVER, text


def _deletion(pod: Pod) -> str:
    why = find_condition(pod, "DisruptionTarget")
    return f"Pod {_name(pod)} was deleted" + (f": {why.message}" if why is not None and why.message else "")


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
