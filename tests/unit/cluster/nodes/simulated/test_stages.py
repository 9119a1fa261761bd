"""Simulated lives: golden steps from state to state, and rules given as data."""

from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.core import POD
from muster.cluster.nodes.simulated.stages import (
    DEFAULT_STAGES,
    Delay,
    Stage,
    advance,
    delay_seconds,
    stage_of,
)
from muster.cluster.nodes.wire import to_wire

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
LATER = datetime(2026, 1, 1, 12, 5, 0, tzinfo=UTC)


def current(pod, rules=DEFAULT_STAGES):
    stage = stage_of(pod, rules)
    assert stage is not None
    return stage


def after(pod, now=NOW):
    """The pod as it is after the stage that it is in."""
    stage = current(pod)
    step = advance(pod, stage, now, "10.0.0.1")
    return msgspec.structs.replace(pod, status=step.status), step.delete


def condition_table(pod):
    return {c.type: (c.status, c.reason) for c in pod.status.conditions}


def test_a_pod_runs_at_once(make_pod):
    pod, delete = after(make_pod({"initContainers": [{"name": "i"}]}))
    assert not delete
    assert to_wire(pod.status)["containerStatuses"] == [
        {
            "name": "main",
            "state": {"running": {"startedAt": NOW}},
            "ready": True,
            "restartCount": 0,
            "image": "",
            "imageID": "",
            "started": True,
        }
    ]
    assert pod.status.init_container_statuses[0].state.terminated.reason == "Completed"
    assert (pod.status.phase, pod.status.start_time, pod.status.host_ip) == ("Running", NOW, "10.0.0.1")
    assert pod.status.pod_ip.startswith("10.")
    assert condition_table(pod)["Ready"] == ("True", "")
    assert stage_of(pod, DEFAULT_STAGES) is None, "nothing says how long it runs"


@pytest.mark.parametrize(
    ("code", "phase", "reason", "word"),
    [("", "Succeeded", "Completed", "PodCompleted"), ("3", "Failed", "Error", "PodFailed"),
     ("nonsense", "Succeeded", "Completed", "PodCompleted")],
)  # fmt: skip
def test_it_ends_as_its_annotations_say(make_pod, code, phase, reason, word):
    annotations = {"muster.dev/run-time": "5m", "muster.dev/exit-code": code}
    pod, _ = after(make_pod(annotations=annotations))
    assert delay_seconds(pod, current(pod), 0.5) == 300
    pod, delete = after(pod, LATER)
    assert (pod.status.phase, delete) == (phase, False)
    ended = pod.status.container_statuses[0].state.terminated
    assert (ended.reason, ended.started_at, ended.finished_at) == (reason, NOW, LATER)
    assert condition_table(pod)["Ready"] == ("False", word)
    assert stage_of(pod, DEFAULT_STAGES) is None


@pytest.mark.parametrize(
    ("policy", "code", "again"), [("Always", "0", True), ("OnFailure", "1", True), ("OnFailure", "0", False)]
)
def test_restart_policies(make_pod, policy, code, again):
    annotations = {"muster.dev/run-time": "5m", "muster.dev/exit-code": code}
    pod, _ = after(make_pod({"restartPolicy": policy}, annotations=annotations))
    pod, _ = after(pod, LATER)
    status = pod.status.container_statuses[0]
    assert (pod.status.phase == "Running") is again
    assert status.restart_count == (1 if again else 0)
    if again:
        assert status.last_state.terminated.exit_code == int(code)
        assert status.state.running.started_at == LATER


def test_a_deleted_pod_ends_and_goes(make_pod):
    pod, _ = after(make_pod(deletionTimestamp="2026-01-01T12:00:00Z", uid="x"))
    assert pod.status.phase == "Failed"
    running, _ = after(make_pod())
    meta = msgspec.structs.replace(running.metadata, deletion_timestamp=NOW)
    pod, delete = after(msgspec.structs.replace(running, metadata=meta), LATER)
    assert (pod.status.phase, delete) == ("Failed", True)
    again, delete = after(msgspec.structs.replace(pod, metadata=meta), LATER)
    assert (again.status, delete) == (pod.status, True), "what is over stays as it was"


def test_conditions_of_others_stay(make_pod):
    gate = {"type": "example.com/gate", "status": "True"}
    pod, _ = after(make_pod(status={"conditions": [gate]}))
    assert condition_table(pod)["example.com/gate"] == ("True", "")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("1.5", 1.5), ("20", 20), ("nonsense", 0), ("-5s", 0), ("", 0)]
)
def test_durations(make_pod, text, seconds):
    stage = Stage(name="x", match=(), next=DEFAULT_STAGES[0].next, delay=Delay(seconds=7, annotations=("a", "b")))
    assert delay_seconds(make_pod(annotations={"b": text}), stage, 0.0) == seconds
    assert delay_seconds(make_pod(), stage, 0.0) == 7


def test_jitter_is_chance():
    stage = Stage(name="x", match=(), next=DEFAULT_STAGES[0].next, delay=Delay(seconds=10, jitter_seconds=4))
    assert delay_seconds(POD.decode(b"{}"), stage, 0.25) == 11


def test_rules_can_be_given_as_data(make_pod):
    data = [
        {
            "name": "chaos",
            "match": [
                {"key": "metadata.labels['chaos']", "operator": "In", "values": ["yes"]},
                {"key": "status.phase", "operator": "In", "values": ["Running"]},
            ],
            "delay": {"seconds": 5, "jitterSeconds": 1},
            "next": {"to": "end", "exitCode": 9},
        },
        {"name": "start", "match": [{"key": "status.phase", "operator": "DoesNotExist"}], "next": {"to": "run"}},
    ]
    rules = msgspec.convert(data, tuple[Stage, ...])
    pod = make_pod(labels={"chaos": "yes"})
    assert stage_of(pod, rules).name == "start"
    running = make_pod(labels={"chaos": "yes"}, status={"phase": "Running", "containerStatuses": [{"name": "main"}]})
    stage = current(running, rules)
    assert stage.name == "chaos"
    assert advance(running, stage, NOW, "").status.container_statuses[0].state.terminated.exit_code == 9


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "x", "match": [], "next": {"to": "fly"}},
        {"name": "x", "match": [], "next": {"to": "run"}, "typo": 1},
        {"name": "x", "match": [{"key": "status.phase", "operator": "Maybe"}], "next": {"to": "run"}},
    ],
)
def test_rules_that_make_no_sense_are_refused(rule):
    with pytest.raises(msgspec.ValidationError, match=r"\$\[0\]"):
        msgspec.convert([rule], tuple[Stage, ...])
