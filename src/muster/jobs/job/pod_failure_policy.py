"""Judge one failed pod by its Job's podFailurePolicy: the first rule that matches decides.

If no rule matches, the failure counts, unless the platform ended or withdrew the pod (`muster.jobs.interruption`).
Rules by exit code are not applied to such a pod, because its program was stopped. A rule by `DisruptionTarget` with the
action Count restores the counting of Kubernetes.
"""

from collections.abc import Sequence

from msgspec import Struct

from muster.api.batch import PodFailurePolicy, PodFailurePolicyRule
from muster.api.core import ContainerStatus, Pod
from muster.jobs.interruption import is_interrupted, is_withdrawn

IGNORE = "Ignore"
FAIL_JOB = "FailJob"
FAIL_INDEX = "FailIndex"
COUNT = "Count"
_ACTIONS = (IGNORE, FAIL_JOB, FAIL_INDEX, COUNT)


class Judgement(Struct, frozen=True):
    """The verdict of the podFailurePolicy on a failed pod.

    action: the action of the matching rule; "" if no rule matches. The failure then counts unless it is excused.
    message: for FailJob, the message of the Job's condition.
    excused: whether the platform ended or withdrew the pod, and no rule counts that as a failure. Its replacement then
    starts without a back-off.
    """

    action: str = ""
    message: str = ""
    excused: bool = False

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the back-off limits and `status.failed`."""
        return self.action != IGNORE and not self.excused

    @property
    def has_no_rule(self) -> bool:
        """Whether the platform ended the pod and no rule covers such a pod."""
        return self.excused and not self.action


def judge(policy: PodFailurePolicy | None, pod: Pod) -> Judgement:
    """Return the judgement of the first rule that matches; rules with an unknown action are skipped."""
    excused = is_interrupted(pod) or is_withdrawn(pod)
    for number, rule in enumerate(policy.rules if policy else ()):
        if rule.action not in _ACTIONS or (excused and rule.on_exit_codes is not None):
            continue
        if (evidence := _find_evidence(rule, pod)) is not None:
            message = f"{evidence} matching {FAIL_JOB} rule at index {number}" if rule.action == FAIL_JOB else ""
            return Judgement(rule.action, message, excused=excused and rule.action == IGNORE)
    return Judgement(excused=excused)


def _find_evidence(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """Return how the pod matches the rule, in upstream's wording; None if it does not match."""
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        requirement = rule.on_exit_codes
        values = frozenset(requirement.values)
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            code = _read_exit_code(status)
            if not code or requirement.container_name not in (None, "", status.name):
                continue
            if (requirement.operator == "In" and code in values) or (
                requirement.operator == "NotIn" and code not in values
            ):
                return f"Container {status.name} for pod {where} failed with exit code {code}"
        return None
    for condition in pod.status.conditions:
        for pattern in rule.on_pod_conditions:
            if condition.type == pattern.type and condition.status == (pattern.status or "True"):
                return f"Pod {where} has condition {condition.type}"
    return None


def _read_exit_code(status: ContainerStatus) -> int:
    """Return the container's exit code; 0 if it has not ended."""
    return status.state.terminated.exit_code if status.state.terminated else 0


def fails_job(policy: PodFailurePolicy | None, failed: Sequence[Pod]) -> str:
    """Return the message of the first failed pod that matches a FailJob rule; "" if there is none."""
    if policy is None:
        return ""
    return next((judgement.message for pod in failed if (judgement := judge(policy, pod)).message), "")
