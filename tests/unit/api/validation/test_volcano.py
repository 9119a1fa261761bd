"""Rules of Volcano's Jobs."""

from typing import Any

import msgspec
import pytest

from muster.api.defaults.volcano import default_volcano_job
from muster.api.validation.volcano import list_warnings, validate_create, validate_status_update, validate_update
from muster.api.volcano import Job

LONG = "a" * 64


def task(name: str = "w", **more: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"name": name, "replicas": 2, "template": template, **more}


def job(*tasks: dict[str, Any], name: str = "j", **spec: Any) -> Job:
    meta = {"name": name, "namespace": "n", "uid": "u", "resourceVersion": "1"}
    document = {"metadata": meta, "spec": {"tasks": list(tasks or (task(),)), **spec}}
    default_volcano_job(document)
    return msgspec.convert(document, Job)


def fields(errors: Any) -> list[str]:
    return [error.path for error in errors]


def policies(*given: dict[str, Any]) -> dict[str, Any]:
    return {"policies": list(given)}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"minAvailable": 1, "plugins": {"env": [], "svc": ["--publish-not-ready-addresses=true"], "ssh": ["--any"]}},
        policies({"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "RestartPod"}),
        policies({"events": ["PodEvicted", "TaskCompleted"], "action": "CompleteJob"}),
        policies({"exitCode": 3, "action": "AbortJob"}, {"exitCode": 4, "action": "TerminateJob"}),
        policies({"event": "PodPending", "action": "RestartTask", "timeout": "1h30m"}),
        policies({"event": "*", "action": "RestartJob"}),
        {"volumes": [{"mountPath": "/a", "volumeClaimName": "c"}, {"mountPath": "/b", "volumeClaim": {}}]},
        {"networkTopology": {"mode": "soft"}, "queue": "training"},
    ],
)
def test_what_is_good_upstream_is_good(spec: dict[str, Any]) -> None:
    assert validate_create(job(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minAvailable": 3}, "spec.minAvailable"),
        ({"plugins": {"mpi": []}}, "spec.plugins"),
        ({"plugins": {"svc": ["--no-such"]}}, "spec.plugins[svc]"),
        ({"plugins": {"pytorch": []}}, "spec.plugins[pytorch]"),
        (policies({"action": "RestartJob"}), "spec.policies[0]"),
        (policies({"event": "PodFailed", "exitCode": 1, "action": "RestartJob"}), "spec.policies[0]"),
        (policies({"event": "PodFailed", "action": "SyncJob"}), "spec.policies[0].action"),
        (policies({"event": "PodFailed", "action": "RestartPartition"}), "spec.policies[0].action"),
        (policies({"event": "OutOfSync", "action": "RestartJob"}), "spec.policies[0].event"),
        (policies({"event": "JobUpdated", "action": "RestartJob"}), "spec.policies[0].event"),
        (policies({"exitCode": 0, "action": "RestartJob"}), "spec.policies[0].exitCode"),
        (policies(*[{"exitCode": 3, "action": "AbortJob"}] * 2), "spec.policies[1].exitCode"),
        (policies(*[{"event": "PodFailed", "action": "AbortJob"}] * 2), "spec.policies[1].event"),
        (policies({"events": ["*", "PodFailed"], "action": "AbortJob"}), "spec.policies"),
        (policies({"event": "PodPending", "action": "AbortJob"}), "spec.policies[0].timeout"),
        (policies({"event": "PodPending", "action": "AbortJob", "timeout": "soon"}), "spec.policies[0].timeout"),
        (policies({"event": "PodFailed", "action": "AbortJob", "timeout": "1m"}), "spec.policies[0].timeout"),
        ({"volumes": [{"mountPath": "/a"}]}, "spec.volumes[0]"),
        ({"volumes": [{"mountPath": "/a", "volumeClaimName": "c"}] * 2}, "spec.volumes[1].mountPath"),
        ({"queue": LONG}, "spec.queue"),
    ],
)
def test_what_cannot_be_done_is_refused(spec: dict[str, Any], field: str) -> None:
    assert fields(validate_create(job(**spec))) == [field]


@pytest.mark.parametrize(
    ("tasks", "field"),
    [
        ([task(minAvailable=3)], "spec.tasks[0].minAvailable"),
        ([task(), task()], "spec.tasks[1].name"),
        ([task(policies=[{"event": "Never", "action": "AbortJob"}])], "spec.tasks[0].policies[0].event"),
        ([task(partitionPolicy={"totalPartitions": 2, "partitionSize": 1})], "spec.tasks[0].partitionPolicy"),
        ([task(template={"spec": {"containers": []}})], "spec.tasks[0].template.spec.containers"),
        ([task(dependsOn={"name": ["x"]})], "spec.tasks[0].dependsOn.name[0]"),
        ([task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})], "spec.tasks"),
        ([task(replicas=10_001)], "spec.tasks"),
        ([task(f"w{i}", replicas=1) for i in range(101)], "spec.tasks"),
    ],
)
def test_tasks_that_cannot_run_are_refused(tasks: list[dict[str, Any]], field: str) -> None:
    assert field in fields(validate_create(job(*tasks)))


def test_of_too_many_tasks_that_alone_is_said() -> None:
    (error,) = validate_create(job(*[task("w", minAvailable=3)] * 101))
    assert (error.path, error.value, error.detail) == ("spec.tasks", 101, "must have at most 100 items")
    assert validate_create(job(*[task(f"w{i}", replicas=1) for i in range(100)], plugins={"svc": []})) == []


def test_a_job_has_a_task() -> None:
    made = msgspec.structs.replace(job(), spec=msgspec.structs.replace(job().spec, tasks=()))
    assert "spec.tasks" in fields(validate_create(made))


def test_names_that_pods_cannot_have_are_refused_only_where_they_are_host_names() -> None:
    assert fields(validate_create(job(task("w" * 50), name="j" * 20, plugins={"svc": []}))) == ["spec.tasks[0].name"]
    assert fields(validate_create(job(name="a.b", plugins={"svc": []}))) == ["spec.tasks[0].name", "metadata.name"]
    assert validate_create(job(task("w" * 50), name="j" * 20)) == []
    assert fields(validate_create(job(name=LONG))) == ["metadata.name"]


def test_hosts_have_room_in_what_they_are_written_to() -> None:
    many = task(replicas=9_000)
    assert fields(validate_create(job(many, plugins={"svc": []}))) == []
    long = task("w" * 30, replicas=9_000)
    assert fields(validate_create(job(long, plugins={"svc": []}))) == ["spec.tasks[0].replicas"]
    assert validate_create(job(long, plugins={"svc": ["--inject-hosts-env=false"]})) == []
    longest = task("w" * 50, replicas=9_000)
    arguments = ["--inject-hosts-env=false"]
    assert fields(validate_create(job(longest, plugins={"svc": arguments}))) == ["spec.tasks"]


def test_a_job_can_grow_and_shrink_and_nothing_else() -> None:
    old = job(task(), minAvailable=1)
    assert validate_update(job(task(replicas=4, minAvailable=3), minAvailable=3, priorityClassName="high"), old) == []
    assert fields(validate_update(job(task(replicas=1, minAvailable=1), minAvailable=2), old)) == ["spec.minAvailable"]
    assert fields(validate_update(job(task(), minAvailable=1, maxRetry=7), old)) == ["spec"]
    assert fields(validate_update(job(task("other"), minAvailable=1), old)) == ["spec"]
    assert validate_status_update(old, old) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, []),
        ({"plugins": {"ssh": []}}, ["spec.plugins"]),
        ({"queue": "training"}, ["spec.queue"]),
        ({"networkTopology": {"mode": "hard"}}, ["spec.networkTopology"]),
        ({"tasks": [task(topologyPolicy="best-effort")]}, ["spec.tasks[0].topologyPolicy"]),
        ({"tasks": [task(topologyPolicy="none")]}, []),
        ({"schedulerName": "yunikorn"}, ["spec.schedulerName"]),
        (
            {"tasks": [task(template={"spec": {"schedulerName": "mine", "containers": []}})], "schedulerName": "none"},
            [],  # as of any template
        ),
    ],
)
def test_what_does_nothing_here_is_said(spec: dict[str, Any], said: list[str]) -> None:
    tasks = spec.pop("tasks", [task()])
    assert [warning.partition(": ")[0] for warning in list_warnings(job(*tasks, **spec), {"volcano"})] == said
