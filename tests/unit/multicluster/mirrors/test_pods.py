"""The mirror of plain pods."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.multicluster.mirrors.merging import merged, plain

from muster.api.core import POD, Pod
from muster.api.pods import is_finished
from muster.api.validation.pods.pod import validate_status_update
from muster.multicluster.mirrors.pods import PodMirror
from muster.multicluster.mirrors.table import mirror_of

MIRROR = PodMirror()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
KUEUE = "kueue.x-k8s.io"
GATE = {"name": f"{KUEUE}/admission"}


def condition(type_: str, status: str = "True", reason: str = "") -> Any:
    return {"type": type_, "status": status} | ({"reason": reason} if reason else {})


WAITS = condition("PodScheduled", "False", "SchedulingGated")
HELD = {"phase": "Pending", "conditions": [WAITS], "qosClass": "Burstable"}
RUNS = {
    "phase": "Running",
    "conditions": [condition("PodScheduled"), condition("Ready")],
    "podIP": "10.0.0.1",
    "containerStatuses": [{"name": "c", "ready": True, "restartCount": 0, "image": "i", "imageID": ""}],
    "qosClass": "Burstable",
}
SEEN = RUNS | {"conditions": [WAITS, condition("Ready")]}
DONE = {"phase": "Succeeded", "qosClass": "Burstable"}
TOLD = {"phase": "Failed", "conditions": [condition("TerminationTarget")]}


def pod(status: Any, *, gates: Any = (GATE,), deleting: bool = False, **spec: Any) -> Pod:
    moment = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    given = {"containers": [{"name": "c", "image": "i"}], "schedulingGates": gates, "restartPolicy": "Never", **spec}
    return POD.typed(
        {"metadata": {"name": "p", "namespace": "n", "uid": "u", **moment}, "spec": given, "status": status}
    )


@pytest.mark.parametrize(
    ("local", "remote", "expected"),
    [
        (pod(HELD), pod(RUNS, gates=()), SEEN),
        (pod(SEEN), pod(RUNS, gates=()), SEEN),
        (pod(SEEN), pod(DONE, gates=()), DONE | {"conditions": [WAITS]}),
        (pod(SEEN), pod({"phase": "Failed", "reason": "Evicted"}, gates=()),
         {"phase": "Failed", "reason": "Evicted", "conditions": [WAITS], "qosClass": "Burstable"}),
        (pod(SEEN), pod(RUNS | {"conditions": TOLD["conditions"]}, gates=()), SEEN),  # told to end by its queue there
        (pod(SEEN), pod(TOLD, gates=()), HELD),  # and has ended: it may run anew
        (pod(SEEN), pod(TOLD | DONE, gates=()), DONE | {"conditions": [WAITS]}),
        (pod(DONE), pod(RUNS, gates=()), DONE),
        (pod(HELD, deleting=True), pod(RUNS, gates=()), HELD),
    ],
)  # fmt: skip
def test_it_is_shown_as_its_copy_but_for_its_gate(local, remote, expected):
    after = after_patch(local, MIRROR.status(local, remote))
    assert plain(after.status) == plain(POD.typed({"status": expected}).status)
    assert MIRROR.status(after, remote) == {}


def after_patch(local: Pod, patch: Any) -> Pod:
    status = msgspec.convert(merged(plain(local.status), patch), type(local.status))
    after = msgspec.structs.replace(local, status=status)
    assert [str(error) for error in validate_status_update(after, local)] == []
    return after


@pytest.mark.parametrize("status", [SEEN, HELD])
def test_of_one_whose_worker_is_lost_nothing_runs(status):
    local = pod(status)
    after = after_patch(local, MIRROR.make_stop_patch(local, NOW))
    assert plain(after.status) == plain(pod(HELD).status)
    assert MIRROR.make_stop_patch(after, NOW) == {}
    assert after_patch(after, MIRROR.status(after, pod(RUNS, gates=()))) == pod(SEEN), "it may run anew"


def test_one_that_has_ended_has_nothing_to_stop():
    assert MIRROR.make_stop_patch(pod(DONE), NOW) == {}


def test_the_copy_waits_for_its_worker():
    document = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": {f"{KUEUE}/role-hash": "12"}},
        "spec": {
            "containers": [{"name": "c"}],
            "priorityClassName": "high",
            "priority": 7,
            "preemptionPolicy": "Never",
        },
        "status": HELD,
    }
    copy = MIRROR.copy(document, "w", "here")
    assert copy["metadata"]["annotations"][f"{KUEUE}/role-hash"] == "12"
    assert copy["spec"] == {
        "containers": [{"name": "c"}],
        "priorityClassName": "high",
        "schedulingGates": [GATE],
    }
    assert "status" not in copy


@pytest.mark.parametrize(("gates", "waits"), [((GATE,), True), ((), False)])
def test_it_is_handed_over_as_long_as_it_waits_here_and_has_started_once_it_does_not_there(gates, waits):
    assert MIRROR.is_handed_over(pod(HELD, gates=gates)) is waits
    assert MIRROR.has_started(pod(HELD, gates=gates)) is not waits


@pytest.mark.parametrize(
    ("status", "deleting", "spent"), [(TOLD, True, True), (TOLD, False, False), (RUNS, True, False), (DONE, True, True)]
)
def test_one_that_has_ended_and_is_going_only_waits_for_its_workload(status, deleting, spent):
    assert MIRROR.is_spent(pod(status, gates=(), deleting=deleting)) is spent


def test_the_table_knows_it():
    assert isinstance(mirror_of("v1", "Pod"), PodMirror)


def container(state: Any) -> Any:
    return {"name": "c", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": state}


_STATES = st.sampled_from(
    [
        {},
        {"running": {}},
        {"terminated": {"exitCode": 0}},
        {"terminated": {"exitCode": 1}},
        {"waiting": {"reason": "R"}},
    ]
)
_CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Ready", "PodScheduled", "TerminationTarget", "no type", ""]),
            "status": st.sampled_from(["True", "False"]),
            "observedGeneration": st.sampled_from([0, 0, -1]),
        }
    ),
    max_size=3,
)
_STATUSES = st.fixed_dictionaries(
    {"phase": st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"])},
    optional={
        "conditions": _CONDITIONS,
        "containerStatuses": st.lists(st.builds(container, _STATES), max_size=1),
        "podIP": st.sampled_from(["10.0.0.1", "x"]),
        "podIPs": st.sampled_from([[], [{"ip": "10.0.0.1"}], [{"ip": "y"}]]),
        "nominatedNodeName": st.sampled_from(["n", "N N"]),
        "qosClass": st.sampled_from(["Guaranteed", ""]),
        "observedGeneration": st.sampled_from([0, 3, -1]),
    },
)


@given(st.lists(st.none() | st.tuples(st.booleans(), _STATUSES), max_size=8), st.sampled_from(["Never", "OnFailure"]))
def test_whatever_workers_say_every_update_is_accepted_and_an_end_is_an_end(steps, policy):
    local = pod(HELD, restartPolicy=policy)
    for said in steps:
        remote = pod(said[1], gates=(), deleting=said[0]) if said is not None else None
        patch = MIRROR.make_stop_patch(local, NOW) if remote is None else MIRROR.status(local, remote)
        after = after_patch(local, patch)
        if is_finished(local):
            assert after == local
        local = after


def test_a_container_that_has_ended_and_runs_is_shown_in_two_steps():
    local = pod(HELD | {"phase": "Running", "containerStatuses": [container({"terminated": {"exitCode": 1}})]})
    remote = pod(RUNS, gates=())
    made = after_patch(local, MIRROR.status(local, remote))
    assert plain(made.status) == plain(pod(HELD).status)
    assert after_patch(made, MIRROR.status(made, remote)) == pod(SEEN)


def test_the_copy_leaves_the_gate_for_its_place_to_its_worker():
    """The worker's webhook sets it where places are given; an engine that knows the first gate alone starts it."""
    gates = [GATE, {"name": f"{KUEUE}/topology"}, {"name": "example.com/license"}]
    spec = {"containers": [{"name": "c"}], "schedulingGates": gates}
    copy = MIRROR.copy({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}, "w", "here")
    assert copy["spec"]["schedulingGates"] == [{"name": "example.com/license"}, GATE]
