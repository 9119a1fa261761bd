"""A review in, an answer out: what new objects get, what is refused and in whose words, what is let alone."""

from base64 import b64decode
from typing import Any, TypeVar

import msgspec
import pytest

from muster.api.config import DEFAULT
from muster.api.config.frameworks import BUILT_IN
from muster.api.kinds import Kind
from muster.api.patch import json as json_patch
from muster.webhooks.decisions import ReviewDecisions
from muster.webhooks.reviews import read

T = TypeVar("T")
Json = dict[str, Any]

QUEUE = "kueue.x-k8s.io/queue-name"
DECISIONS = ReviewDecisions(
    msgspec.structs.replace(DEFAULT, integrations=msgspec.structs.replace(DEFAULT.integrations, frameworks=BUILT_IN))
)
WORLD: dict[tuple[str, str, str], Json] = {
    ("localqueues.kueue.x-k8s.io", "team", "default"): {"spec": {"clusterQueue": "cq"}},
    ("localqueues.kueue.x-k8s.io", "far", "lq"): {"spec": {"clusterQueue": "remote"}},
    ("clusterqueues.kueue.x-k8s.io", "", "remote"): {
        "spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk"}]}}
    },
    ("admissionchecks.kueue.x-k8s.io", "", "mk"): {"spec": {"controllerName": "kueue.x-k8s.io/multikueue"}},
    ("jobs.batch", "ns", "parent"): {"metadata": {"name": "parent", "uid": "u1", "labels": {QUEUE: "lq"}}},
    ("namespaces", "", "kube-system"): {"metadata": {"labels": {"kubernetes.io/metadata.name": "kube-system"}}},
}


def find(kind: Kind[T], namespace: str, name: str) -> T | None:
    found = WORLD.get((kind.resource, namespace, name))
    return kind.typed(found) if found is not None else None


RESOURCES = {
    "Job": ("batch", "v1", "jobs"),
    "Pod": ("", "v1", "pods"),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "ClusterQueue": ("kueue.x-k8s.io", "v1beta2", "clusterqueues"),
    "ResourceFlavor": ("kueue.x-k8s.io", "v1beta2", "resourceflavors"),
    "Unknown": ("example.com", "v1", "unknowns"),
}


def review(document: Json, old: Json | None = None, namespace: str = "ns") -> bytes:
    group, version, resource = RESOURCES[document["kind"]]
    request = {
        "uid": "1",
        "resource": {"group": group, "version": version, "resource": resource},
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": namespace,
        "object": document,
        "oldObject": old,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def response(answer: bytes) -> Any:
    decoded = msgspec.json.decode(answer)
    assert (decoded["apiVersion"], decoded["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert decoded["response"]["uid"] == "1"
    return decoded["response"]


def mutated(document: Json, old: Json | None = None, namespace: str = "ns") -> list[Json]:
    answer = response(DECISIONS.mutate(read(review(document, old, namespace)), find))
    assert answer["allowed"], answer
    if "patch" not in answer:
        return []
    assert answer["patchType"] == "JSONPatch"
    operations: list[Json] = msgspec.json.decode(b64decode(answer["patch"]))
    return operations


def refusal(document: Json, old: Json | None = None) -> str:
    """Of `validate`; "" if it is allowed."""
    answer = response(DECISIONS.validate(read(review(document, old)), find))
    assert answer["allowed"] == ("status" not in answer)
    return "" if answer["allowed"] else answer["status"]["message"]


CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}


def job(labels: Json | None = None, owner: Json | None = None, **spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    meta: Json = {"name": "j", "labels": labels or {}}
    if owner:
        meta["ownerReferences"] = [owner]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template, **spec}}


def pod(labels: Json | None = None, annotations: Json | None = None) -> Json:
    meta = {"name": "p", "labels": labels or {}, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [CONTAINER]}}


def queue(*flavors: str, **spec: Any) -> Json:
    listed = [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": "1"}]} for flavor in flavors]
    groups = [{"coveredResources": ["cpu"], "flavors": listed}]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "cq"},
        "spec": {"resourceGroups": groups, **spec},
    }


PARENT = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "u1", "controller": True}
SUSPENDED = {"op": "add", "path": "/spec/suspend", "value": True}
IN_USE = {"op": "add", "path": "/metadata/finalizers", "value": ["kueue.x-k8s.io/resource-in-use"]}


@pytest.mark.parametrize(
    ("document", "namespace", "patch"),
    [
        pytest.param(job({QUEUE: "lq"}), "ns", [SUSPENDED], id="a queued Job is suspended"),
        pytest.param(job({QUEUE: "lq"}, suspend=True), "ns", [], id="one that is suspended stays so"),
        pytest.param(job(), "ns", [], id="one without a queue runs"),
        pytest.param(
            job(),
            "team",
            [{"op": "add", "path": "/metadata/labels/kueue.x-k8s.io~1queue-name", "value": "default"}, SUSPENDED],
            id="or gets the default of its namespace",
        ),
        pytest.param(job({QUEUE: "lq"}), "kube-system", [], id="a namespace may not be managed"),
        pytest.param(job({QUEUE: "lq"}, PARENT), "ns", [], id="its parent queues"),
        pytest.param(
            job({QUEUE: "lq"}),
            "far",
            [SUSPENDED, {"op": "add", "path": "/spec/managedBy", "value": "kueue.x-k8s.io/multikueue"}],
            id="it is to run in another cluster",
        ),
        pytest.param(queue("f"), "", [IN_USE], id="a ClusterQueue is held while it is used"),
        pytest.param(
            {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}},
            "",
            [IN_USE],
            id="so is a flavor",
        ),
        pytest.param({"kind": "Unknown", "metadata": {"labels": {QUEUE: "lq"}}}, "ns", [], id="nothing is known of it"),
        pytest.param(pod(), "ns", [], id="a pod that says nothing of queues"),
    ],
)
def test_what_new_objects_get(document: Json, namespace: str, patch: list[Json]) -> None:
    assert mutated(document, namespace=namespace) == patch


def test_a_queued_pod_waits_at_a_gate() -> None:
    by_path = {one["path"]: one["value"] for one in mutated(pod({QUEUE: "lq"}))}
    assert by_path["/spec/schedulingGates"] == [
        {"name": "kueue.x-k8s.io/admission"},
        {"name": "kueue.x-k8s.io/topology"},
    ]
    assert by_path["/metadata/finalizers"] == ["kueue.x-k8s.io/managed"]
    assert by_path["/metadata/labels/kueue.x-k8s.io~1managed"] == "true"


def test_a_change_is_no_new_object() -> None:
    running = job({QUEUE: "lq"}, suspend=False)
    assert mutated(running, running) == []


def jobset(labels: Json) -> Json:
    roles = [{"name": "w", "template": {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}}]
    meta = {"name": "s", "namespace": "ns", "labels": labels}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"replicatedJobs": roles},
    }


def test_a_jobset_gets_its_defaults_and_waits() -> None:
    document = jobset({QUEUE: "lq"})
    complete = json_patch.apply(document, mutated(document))
    assert (complete["spec"]["suspend"], complete["spec"]["successPolicy"]) == (True, {"operator": "All"})
    assert refusal(complete) == ""
    assert "restartPolicy: Required value" in refusal(document), "without its defaults it would be refused"


@pytest.mark.parametrize("labels", [{}, {QUEUE: "lq"}])
def test_the_manifest_of_a_jobset_can_be_applied_again(labels: Json) -> None:
    """`kubectl apply` sends the whole list of roles, as it is written."""
    document = jobset(labels)
    stored = json_patch.apply(document, mutated(document))
    again = {**stored, "spec": stored["spec"] | document["spec"]}
    assert "field is immutable" in refusal(again, stored)
    assert json_patch.apply(again, mutated(again, stored)) == stored


@pytest.mark.parametrize("labels", [{}, {QUEUE: "lq"}])
def test_a_jobset_that_was_stored_without_its_defaults_can_be_changed(labels: Json) -> None:
    """It came while no webhook answered."""
    stored = jobset(labels) | {"spec": json_patch.apply(jobset({}), mutated(jobset({})))["spec"]}
    del stored["spec"]["network"], stored["spec"]["successPolicy"]
    labelled = {**stored, "metadata": stored["metadata"] | {"labels": labels | {"a": "b"}}}
    complete = json_patch.apply(labelled, mutated(labelled, stored))
    assert complete["spec"]["successPolicy"] == {"operator": "All"}
    assert refusal(complete, stored) == ""


@pytest.mark.parametrize(
    "spec", [None, {"replicatedJobs": None}, {"replicatedJobs": [{"name": "w", "template": None}]}]
)
def test_a_null_is_as_good_as_nothing(spec: Any) -> None:
    """The definition of JobSets refuses these, after the webhooks were asked."""
    document = {"kind": "JobSet", "metadata": {"name": "s", "namespace": "ns", "labels": {QUEUE: "lq"}}, "spec": spec}
    complete = json_patch.apply(document, mutated(document))
    assert (complete["spec"]["suspend"], complete["spec"]["successPolicy"]) == (True, {"operator": "All"})


@pytest.mark.parametrize(
    ("document", "old", "message"),
    [
        (job({QUEUE: "lq"}), None, ""),
        (
            job({QUEUE: "No_Name"}),
            None,
            'metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: "No_Name": a lowercase RFC 1123 subdomain',
        ),
        (
            job({QUEUE: "b"}, suspend=False),
            job({QUEUE: "a"}, suspend=False),
            'metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: "b": field is immutable',
        ),
        (queue("f"), None, ""),
        (
            queue("f", "f"),
            None,
            'spec.resourceGroups[0].flavors[1].name: Duplicate value: "f"',
        ),
        (pod({"kueue.x-k8s.io/managed": "false"}), None, "metadata.labels[kueue.x-k8s.io/managed]: Forbidden: managed"),
        (pod(), None, ""),
        ({"kind": "Unknown", "metadata": {}}, None, ""),
        (job({QUEUE: "lq"}, parallelism="many"), None, 'Job in version "v1" cannot be handled as a Job: Expected `int'),
    ],
)
def test_what_is_refused(document: Json, old: Json | None, message: str) -> None:
    assert refusal(document, old)[: len(message) or None] == message


@pytest.mark.parametrize("kind", RESOURCES)
@pytest.mark.parametrize(
    "nonsense",
    [{"spec": 1}, {"spec": {"template": []}}, {"spec": {"resourceGroups": {}}}, {"metadata": {"labels": [1]}}, {}],
)
def test_nonsense_is_answered_not_raised(kind: str, nonsense: Json) -> None:
    """A server sends none; whoever else finds the port may."""
    body = review({"kind": kind, "metadata": {}} | nonsense)
    for decide in (DECISIONS.mutate, DECISIONS.validate):
        assert response(decide(read(body), find))["allowed"] in (True, False)


# Kinds of Kueue's default Configuration beside the engine's own.

OF_KUEUE = (*BUILT_IN, "deployment", "statefulset", "kubeflow.org/pytorchjob", "sparkoperator.k8s.io/sparkapplication")
WITH_KUEUES = ReviewDecisions(
    msgspec.structs.replace(DEFAULT, integrations=msgspec.structs.replace(DEFAULT.integrations, frameworks=OF_KUEUE))
)
APPS = {"Deployment": ("apps", "v1", "deployments"), "StatefulSet": ("apps", "v1", "statefulsets")}
RESOURCES |= APPS | {
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs"),
    "RayCluster": ("ray.io", "v1", "rayclusters"),
    "SparkApplication": ("sparkoperator.k8s.io", "v1beta2", "sparkapplications"),
}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}


def of_kind(kind: str, spec: Json, **metadata: Any) -> Json:
    return {"kind": kind, "metadata": {"name": "x", "labels": {QUEUE: "lq"}} | metadata, "spec": spec}


def as_mutated(document: Json, known: Any = find) -> Json:
    answer = response(WITH_KUEUES.mutate(read(review(document)), known))
    assert answer["allowed"], answer
    patch: list[Json] = msgspec.json.decode(b64decode(answer["patch"])) if "patch" in answer else []
    return json_patch.apply(document, patch)


def test_a_job_of_another_projects_kind_is_suspended() -> None:
    spec = {"pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}}
    assert as_mutated(of_kind("PyTorchJob", spec))["spec"]["runPolicy"] == {"suspend": True}


def test_pods_of_deployments_and_statefulsets_are_made_to_queue() -> None:
    made = as_mutated(of_kind("Deployment", {"template": TEMPLATE}))["spec"]["template"]["metadata"]
    assert made["labels"] == {QUEUE: "lq", "kueue.x-k8s.io/managed": "true"}
    assert made["annotations"] == {"kueue.x-k8s.io/pod-suspending-parent": "deployment"}
    stateful = as_mutated(of_kind("StatefulSet", {"template": TEMPLATE, "replicas": 2}, uid="u"))
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x", "uid": "u", "controller": True}
    part = pod() | {"metadata": stateful["spec"]["template"]["metadata"] | {"name": "x-0", "ownerReferences": [owner]}}

    def known(kind: Kind[T], namespace: str, name: str) -> T | None:
        return kind.typed(stateful) if kind.kind == "StatefulSet" else find(kind, namespace, name)

    held = as_mutated(part, known)
    assert held["metadata"]["labels"][QUEUE] == "lq"
    assert held["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]
    assert held["spec"]["schedulingGates"] == gates


@pytest.mark.parametrize("kind", ["SparkApplication", "RayCluster"])
def test_who_names_a_queue_on_what_does_not_wait_is_warned(kind: str) -> None:
    warning = f"{QUEUE}: no integration for {kind} is enabled, it does not wait in a queue"
    document = of_kind(kind, {})
    assert response(WITH_KUEUES.validate(read(review(document)), find))["warnings"] == [warning]
    assert "warnings" not in response(WITH_KUEUES.validate(read(review(document, document)), find))
    assert "warnings" not in response(WITH_KUEUES.validate(read(review(of_kind(kind, {}, labels={}))), find))


NONSENSE = [{"spec": {"template": 1}}, {"spec": {"pytorchReplicaSpecs": [1]}}, {"status": []}, {"spec": None}]


@pytest.mark.parametrize("kind", [*APPS, "PyTorchJob", "RayCluster"])
@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_of_these_kinds_is_answered_not_raised(kind: str, nonsense: Json) -> None:
    body = review({"kind": kind, "metadata": {"labels": {QUEUE: "lq"}}} | nonsense)
    for decide in (WITH_KUEUES.mutate, WITH_KUEUES.validate):
        assert response(decide(read(body), find))["allowed"] in (True, False)
