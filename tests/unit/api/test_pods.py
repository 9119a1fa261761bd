from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from muster.api.meta import ObjectMeta
from muster.api.pods import (
    all_containers,
    find_condition,
    get_priority,
    is_active,
    is_deleting,
    is_finished,
    is_gated,
    is_ready,
    pod_requests,
    qos_class,
    restart_count,
    why_unplaced,
)


def container(restart_policy: Any = None, limits: Any = None, **requests: Any) -> Any:
    resources = ResourceRequirements(requests=requests, limits=limits or {})
    return Container(name="c", resources=resources, restart_policy=restart_policy)


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        (PodSpec(), {}),
        (PodSpec(containers=(container(cpu="500m", memory="1Gi"), container(cpu="1"))), {"cpu": 1500, "memory": 2**30}),
        # limits stand for requests
        (
            PodSpec(containers=(container(limits={"cpu": "2", "memory": "1Ki"}, cpu="1"),)),
            {"cpu": 1000, "memory": 1024},
        ),
        # the greatest init container, if it is more
        (
            PodSpec(containers=(container(cpu="1"),), init_containers=(container(cpu="3"), container(cpu="2"))),
            {"cpu": 3000},
        ),
        (PodSpec(containers=(container(cpu="1"),), init_containers=(container(cpu="500m"),)), {"cpu": 1000}),
        # a sidecar runs beside the containers, and beside the init containers after it
        (PodSpec(containers=(container(cpu="1"),), init_containers=(container("Always", cpu="2"),)), {"cpu": 3000}),
        (
            PodSpec(
                containers=(container(cpu="1"),),
                init_containers=(container(cpu="5"), container("Always", cpu="2"), container(cpu="4")),
            ),
            {"cpu": 6000},
        ),
        (
            PodSpec(
                containers=(container(cpu="1"),), init_containers=(container(cpu="4"), container("Always", cpu="2"))
            ),
            {"cpu": 4000},
        ),
        # what the pod as a whole asks for wins, and the overhead comes on top
        (
            PodSpec(
                containers=(container(cpu="1", memory="1Ki"),),
                resources=ResourceRequirements(requests={"cpu": "5"}),
                overhead={"cpu": "250m", "memory": "1Ki"},
            ),
            {"cpu": 5250, "memory": 2048},
        ),
        (PodSpec(containers=(container(**{"nvidia.com/gpu": "2"}),)), {"nvidia.com/gpu": 2}),
    ],
)
def test_pod_requests(spec: Any, requests: Any) -> None:
    assert pod_requests(spec) == requests


_containers = st.lists(
    st.builds(
        lambda policy, cpu: container(policy, cpu=f"{cpu}m"),
        st.sampled_from([None, "Always"]),
        st.integers(0, 4000),
    ),
    max_size=4,
)


@given(_containers, _containers)
def test_a_pod_never_needs_less_than_at_any_moment(init: Any, main: Any) -> None:
    needed = pod_requests(PodSpec(init_containers=tuple(init), containers=tuple(main))).get("cpu", 0)
    cpu = [int(c.resources.requests["cpu"][:-1]) for c in init]
    sidecars = [n for c, n in zip(init, cpu, strict=True) if c.restart_policy == "Always"]
    moments = [sum(sidecars) + sum(int(c.resources.requests["cpu"][:-1]) for c in main)]
    for i in range(len(init)):
        before = sum(n for other, n in zip(init[:i], cpu[:i], strict=True) if other.restart_policy == "Always")
        moments.append(before + cpu[i])
    assert needed == max(moments)


@pytest.mark.parametrize(
    ("phase", "finished"), [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True), ("", False)]
)
def test_finished(phase: Any, finished: Any) -> None:
    pod = Pod(status=PodStatus(phase=phase))
    assert is_finished(pod) is finished
    assert is_active(pod) is not finished
    deleting = Pod(metadata=ObjectMeta(deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)), status=pod.status)
    assert is_deleting(deleting)
    assert not is_active(deleting)


def test_ready() -> None:
    conditions = (PodCondition(type="Initialized", status="True"), PodCondition(type="Ready", status="False"))
    assert not is_ready(Pod())
    assert not is_ready(Pod(status=PodStatus(conditions=conditions)))
    ready = Pod(status=PodStatus(conditions=(PodCondition(type="Ready", status="True"),)))
    assert is_ready(ready)
    assert find_condition(ready, "Ready") == PodCondition(type="Ready", status="True")
    assert find_condition(ready, "PodScheduled") is None


def test_small_questions() -> None:
    assert get_priority(Pod()) == 0
    assert get_priority(Pod(spec=PodSpec(priority=-5))) == -5
    assert is_gated(Pod(spec=PodSpec(scheduling_gates=(PodSchedulingGate(name="a/b"),))))
    statuses = PodStatus(
        init_container_statuses=(ContainerStatus(name="a", restart_count=1),),
        container_statuses=(ContainerStatus(name="b", restart_count=2), ContainerStatus(name="c")),
    )
    assert restart_count(Pod(status=statuses)) == 3
    spec = PodSpec(init_containers=(Container(name="i"),), containers=(Container(name="c"),))
    assert [each.name for each in all_containers(spec)] == ["i", "c"]


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ((container(),), "BestEffort"),
        ((container(cpu="0"),), "BestEffort"),
        ((container(**{"nvidia.com/gpu": "1"}),), "BestEffort"),
        ((container(cpu="1"),), "Burstable"),
        ((container(limits={"cpu": "1"}),), "Burstable"),
        ((container(limits={"cpu": "1", "memory": "1Gi"}),), "Guaranteed"),
        ((container(limits={"cpu": "1", "memory": "1Gi"}, cpu="1000m", memory="1024Mi"),), "Guaranteed"),
        ((container(limits={"cpu": "1", "memory": "1Gi"}, cpu="500m"),), "Burstable"),
        ((container(limits={"cpu": "1", "memory": "1Gi"}), container()), "Burstable"),
    ],
)
def test_qos_class(containers: Any, qos: Any) -> None:
    assert qos_class(PodSpec(containers=containers)) == qos


def test_qos_class_of_the_pod_as_a_whole() -> None:
    resources = ResourceRequirements(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "1", "memory": "1Gi"})
    assert qos_class(PodSpec(containers=(container(),), resources=resources)) == "Guaranteed"


@pytest.mark.parametrize(
    ("waiting", "why"),
    [
        ([("no room", False, 1)], "no room"),
        ([("no room", False, 1), ("no nodes", False, 2)], "no nodes"),
        ([("no room", False, 1), ("it is gated", True, 2)], "no room"),
        ([("it is gated", True, 2)], "it is gated"),
        ([], ""),
    ],
)
def test_why_pods_have_no_node_is_said_by_those_whose_turn_it_is(waiting, why):
    def pod(message: str, gated: bool, second: int) -> Pod:
        since = datetime(2026, 1, 1, second=second, tzinfo=UTC)
        said = PodCondition(type="PodScheduled", status="False", message=message, last_transition_time=since)
        gates = (PodSchedulingGate(name="g"),) if gated else ()
        return Pod(spec=PodSpec(scheduling_gates=gates), status=PodStatus(conditions=(said,)))

    assert why_unplaced(pod(*one) for one in waiting) == why
