"""Who of a group of pods counts, and what there is to see of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import Pod
from muster.api.kueue import Workload, WorkloadStatus
from muster.controllers.integrations.pods.groups import (
    GroupMembership,
    PodGroup,
    PodGroups,
    membership_of,
    occupied_until,
    with_replacements,
)

KUEUE = "kueue.x-k8s.io"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SEE = PodGroups()


def pod(
    name: str,
    role: str = "r",
    *,
    age: int = 0,
    size: int | str = 2,
    phase: str = "Pending",
    held: bool = False,
    finalizer: bool = True,
    node: str = "",
    going: int | None = None,
    ready: bool = False,
    told: bool = False,
    queue: str = "q",
    group: str = "g",
    **annotations: str,
) -> Pod:
    """age: how many seconds old; going: how many seconds ago it should have been gone."""
    marks = {f"{KUEUE}/role-hash": role} | {
        f"{KUEUE}/{key.replace('_', '-')}": text for key, text in annotations.items()
    }
    metadata: dict[str, Any] = {
        "name": name,
        "uid": name,
        "creationTimestamp": NOW - timedelta(seconds=age),
        "labels": {f"{KUEUE}/queue-name": queue, f"{KUEUE}/managed": "true"},
        "annotations": marks
        | ({f"{KUEUE}/pod-group-name": group, f"{KUEUE}/pod-group-total-count": str(size)} if group else {}),
        "finalizers": [f"{KUEUE}/managed"] if finalizer else [],
    }
    if going is not None:
        metadata |= {"deletionTimestamp": NOW - timedelta(seconds=going), "deletionGracePeriodSeconds": 30}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    if told:
        conditions.append({"type": "TerminationTarget", "status": "True"})
    gates = [{"name": f"{KUEUE}/admission"}] if held else []
    document = {
        "metadata": metadata,
        "spec": {"nodeName": node, "schedulingGates": gates, "containers": [{"name": "c"}]},
        "status": {"phase": phase, "conditions": conditions},
    }
    return msgspec.convert(document, Pod)


def workload(*conditions: str, going: bool = False, **roles: Any) -> Workload:
    """With conditions that are True, and so many pods of each role."""
    document = {
        "metadata": {"name": "g"} | ({"deletionTimestamp": NOW} if going else {}),
        "spec": {"podSets": [{"name": role, "count": count} for role, count in roles.items()]},
        "status": {"conditions": [{"type": type, "status": "True", "reason": "R"} for type in conditions]},
    }
    return msgspec.convert(document, Workload)


def seen(membership: GroupMembership) -> dict[str, Any]:
    facts = {
        "pods": " ".join(one.metadata.name for one in membership.group.pods),
        "roles": {podset.name: podset.count for podset in membership.group.podsets},
        "excess": " ".join(one.metadata.name for one in membership.excess),
        "released": " ".join(one.metadata.name for one in membership.released),
        "absent": membership.absent,
        "complaint": membership.complaint,
    }
    return {key: value for key, value in facts.items() if value}


def group(*pods: Pod, roles: dict[str, Any] | None = None) -> PodGroup:
    return membership_of("g", pods, workload("QuotaReserved", **(roles or {"r": len(pods)})), NOW).group


def alone(one: Pod) -> PodGroup:
    return membership_of("", [one], None, NOW).group


@pytest.mark.parametrize(
    ("pods", "owned", "expected"),
    [
        pytest.param(
            [pod("a", age=2), pod("b", age=1)], None, {"pods": "a b", "roles": {"r": 2}}, id="complete, no workload yet"
        ),
        pytest.param(
            [pod("a", "x", age=3, size=3), pod("b", "z", age=2, size=3), pod("c", "x", age=1, size=3)],
            None,
            {"pods": "a b c", "roles": {"x": 2, "z": 1}},
            id="two roles",
        ),
        pytest.param(
            [pod("a")],
            None,
            {"pods": "a", "roles": {"r": 1}, "complaint": "'g' group has fewer runnable pods than expected"},
            id="not complete",
        ),
        pytest.param(
            [pod("a", age=2), pod("b", age=1, phase="Failed")],
            None,
            {
                "pods": "a",
                "roles": {"r": 1},
                "released": "b",
                "complaint": "'g' group has fewer runnable pods than expected",
            },
            id="who has failed before does not count",
        ),
        pytest.param(
            [pod("a", size=5, pod_group_fast_admission="true")],
            None,
            {"pods": "a", "roles": {"r": 5}},
            id="fast: the first speaks for all",
        ),
        pytest.param(
            [pod("old", age=3, held=True), pod("started", age=2), pod("new", age=1, held=True)],
            None,
            {"pods": "old started", "roles": {"r": 2}, "excess": "new"},
            id="the newest held one is too many",
        ),
        pytest.param(
            [pod("a", age=3, finalizer=False), pod("b", age=2), pod("c", age=1)],
            None,
            {"pods": "b c", "roles": {"r": 2}, "excess": "a"},
            id="whom we were sending away goes first",
        ),
        pytest.param(
            [pod("a", age=3), pod("b", age=2), pod("c", age=1, size=3)],
            None,
            {
                "pods": "a b c",
                "roles": {"r": 3},
                "complaint": f"pods 'a' and 'c' has different '{KUEUE}/pod-group-total-count' values: 2!=3",
            },
            id="nobody is sent away while they disagree",
        ),
        pytest.param(
            [pod("a", age=2), pod("b", age=1, queue="other")],
            None,
            {"pods": "a b", "roles": {"r": 2}, "complaint": "pods 'a' and 'b' has different queue names: q!=other"},
            id="different queues",
        ),
        pytest.param(
            [pod(f"p{n:02}", f"r{n}", age=99 - n, size=19) for n in range(19)],
            None,
            {
                "pods": " ".join(f"p{n:02}" for n in range(19)),
                "roles": {f"r{n}": 1 for n in range(19)},
                "complaint": "pod group can't include more than 18 roles",
            },
            id="too many roles",
        ),
        pytest.param(
            [pod("a", "x", age=2), pod("b", "y", age=1)],
            workload(x=2),
            {"pods": "a b", "roles": {"x": 1, "y": 1}},
            id="without quota the workload follows",
        ),
        pytest.param(
            [pod("a", age=2), pod("b", age=1, phase="Failed")],
            workload(r=2),
            {"pods": "a", "roles": {"r": 2}, "absent": 1},
            id="without quota and incomplete the workload waits",
        ),
        pytest.param(
            [pod("a", age=3, phase="Running", node="n"), pod("b", age=2, phase="Failed")],
            workload("QuotaReserved", r=2),
            {"pods": "a", "roles": {"r": 2}, "absent": 1},
            id="failed: its place is kept in mind",
        ),
        pytest.param(
            [pod("a", age=3, phase="Running"), pod("b", age=2, phase="Failed"), pod("c", age=1, held=True)],
            workload("QuotaReserved", r=2),
            {"pods": "a c", "roles": {"r": 2}, "released": "b"},
            id="failed and replaced",
        ),
        pytest.param(
            [
                pod("a", age=9, phase="Failed", going=5),
                pod("b", age=8, phase="Failed", going=9),
                pod("c", age=1, held=True),
            ],
            workload("QuotaReserved", r=2),
            {"pods": "c", "roles": {"r": 2}, "released": "b", "absent": 1},
            id="who was lost first is replaced first",
        ),
        pytest.param(
            [pod("a", "x", age=3), pod("b", "x", age=2, held=True)],
            workload("QuotaReserved", x=1, y=1),
            {"pods": "a", "roles": {"x": 1, "y": 1}, "excess": "b", "absent": 1},
            id="each role has its places",
        ),
        pytest.param(
            [pod("a", "x", age=3), pod("b", "x", age=2), pod("c", "new", age=1)],
            workload("QuotaReserved", x=2),
            {"pods": "a b", "roles": {"x": 2}, "excess": "c"},
            id="an unknown role, and no place",
        ),
        pytest.param(
            [pod("a", "x", age=3), pod("c", "new", age=1)],
            workload("QuotaReserved", x=2),
            {"pods": "a", "roles": {"x": 2}, "absent": 1},
            id="an unknown role waits while there is a place",
        ),
        pytest.param(
            [pod("a", age=2, phase="Running", node="n", going=0), pod("b", age=1, held=True, going=0)],
            workload("QuotaReserved", r=2),
            {"pods": "a", "roles": {"r": 2}, "absent": 1},
            id="who ends on its node still has its place, who never got one has not",
        ),
        pytest.param(
            [pod("a", age=2, phase="Failed", going=0), pod("b", age=1, phase="Failed", going=0)],
            workload(r=2),
            {"roles": {"r": 2}, "released": "a b", "absent": 2},
            id="deleted by somebody, all of it",
        ),
        pytest.param(
            [pod("a", age=2, phase="Failed", going=0, told=True), pod("b", age=1, phase="Failed", going=0)],
            workload(r=2),
            {"roles": {"r": 2}, "absent": 2},
            id="stopped by us",
        ),
        pytest.param(
            [pod("a", age=2, phase="Succeeded", going=0, told=True), pod("b", age=1, phase="Succeeded")],
            workload(r=2),
            {"pods": "a b", "roles": {"r": 2}},
            id="who ends well though it was told to end has succeeded",
        ),
        pytest.param(
            [pod("a", age=2, phase="Succeeded"), pod("b", age=1, phase="Succeeded")],
            workload("Finished", "QuotaReserved", r=2),
            {"pods": "a b", "roles": {"r": 2}, "released": "a b"},
            id="finished",
        ),
        pytest.param(
            [pod("a", age=3, phase="Succeeded"), pod("b", age=2, held=True), pod("c", age=1, held=True, going=0)],
            workload("Finished", r=1),
            {"pods": "a", "roles": {"r": 1}, "released": "a c"},
            id="who comes after the end",
        ),
        pytest.param(
            [pod("a", age=2), pod("b", age=1)],
            workload("QuotaReserved", r=2, going=True),
            {"pods": "a b", "roles": {"r": 2}, "released": "a b"},
            id="the workload is deleted",
        ),
    ],
)
def test_who_counts(pods: list[Pod], owned: Workload | None, expected: dict[str, Any]) -> None:
    assert seen(membership_of("g", pods, owned, NOW)) == expected


@pytest.mark.parametrize(
    ("one", "owned", "released"),
    [
        (pod("a", group=""), None, ""),
        (pod("a", group="", going=0), None, "a"),
        (pod("a", group="", phase="Succeeded"), workload(main=1), ""),
        (pod("a", group="", phase="Succeeded"), workload("Finished", main=1), "a"),
    ],
)
def test_a_pod_alone_is_one_podset_and_is_let_go_when_it_goes(one: Pod, owned: Workload | None, released: str) -> None:
    membership = membership_of("", [one], owned, NOW)
    assert seen(membership) == {"pods": "a", "roles": {"main": 1}} | ({"released": released} if released else {})


@given(st.permutations([pod("a", age=3), pod("b", "s", age=3), pod("c", age=2, phase="Failed"), pod("d", age=1)]))
def test_the_order_in_which_pods_are_listed_does_not_matter(pods: list[Pod]) -> None:
    for owned in (None, workload("QuotaReserved", r=1, s=1)):
        once = seen(membership_of("g", sorted(pods, key=lambda one: one.metadata.name), owned, NOW))
        assert seen(membership_of("g", pods, owned, NOW)) == once


RUNS: dict[str, Any] = {"phase": "Running", "node": "n"}


@pytest.mark.parametrize(
    ("pods", "suspended", "active", "ready"),
    [
        pytest.param([pod("a", held=True), pod("b", held=True)], True, False, False, id="waits"),
        pytest.param([pod("a"), pod("b", held=True)], False, False, False, id="half open"),
        pytest.param([pod("a", **RUNS), pod("b", **RUNS, ready=True)], False, True, False, id="one is ready"),
        pytest.param([pod("a", **RUNS, ready=True), pod("b", **RUNS, ready=True)], False, True, True, id="ready"),
        pytest.param(
            [pod("a", phase="Succeeded", node="n"), pod("b", **RUNS, ready=True)], False, True, True, id="one succeeded"
        ),
        pytest.param(
            [pod("a", phase="Failed", node="n"), pod("b", **RUNS, ready=True)], False, True, False, id="one failed"
        ),
        pytest.param([pod("a", **RUNS, going=-20), pod("b", held=True)], True, True, False, id="ends"),
        pytest.param([pod("a", **RUNS, going=31), pod("b", held=True)], True, False, False, id="lost with its node"),
    ],
)
def test_how_it_runs(pods: list[Pod], suspended: bool, active: bool, ready: bool) -> None:
    seen = group(*pods)
    assert (SEE.is_suspended(seen), SEE.is_active(seen), SEE.is_ready(seen)) == (suspended, active, ready)


def test_in_a_group_that_serves_who_has_succeeded_is_to_be_replaced() -> None:
    serving: dict[str, Any] = {"pod_group_serving": "true"}
    pods = [pod("a", phase="Succeeded", **serving), pod("b", **RUNS, ready=True, **serving)]
    assert not SEE.is_ready(group(*pods))
    assert SEE.reclaimable(group(*pods)) == ()
    assert SEE.end(group(*(pod(name, phase="Succeeded", **serving) for name in "ab"))) is None


@pytest.mark.parametrize(
    ("phases", "final", "end"),
    [
        pytest.param(["Succeeded", "Succeeded"], False, (True, "Pods succeeded: 2/2."), id="succeeded"),
        pytest.param(["Succeeded", "Running"], False, None, id="goes on"),
        pytest.param(["Succeeded", "Failed"], False, None, id="may be retried"),
        pytest.param(["Succeeded", "Failed"], True, (False, "Pods succeeded: 1/2."), id="may not be retried"),
        pytest.param(["Running", "Failed"], True, None, id="the others go on"),
        pytest.param(["Pending", "Failed"], True, None, id="a replacement waits"),
    ],
)
def test_how_it_ends(phases: list[str], final: bool, end: tuple[bool, str] | None) -> None:
    mark: dict[str, Any] = {"retriable_in_group": "false"} if final else {}
    pods = [pod(f"p{n}", phase=phase, node="n", **mark) for n, phase in enumerate(phases)]
    found = SEE.end(group(*pods))
    assert (None if found is None else (found.success, found.message)) == end


def test_a_pod_alone_ends_as_it_does() -> None:
    failed, done = (
        SEE.end(alone(pod("a", phase="Failed", group=""))),
        SEE.end(alone(pod("a", phase="Succeeded", group=""))),
    )
    assert failed is not None
    assert not failed.success
    assert done is not None
    assert done.success
    assert SEE.end(alone(pod("a", group=""))) is None
    assert SEE.reclaimable(alone(pod("a", phase="Succeeded", group=""))) == ()


def test_who_has_succeeded_needs_no_quota() -> None:
    pods = [pod("a", "x", phase="Succeeded"), pod("b", "y"), pod("c", "x", phase="Succeeded"), pod("d", "x")]
    found = SEE.reclaimable(group(*pods, roles={"x": 3, "y": 1}))
    assert [(one.name, one.count) for one in found] == [("x", 2)]


def test_pods_that_end_are_waited_for_twice_their_grace() -> None:
    assert occupied_until(group(pod("a", **RUNS, going=-10), pod("b", **RUNS))) == NOW + timedelta(seconds=40)
    assert occupied_until(group(pod("a", **RUNS), pod("b"))) is None


def condition(status: WorkloadStatus) -> tuple[str, str] | None:
    return next(
        ((one.status, one.reason) for one in status.conditions if one.type == "WaitingForReplacementPods"), None
    )


def test_it_is_said_that_pods_are_to_be_replaced() -> None:
    nothing = workload().status
    assert with_replacements(nothing, 0, NOW) is nothing
    lacking = with_replacements(nothing, 1, NOW)
    assert condition(lacking) == ("True", "PodsFailed")
    assert with_replacements(lacking, 2, NOW) is lacking
    replaced = with_replacements(lacking, 0, NOW)
    assert condition(replaced) == ("False", "PodsReady")
    assert with_replacements(replaced, 0, NOW) is replaced
    assert condition(with_replacements(workload("Evicted").status, 1, NOW)) == ("True", "R")
