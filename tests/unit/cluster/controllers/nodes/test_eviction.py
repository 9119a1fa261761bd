"""When pods leave tainted nodes, how, and which leave together."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.core import (
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Taint,
    Toleration,
)
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import FENCED_ANNOTATION
from muster.cluster.controllers.nodes.eviction import (
    Departure,
    make_last_status,
    next_round,
    plan_departure,
    stay_least,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOST = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
REPAIR = Taint(key="repair", effect="NoExecute")
OFF = Taint(key="node.kubernetes.io/out-of-service", effect="NoSchedule")
SINCE = {LOST: 1000.0}


def node(ready: str = "Unknown", *taints: Taint, fenced: bool = True) -> Node:
    annotations = {FENCED_ANNOTATION: "true"} if fenced else {}
    return Node(
        metadata=ObjectMeta(name="n", annotations=annotations),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(conditions=(NodeCondition(type="Ready", status=ready),)),
    )


def pod(phase: str = "Running", *, going: bool = False, grace: int | None = 30, seconds: int | None = 300) -> Pod:
    bears = Toleration(key=LOST.key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)
    meta = ObjectMeta(
        name="p", deletion_timestamp=NOW if going else None, deletion_grace_period_seconds=grace if going else None
    )
    return Pod(metadata=meta, spec=PodSpec(node_name="n", tolerations=(bears,)), status=PodStatus(phase=phase))


WRITTEN_OFF, EVICTED = Departure(1300.0, final=True), Departure(1300.0, final=False)


@pytest.mark.parametrize(
    ("pod", "node", "since", "found"),
    [
        (pod(), node(), SINCE, WRITTEN_OFF),
        (pod(), node(fenced=False), SINCE, EVICTED),
        (pod(), node("False"), SINCE, EVICTED),
        (pod(going=True), node(), SINCE, WRITTEN_OFF),
        (pod(going=True), node(fenced=False), SINCE, None),
        (pod(seconds=None), node(), SINCE, None),
        (pod(going=True, seconds=None), node(), SINCE, None),
        (pod(seconds=0), node(), SINCE, Departure(1000.0, final=True)),
        (pod(), node(), {}, None),
        (pod(), node(), {REPAIR: 1010.0}, Departure(1010.0, final=False)),
        (pod(), node(), {LOST: 1000.0, REPAIR: 1010.0}, Departure(1010.0, final=False)),
        (pod(going=True), node(), {LOST: 1000.0, REPAIR: 1010.0}, WRITTEN_OFF),
        (pod("Succeeded"), node(), SINCE, None),
        (pod("Failed", going=True), node(), SINCE, WRITTEN_OFF),
        (pod("Failed", going=True, grace=0), node(), SINCE, None),
        (pod(going=True), node("Unknown", OFF, fenced=False), {}, Departure(0.0, final=True)),
        (pod(going=True), node("True", OFF), {}, None),
        (pod(), node("Unknown", OFF), {}, None),
    ],
)
def test_when_and_how(pod: Pod, node: Node, since: dict[Taint, float], found: Departure | None) -> None:
    assert plan_departure(pod, node, since, is_heard=False) == found


def test_an_eviction_names_the_first_taint_that_the_pod_does_not_bear() -> None:
    since = {Taint(key="a", effect="NoExecute"): 1010.0, Taint(key="k", value="v", effect="NoExecute"): 1000.0}
    found = plan_departure(pod(), node(), since, is_heard=True)
    assert found is not None
    assert found.taint == "k=v:NoExecute"


@pytest.mark.parametrize("going", [False, True])
def test_a_node_that_renews_again_keeps_its_pods_before_it_says_how_it_is(going: bool) -> None:
    assert plan_departure(pod(going=going), node(), SINCE, is_heard=True) is None


def final(due: float) -> Departure:
    return Departure(due, final=True)


@pytest.mark.parametrize(
    ("departures", "at"),
    [
        ([], None),
        ([final(5)], 5),
        ([final(9), final(1), final(11)], 11),
        ([final(9), final(1), final(11.5)], 9),
        ([Departure(3, final=False), final(9)], 3),
        ([final(1), Departure(3, final=False)], 1),
    ],
)
def test_what_is_lost_together_leaves_together(departures: list[Departure], at: float | None) -> None:
    assert next_round(departures) == at


TAINTED = Departure(1, final=False, taint="k=v:NoExecute")


def test_what_is_written() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    evicted, written_off = make_last_status(pod(), TAINTED, NOW), make_last_status(pod(), final(1), NOW)
    assert set(evicted) == {"conditions"}
    assert condition.items() <= evicted["conditions"][0].items()
    assert evicted["conditions"][0]["message"] == "Taint manager: deleting due to NoExecute taint k=v:NoExecute"
    assert written_off["conditions"][0]["message"] == "Taint manager: node n is unreachable"
    assert (written_off["phase"], written_off["reason"]) == ("Failed", "NodeLost")
    said = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    told = Pod(spec=PodSpec(node_name="n"), status=PodStatus(phase="Running", conditions=(said,)))
    assert make_last_status(told, TAINTED, NOW) == {}
    assert "conditions" not in make_last_status(told, final(1), NOW)
    assert make_last_status(pod("Failed"), final(1), NOW) == {}, "it had failed by itself"


@pytest.mark.parametrize(
    ("age", "final", "due"), [(10, False, 50.0), (1, False, 101.0), (0, False, 102.0), (0, True, 50.0)]
)
def test_a_pod_that_has_just_come_stays_for_a_moment(age: int, due: float, *, final: bool) -> None:
    made = Pod(metadata=ObjectMeta(name="p", creation_timestamp=NOW - timedelta(seconds=age)))
    assert stay_least(Departure(50.0, final=final), made, NOW, 100.0) == Departure(due, final=final)
