"""What a pod group lacks that waits for replacement pods."""

from typing import Any

import msgspec
import pytest
from tests.unit.insight.quota.test_state import condition, workload

from muster.api.core import Pod
from muster.insight.jobs.replacements import describe_replacements, needs_replacements

LACKING = workload(condition("WaitingForReplacementPods"), name="g")
ADVICE = "No controller replaces them: create {} with the same labels and annotations, or give the group up with: "


def pod(name: str, phase: str = "Failed", *, held: bool = True, code: int = 0, **status: Any) -> Pod:
    """held: by the finalizer that a pod keeps until it is replaced."""
    ended = [{"name": "c", "state": {"terminated": {"exitCode": code}}}] if code else []
    document = {
        "metadata": {"name": name, "finalizers": ["kueue.x-k8s.io/managed"] if held else []},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": phase, "containerStatuses": ended} | status,
    }
    return msgspec.convert(document, Pod)


LOST: dict[str, Any] = {
    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]
}


@pytest.mark.parametrize(
    ("pods", "which", "number"),
    [
        ([pod("b", code=3), pod("a", code=3)], "each of a, b ended with exit code 3", "2 pods"),
        (
            [pod("a", code=3), pod("b", **LOST)],
            "a ended with exit code 3; b ended with node n, which went down",
            "2 pods",
        ),
        ([pod("a", code=3), pod("b", "Running")], "a ended with exit code 3", "1 pod"),
        ([pod("a", code=3), pod("b", code=4, held=False)], "a ended with exit code 3", "1 pod"),
        ([], "pods of the group have ended", "pods"),
    ],
)
def test_it_is_said_which_pods_ended_how_and_what_to_do(pods: list[Pod], which: str, number: str) -> None:
    assert describe_replacements(LACKING, pods) == f"{which}. {ADVICE.format(number)}muster cancel g"


@pytest.mark.parametrize(
    "subject",
    [workload(), workload(condition("WaitingForReplacementPods", "False")),
     workload(condition("WaitingForReplacementPods"), condition("Finished"))],
)  # fmt: skip
def test_a_group_that_lacks_nothing_or_has_finished_needs_none(subject: Any) -> None:
    assert not needs_replacements(subject)
    assert describe_replacements(subject, [pod("a")]) == ""
