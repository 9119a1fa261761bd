"""What a node says about a pod: container states and conditions, in the kubelet's words."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from muster.cluster.nodes.pod.facts import Attempt, ContainerFacts, Exit, Now, PodFacts
from muster.cluster.nodes.pod.machine import decide
from muster.cluster.nodes.pod.status import shorten_status

NOW = Now(datetime(2026, 1, 1, 12, 0, 0, 999, tzinfo=UTC), 100.0)
EXIT = Exit(0, "Completed", "words", NOW.wall, NOW.wall, 90.0, 5.0, "process://one")


def status(pod, known=None, *, prepared=True, **more):
    found = {name: ContainerFacts(attempt) for name, attempt in (known or {}).items()}
    facts = PodFacts(
        found, prepared=prepared, start_time=NOW.wall, address="127.1.0.1", host_address="127.0.0.1", **more
    )
    return decide(pod, facts, NOW).status


def conditions(found):
    return {c.type: (c.status, c.reason, c.message) for c in found.conditions}


RUNNING = Attempt(2, "process://two", NOW.wall, started=True, ready=True)
TWO = {
    "initContainers": [{"name": "i", "image": "x", "command": ["x"]}],
    "containers": [{"name": "a", "image": "img", "command": ["x"]}, {"name": "b", "command": ["x"]}],
}


def test_a_new_pod(make_pod):
    found = status(make_pod(TWO), prepared=False)
    assert conditions(found) == {
        "PodReadyToStartContainers": ("False", "", ""),
        "Initialized": ("False", "ContainersNotInitialized", "containers with incomplete status: [i]"),
        "Ready": ("False", "ContainersNotReady", "containers with unready status: [a b]"),
        "ContainersReady": ("False", "ContainersNotReady", "containers with unready status: [a b]"),
        "PodScheduled": ("True", "", ""),
    }
    assert [s.state.waiting.reason for s in found.init_container_statuses] == ["PodInitializing"]
    assert [s.state.waiting.reason for s in found.container_statuses] == ["PodInitializing"] * 2
    assert (found.host_ip, found.pod_ip, found.observed_generation) == ("127.0.0.1", "", 1)


@pytest.mark.parametrize(("count", "share"), [(1, 12288), (3, 4096), (64, 192)])
def test_containers_share_the_room_for_termination_messages(make_pod, count, share):
    """The kubelet's rule: 12 KiB for all of a pod."""
    names = [f"c{number}" for number in range(count)]
    pod = make_pod({"containers": [{"name": name, "image": "x", "command": ["x"]} for name in names]})
    ended = replace(RUNNING, exit=replace(EXIT, message="\u00e9" * 6144))
    found = status(pod, dict.fromkeys(names, ended))
    assert {len(one.state.terminated.message.encode()) for one in found.container_statuses} == {share}


def test_a_short_status_says_what_has_become_of_the_pod(make_pod):
    pod = make_pod({"containers": [{"name": f"c{number}" + "x" * 50, "command": ["x"]} for number in range(20)]})
    found = shorten_status(status(pod))
    assert (found.phase, found.container_statuses, found.init_container_statuses) == ("Pending", (), ())
    assert [len(one.message) for one in found.conditions if one.type == "Ready"] == [256]
    assert found.host_ip == "127.0.0.1"


def test_without_init_containers_it_is_being_created(make_pod):
    assert status(make_pod()).container_statuses[0].state.waiting.reason == "ContainerCreating"


def test_a_running_pod(make_pod):
    done = replace(RUNNING, number=0, exit=EXIT)
    found = status(make_pod(TWO), {"i": done, "a": RUNNING, "b": replace(RUNNING, ready=False)})
    assert found.phase == "Running"
    assert conditions(found) == {
        "PodReadyToStartContainers": ("True", "", ""),
        "Initialized": ("True", "", ""),
        "Ready": ("False", "ContainersNotReady", "containers with unready status: [b]"),
        "ContainersReady": ("False", "ContainersNotReady", "containers with unready status: [b]"),
        "PodScheduled": ("True", "", ""),
    }
    init = found.init_container_statuses[0]
    assert (init.ready, init.started, init.state.terminated.reason) == (True, False, "Completed")
    first = found.container_statuses[0]
    assert (first.ready, first.started, first.restart_count, first.image) == (True, True, 2, "img")
    assert first.container_id == "process://two"
    assert first.state.running.started_at == NOW.wall.replace(microsecond=0)
    assert (found.pod_ip, [ip.ip for ip in found.pod_ips]) == ("127.1.0.1", ["127.1.0.1"])


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "PodCompleted"), (1, "Failed", "PodFailed")])
def test_a_pod_that_is_over(make_pod, code, phase, reason):
    found = status(make_pod(), {"main": replace(RUNNING, exit=replace(EXIT, code=code))})
    assert found.phase == phase
    assert conditions(found)["Ready"] == ("False", reason, "")
    assert conditions(found)["ContainersReady"] == ("False", reason, "")
    assert conditions(found)["Initialized"] == ("True", "PodCompleted" if code == 0 else "", "")
    ended = found.container_statuses[0].state.terminated
    assert (ended.exit_code, ended.message, ended.container_id) == (code, "words", "process://one")


def test_the_run_before_is_the_last_state(make_pod):
    facts = {"main": ContainerFacts(RUNNING, previous=replace(EXIT, code=9))}
    pod = make_pod({"restartPolicy": "Always"})
    found = decide(pod, PodFacts(facts, prepared=True, start_time=NOW.wall), NOW).status
    assert found.container_statuses[0].last_state.terminated.exit_code == 9


GATE = {"readinessGates": [{"conditionType": "example.com/gate"}]}


@pytest.mark.parametrize(
    ("said", "ready"),
    [
        (None, ("False", 'corresponding condition of pod readiness gate "example.com/gate" does not exist.')),
        ("False", ("False", 'the status of pod readiness gate "example.com/gate" is not True')),
        ("True", ("True", "")),
    ],
)
def test_readiness_gates(make_pod, said, ready):
    gate = [{"type": "example.com/gate", "status": said}] if said else []
    found = status(make_pod(GATE, status={"conditions": gate}), {"main": RUNNING})
    assert conditions(found)["ContainersReady"][0] == "True"
    assert conditions(found)["Ready"][::2] == ready


def test_transition_times_are_kept_until_a_condition_flips(make_pod):
    old = "2020-01-01T00:00:00Z"
    before = [
        {"type": "Ready", "status": "True", "lastTransitionTime": old},
        {"type": "Initialized", "status": "False", "lastTransitionTime": old},
    ]
    found = status(make_pod(status={"conditions": before}), {"main": RUNNING})
    times = {c.type: c.last_transition_time for c in found.conditions}
    assert times["Ready"] == datetime(2020, 1, 1, tzinfo=UTC)
    assert times["Initialized"] == NOW.wall.replace(microsecond=0)
