"""Which roles of a JobSet may start."""

from typing import Any

import pytest
from tests.unit.jobs.jobset.world import jobset, role

from muster.api.jobset import ReplicatedJobStatus
from muster.jobs.jobset.ordering import find_startable_roles, may_start

PARTS = role("a", 2), role("b", 1), role("c", 1, depends={"a": "Ready", "b": "Complete"})


def records(**counts: dict[str, Any]) -> dict[str, ReplicatedJobStatus]:
    return {name: ReplicatedJobStatus(name=name, **numbers) for name, numbers in counts.items()}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param({"a": {"ready": 2}, "b": {"succeeded": 1}}, True, id="all have come so far"),
        pytest.param({"a": {"ready": 1, "succeeded": 1}, "b": {"succeeded": 1}}, True, id="and further"),
        pytest.param({"a": {"ready": 1}, "b": {"succeeded": 1}}, False, id="one is not ready"),
        pytest.param({"a": {"ready": 2}, "b": {"ready": 1}}, False, id="one is not complete"),
        pytest.param({"a": {"ready": 2}, "b": {"failed": 1}}, False, id="one has failed"),
        pytest.param({"b": {"succeeded": 1}}, False, id="nothing is known of one"),
        pytest.param({}, False, id="nothing is known"),
    ],
)
def test_a_role_waits_for_what_it_depends_on(counts: dict[str, dict[str, Any]], expected: bool) -> None:
    roles = {one.name: one for one in jobset(*PARTS).spec.replicated_jobs}
    assert may_start(roles["c"], roles, records(**counts)) is expected
    assert may_start(roles["a"], roles, records(**counts))


@pytest.mark.parametrize(
    ("spec", "ready", "names", "waits"),
    [
        pytest.param({}, (0, 0), ["a", "b"], False, id="in any order"),
        pytest.param({"startupPolicy": {"startupPolicyOrder": "AnyOrder"}}, (0, 0), ["a", "b"], False, id="and so"),
        pytest.param({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, (1, 0), ["a"], True, id="the first"),
        pytest.param({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, (2, 0), ["b"], True, id="the next"),
        pytest.param({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, (2, 1), [], False, id="none is left"),
        pytest.param(
            {"startupPolicy": {"startupPolicyOrder": "InOrder"}, "suspend": True}, (0, 0), ["a", "b"], False,
            id="suspended",
        ),
    ],
)  # fmt: skip
def test_roles_start_in_order_if_that_is_asked(
    spec: dict[str, Any], ready: tuple[int, int], names: list[str], waits: bool
) -> None:
    found = find_startable_roles(
        jobset(role("a", 2), role("b", 1), **spec), list(records(a={"ready": ready[0]}, b={"ready": ready[1]}).values())
    )
    assert ([one.name for one in found.roles], found.waits) == (names, waits)
