"""What a Job's podFailurePolicy says of one failed pod: the first rule that matches decides.

Where none does, the failure counts, but for that of a pod that ended because the whole cluster was stopped: Kubernetes
knows no such stop, and to its jobs it is as if they had been interrupted.
"""

from collections.abc import Sequence

from msgspec import Struct

from muster.api.batch import PodFailurePolicy, PodFailurePolicyRule
from muster.api.core import ContainerStatus, Pod
from muster.api.pods import ended_with_cluster

IGNORE = "Ignore"
FAIL_JOB = "FailJob"
FAIL_INDEX = "FailIndex"
COUNT = "Count"
_ACTIONS = (IGNORE, FAIL_JOB, FAIL_INDEX, COUNT)


class Judgement(Struct, frozen=True):
    """What to do about a failed pod.

    action: the matching rule's, or empty if none matches: the failure counts, unless it is excused.
    message: for FailJob, what the Job's condition will say.
    excused: the pod ended with the whole cluster.
    """

    action: str = ""
    message: str = ""
    excused: bool = False

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the back-off limits and `status.failed`."""
        return self.action != IGNORE and not self.excused


def judge(policy: PodFailurePolicy | None, pod: Pod) -> Judgement:
    """The judgement of the first rule that matches; rules with an action that we do not know are passed by."""
    for number, rule in enumerate(policy.rules if policy else ()):
        if rule.action not in _ACTIONS:
            continue
        if (evidence := _evidence(rule, pod)) is not None:
            message = f"{evidence} matching {FAIL_JOB} rule at index {number}" if rule.action == FAIL_JOB else ""
            return Judgement(rule.action, message)
    return Judgement(excused=ended_with_cluster(pod))


def _evidence(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """What about the pod matches the rule, in upstream's words; None if nothing does."""
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        wanted = rule.on_exit_codes
        values = frozenset(wanted.values)
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            code = _exit_code(status)
            if not code or wanted.container_name not in (None, "", status.name):
                continue
            if (wanted.operator == "In" and code in values) or (wanted.operator == "NotIn" and code not in values):
                return f"Container {status.name} for pod {where} failed with exit code {code}"
        return None
    for condition in pod.status.conditions:
        for pattern in rule.on_pod_conditions:
            if condition.type == pattern.type and condition.status == (pattern.status or "True"):
                return f"Pod {where} has condition {condition.type}"
    return None


def _exit_code(status: ContainerStatus) -> int:
    """The container's exit code; 0 if it has not ended."""
    return status.state.terminated.exit_code if status.state.terminated else 0


def fails_job(policy: PodFailurePolicy | None, failed: Sequence[Pod]) -> str:
    """The message of the first failed pod that matches a FailJob rule; empty if there is none."""
    if policy is None:
        return ""
    return next((judgement.message for pod in failed if (judgement := judge(policy, pod)).message), "")
