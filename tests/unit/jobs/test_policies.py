from typing import Any

import msgspec
import pytest

from muster.api.batch import PodFailurePolicy, SuccessPolicy
from muster.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus
from muster.api.meta import ObjectMeta
from muster.api.values.indexes import Indexes
from muster.jobs.job.pod_failure_policy import fails_job, judge
from muster.jobs.job.success_policy import match


def ended(name: str, code: int) -> ContainerStatus:
    return ContainerStatus(name=name, state=ContainerState(terminated=ContainerStateTerminated(exit_code=code)))


POD = Pod(
    metadata=ObjectMeta(name="p", namespace="ns"),
    status=PodStatus(
        phase="Failed",
        init_container_statuses=(ended("init", 3),),
        container_statuses=(ended("ok", 0), ended("bad", 5), ContainerStatus(name="runs")),
        conditions=(PodCondition(type="ConfigIssue", status="True"), PodCondition(type="Ready", status="False")),
    ),
)


def rules(*rules: dict[str, Any]) -> PodFailurePolicy:
    return msgspec.convert({"rules": rules}, PodFailurePolicy)


def exits(action: str, operator: str, *values: int, container: str | None = None) -> dict[str, Any]:
    wanted: dict[str, Any] = {"operator": operator, "values": values}
    return {"action": action, "onExitCodes": wanted | ({"containerName": container} if container else {})}


def conditions(action: str, type: str, status: str = "") -> dict[str, Any]:
    return {"action": action, "onPodConditions": [{"type": type} | ({"status": status} if status else {})]}


@pytest.mark.parametrize(
    ("policy", "action"),
    [
        (None, ""),
        (rules(), ""),
        (rules(exits("Ignore", "In", 5)), "Ignore"),
        (rules(exits("Ignore", "In", 4)), ""),
        (rules(exits("Ignore", "In", 0)), ""),
        (rules(exits("Ignore", "In", 3)), "Ignore"),
        (rules(exits("Ignore", "In", 3, container="bad")), ""),
        (rules(exits("Ignore", "In", 5, container="bad")), "Ignore"),
        (rules(exits("Ignore", "NotIn", 3)), "Ignore"),
        (rules(exits("Ignore", "NotIn", 3, 5)), ""),
        (rules(exits("Ignore", "NotIn", 9, container="ok")), ""),
        (rules(exits("Ignore", "Near", 5)), ""),
        (rules(exits("Shrug", "In", 5), exits("Count", "In", 5)), "Count"),
        (rules(conditions("Ignore", "ConfigIssue")), "Ignore"),
        (rules(conditions("Ignore", "ConfigIssue", "True")), "Ignore"),
        (rules(conditions("Ignore", "ConfigIssue", "False")), ""),
        (rules(conditions("Ignore", "Ready", "False")), "Ignore"),
        (rules(exits("Count", "In", 9), conditions("FailIndex", "Ready", "False")), "FailIndex"),
        (rules({"action": "Ignore"}), ""),
    ],
)
def test_first_rule_that_matches(policy: PodFailurePolicy | None, action: str) -> None:
    judgement = judge(policy, POD)
    assert judgement.action == action
    assert judgement.counts == (action != "Ignore")
    assert judgement.message == ""


def test_messages_are_upstreams() -> None:
    policy = rules(exits("Count", "In", 9), exits("FailJob", "In", 3, 5))
    assert judge(policy, POD).message == (
        "Container bad for pod ns/p failed with exit code 5 matching FailJob rule at index 1"
    )
    policy = rules(conditions("FailJob", "ConfigIssue"))
    assert judge(policy, POD).message == "Pod ns/p has condition ConfigIssue matching FailJob rule at index 0"
    assert fails_job(policy, [Pod(), POD]) == judge(policy, POD).message
    assert fails_job(policy, [Pod()]) == ""
    assert fails_job(None, [POD]) == ""


@pytest.mark.parametrize(
    ("policy", "succeeded", "message"),
    [
        ([{"succeededIndexes": "0"}], "0", "Matched rules at index 0"),
        ([{"succeededIndexes": "0"}], "1", ""),
        ([{"succeededIndexes": "0,2-3"}], "0-3", "Matched rules at index 0"),
        ([{"succeededIndexes": "0,2-3"}], "0-2", ""),
        ([{"succeededIndexes": "0-4", "succeededCount": 2}], "1,4,9", "Matched rules at index 0"),
        ([{"succeededIndexes": "0-4", "succeededCount": 2}], "4,9", ""),
        ([{"succeededCount": 2}], "7,9", "Matched rules at index 0"),
        ([{"succeededCount": 2}], "9", ""),
        ([{"succeededIndexes": "5"}, {"succeededCount": 1}], "0", "Matched rules at index 1"),
        ([{"succeededIndexes": "99"}], "0", ""),
        ([{"succeededCount": 0}], "", ""),
        ([{}], "0", ""),
    ],
)
def test_success(policy: list[dict[str, Any]], succeeded: str, message: str) -> None:
    rules = msgspec.convert({"rules": policy}, SuccessPolicy)
    assert match(rules, 10, Indexes.parse(succeeded, 10)) == message


def test_no_success_policy() -> None:
    assert match(None, 10, Indexes.of([1])) == ""
