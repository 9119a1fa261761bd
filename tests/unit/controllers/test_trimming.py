"""What the engine keeps of objects: as much as decisions need, once."""

from operator import is_
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.batch import Job, JobSpec
from muster.api.core import POD, Pod
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import MANAGED_LABEL, POD_GROUP_NAME_LABEL, QUEUE_NAME_LABEL
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.pods import is_ready, pod_requests
from muster.controllers.integrations.external.documents import ExternalJob
from muster.controllers.trimming import LONG_BYTES, MOST_SHARED, ObjectSharer, ObjectTrimmer
from muster.gang.shapes import guest_of
from muster.runtime.objects import is_same_but_status, remove_managed_fields

CONTAINER: dict[str, Any] = {
    "name": "main",
    "image": "registry/image:1",
    "command": ["python", "train.py"],
    "env": [{"name": "A", "value": "b"}],
    "resources": {"requests": {"cpu": "500m"}, "limits": {"example.com/gpu": "1"}},
    "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets"}],
}
TOKEN: dict[str, Any] = {"name": "token", "projected": {"sources": [{"configMap": {"name": "ca"}}]}}


def pod(labels: dict[str, str] | None = None, node: str = "n", **spec: Any) -> Pod:
    """One that runs, if it has a node."""
    meta = {"name": "p", "namespace": "ns", "uid": "u", "labels": labels or {}, "managedFields": [{"manager": "m"}]}
    given = {"containers": [CONTAINER], "volumes": [TOKEN], "nodeName": node, **spec}
    running = {"name": "main", "ready": True, "restartCount": 2, "image": "i", "imageID": "sha256:0",
               "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}  # fmt: skip
    conditions = [{"type": each, "status": "True"} for each in ("Initialized", "Ready", "PodScheduled")]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [running]}
    return POD.decode(msgspec.json.encode({"metadata": meta, "spec": given, "status": status}))


def owned(pod: Pod, job: str) -> Pod:
    owner = msgspec.convert({"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job}, OwnerReference)
    return replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))


PORT = {**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 8080}]}
CLAIM = {"name": "c", "persistentVolumeClaim": {"claimName": "data"}}
OWN = {"name": "o", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
DISK = {"name": "d", "gcePersistentDisk": {"pdName": "disk"}}
SIDECAR = {**PORT, "name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
        ]
    }
}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": [PORT]},
        {"initContainers": [SIDECAR, {**CONTAINER, "resources": {"requests": {"cpu": "9"}}}]},
        {"volumes": [TOKEN, CLAIM, OWN, DISK]},
        {"affinity": APART},
        {"overhead": {"cpu": "100m"}},
    ],
)
def test_a_pod_that_runs_is_to_others_what_it_was(spec: dict[str, Any]) -> None:
    seen = pod({"a": "b"}, **spec)
    kept = ObjectTrimmer()(seen)
    assert guest_of(kept) == guest_of(seen)
    assert pod_requests(kept.spec) == pod_requests(seen.spec)
    assert (kept.metadata.labels, kept.status.phase, is_ready(kept)) == ({"a": "b"}, "Running", True)
    assert [(one.restart_count, one.state) for one in kept.status.container_statuses] == [
        (one.restart_count, one.state) for one in seen.status.container_statuses
    ]


def test_what_a_pod_runs_is_not_kept() -> None:
    seen = pod()
    kept = ObjectTrimmer()(seen)
    assert kept.metadata.managed_fields == ()
    assert kept.spec.volumes == ()
    assert not kept.spec.containers[0].env
    assert len(msgspec.json.encode(kept)) < len(msgspec.json.encode(seen)) * 0.6


@pytest.mark.parametrize(
    "waits_or_queues",
    [
        pod(node=""),
        pod({QUEUE_NAME_LABEL: "q"}),
        pod({MANAGED_LABEL: "true"}),
        pod({POD_GROUP_NAME_LABEL: "g"}),
    ],
)
def test_pods_that_wait_or_queue_are_kept_whole(waits_or_queues: Pod) -> None:
    kept = ObjectTrimmer()(waits_or_queues)
    assert (kept.spec, kept.status) == (waits_or_queues.spec, waits_or_queues.status)


def test_beside_nodes_of_this_process_all_of_a_pod_is_kept_and_equal_parts_once() -> None:
    keep = ObjectSharer()
    labels = {"example.com/team": "of many pods"}
    first, second, other = (keep(pod(labels, containers=[CONTAINER | {"image": image}])) for image in "aab")
    assert first == remove_managed_fields(pod(labels, containers=[CONTAINER | {"image": "a"}]))
    assert all(map(is_, first.metadata.labels.values(), second.metadata.labels.values()))
    assert first.spec.containers is second.spec.containers
    assert first.spec.volumes is other.spec.volumes
    assert first.spec.containers[0].env is other.spec.containers[0].env
    assert first.spec.containers != other.spec.containers
    first, second = (keep(owned(pod(serviceAccountName="of many pods"), "job of pods")) for _ in range(2))
    assert first.spec.service_account_name is second.spec.service_account_name
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.status.conditions is second.status.conditions
    assert first.status.container_statuses is second.status.container_statuses


@pytest.mark.parametrize(
    ("changed", "shares"),
    [
        ({}, {"metadata", "spec"}),
        ({"status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}}, {"metadata", "spec"}),
        ({"status": {}}, {"metadata", "spec"}),
        ({"spec": {"containers": [CONTAINER], "nodeName": "other"}}, {"metadata"}),
        ({"metadata": {"labels": {"c": "d"}}}, {"spec"}),
        ({"metadata": {"deletionTimestamp": "2026-11-30T00:00:00Z"}}, {"spec"}),
        ({"metadata": {"ownerReferences": []}}, {"spec"}),
        ({"metadata": {"annotations": {"e": "f"}}}, {"spec"}),
    ],
)
def test_a_new_state_shares_what_did_not_change(changed: dict[str, Any], shares: set[str]) -> None:
    before = owned(pod({"a": "b"}), "job")
    document = {**msgspec.to_builtins(before), **{name: part for name, part in changed.items() if name != "metadata"}}
    document["metadata"] = {**document["metadata"], "resourceVersion": "99", **changed.get("metadata", {})}
    after = POD.typed(document)
    keep = ObjectSharer()
    old = keep(before)
    new = keep(after, old)
    assert new == remove_managed_fields(after)
    shared = {"metadata"} if new.metadata.labels is old.metadata.labels else set()
    assert shared | ({"spec"} if new.spec is old.spec else set()) == shares
    assert is_same_but_status(old, new) == (shares == {"metadata", "spec"})


def test_a_new_state_of_another_kind_shares_its_metadata_and_its_spec() -> None:
    keep = ObjectSharer()
    jobs = [Job(metadata=ObjectMeta(name="j", labels={"a": "b"}, resource_version=str(n))) for n in range(2)]
    jobs.append(replace(jobs[1], spec=JobSpec(parallelism=2)))
    first = keep(jobs[0])
    second = keep(jobs[1], first)
    third = keep(jobs[2], second)
    assert [first, second, third] == jobs
    assert is_same_but_status(first, second)
    assert not is_same_but_status(second, third)
    assert keep({"metadata": {"name": "j"}}, {"metadata": {"name": "j"}}) == {"metadata": {"name": "j"}}


@pytest.mark.parametrize("corrected", [1.0, True])
def test_a_spec_of_any_json_is_kept_as_it_is_written(corrected: object) -> None:
    keep = ObjectSharer()
    first, second = (ExternalJob(metadata=ObjectMeta(name="j"), spec={"replicas": value}) for value in (1, corrected))
    assert first == second, "for Python"
    kept = keep(second, keep(first))
    assert type(kept.spec["replicas"]) is type(corrected)


def workload(number: int, command: str = "train") -> Workload:
    template = {"spec": {"containers": [{**CONTAINER, "command": [command]}]}}
    meta = {"name": f"w-{number}", "namespace": "ns", "uid": str(number)}
    return WORKLOAD.typed({"metadata": meta, "spec": {"podSets": [{"name": "main", "count": 2, "template": template}]}})


def test_what_many_have_alike_is_kept_once() -> None:
    keep = ObjectTrimmer()
    first, second, other = keep(workload(1)), keep(workload(2)), keep(workload(3, "test"))
    assert second == workload(2)
    assert other == workload(3, "test")
    assert first.spec.pod_sets[0].template is second.spec.pod_sets[0].template
    mine, others = (one.spec.pod_sets[0].template.spec.containers[0] for one in (first, other))
    assert mine is not others
    assert mine.env is others.env
    assert mine.resources is others.resources
    assert keep(pod()).spec.containers is keep(pod()).spec.containers


def test_what_is_remembered_has_a_limit() -> None:
    keep = ObjectTrimmer()
    first = keep(workload(0))
    for number in range(MOST_SHARED):
        keep(workload(number, f"command-{number}"))
    assert keep(workload(0)) == first
    assert keep(workload(0)).spec.pod_sets[0].template is not first.spec.pod_sets[0].template


def test_what_is_long_is_not_remembered_but_its_parts_are() -> None:
    keep, long = ObjectTrimmer(), "x" * LONG_BYTES
    first, second = (keep(workload(number, long)).spec.pod_sets[0].template.spec for number in (1, 2))
    assert first == second
    assert first is not second
    assert first.containers[0].env is second.containers[0].env
