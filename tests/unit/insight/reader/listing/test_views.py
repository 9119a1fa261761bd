"""Objects as a list of many jobs reads them: all that the whole ones say but for what is not read."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.core import NODE, POD, Pod, PodTemplateSpec
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_UID
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import POD_GROUP_NAME_LABEL, POD_GROUP_TOTAL_COUNT
from muster.api.managed.podgroup import group_name
from muster.api.managed.pods import group_size
from muster.api.podgroups.names import GROUP_NAME_ANNOTATION, POD_GROUP_LABEL, VOLCANO_GROUP_NAME_ANNOTATION
from muster.api.pods import job_of, why_unplaced
from muster.insight.history.build import owner_of, sum_traces
from muster.insight.jobs.workers import make_worker, order_workers
from muster.insight.nodes import sum_pods
from muster.insight.reader.jobs.podgroups import GROUP_ANNOTATIONS
from muster.insight.reader.listing.views import (
    JOB_LINES,
    JOB_SET_LINES,
    NODE_LINES,
    POD_DEMANDS,
    POD_LINES,
    WORKLOAD_LINES,
    PodSharer,
    make_sharer,
    shows_all_of,
)
from muster.insight.usage import make_worker_rows
from muster.insight.why.apart import find_jobs_apart
from muster.jobs.interruption import interruption_of
from muster.jobs.job.census import failures_of_index
from muster.jobs.podgroup.reference import reference_of
from muster.queueing.topology.occupants import read_occupied

META = {
    "name": "a",
    "namespace": "ns",
    "uid": "u",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"kueue.x-k8s.io/queue-name": "q"},
    "annotations": {"muster.dev/submitted-by": "ada"},
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "v", "controller": True}],
}
PODS = {"spec": {"containers": [{"name": "c", "command": ["true"]}]}}
REQUESTS = {"requests": {"cpu": "1"}}
WHOLE_CONTAINER = {
    "name": "c",
    "resources": REQUESTS,
    "command": ["a"],
    "env": [{"name": "A", "value": "b"}],
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
NODE_STATUS = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}, "nodeInfo": {"architecture": "arm64"}}
JOB_SPEC = {"parallelism": 2, "completions": 3, "suspend": True, "backoffLimit": 1}
CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "so"}

DEVICES = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "gpu-0"}]}]
OTHERS = {"matchExpressions": [{"key": COMPLETION_INDEX, "operator": "In", "values": ["1"]}]}
TERM = {"labelSelector": OTHERS, "topologyKey": "kubernetes.io/hostname"}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
STARTED = {"startedAt": "2026-01-01T00:00:01Z"}
CONTAINER_STATUS = {"name": "c", "ready": True, "restartCount": 2, "state": {"running": STARTED}}

# Of each kind, an object without what is not read, and the same with it.
CASES: list[tuple[Kind[Any], Kind[Any], dict[str, Any], dict[str, Any]]] = [
    (
        NODE,
        NODE_LINES,
        {"spec": {"unschedulable": True}, "status": NODE_STATUS},
        {"status": NODE_STATUS | {"images": [{"names": ["a"], "sizeBytes": 1}]}},
    ),
    (
        POD,
        POD_LINES,
        {
            "spec": {"nodeName": "n", "priority": 3, "containers": [{"name": "c"}]},
            "status": {"phase": "Running", "conditions": [CONDITION], "containerStatuses": [CONTAINER_STATUS]},
        },
        {
            "spec": {
                "nodeName": "n",
                "priority": 3,
                "volumes": [{"name": "v"}],
                "nodeSelector": {"zone": "a"},
                "containers": [WHOLE_CONTAINER],
            },
            "status": {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "conditions": [CONDITION],
                "containerStatuses": [
                    CONTAINER_STATUS
                    | {"imageID": "i", "allocatedResources": {"cpu": "1"}, "state": {"running": STARTED}}
                ],
            },
        },
    ),
    (
        POD,
        POD_DEMANDS,
        {
            "spec": {"nodeName": "n", "affinity": APART, "containers": [{"name": "c", "resources": REQUESTS}]},
            "status": {"phase": "Running", "containerStatuses": [{"allocatedResourcesStatus": DEVICES}]},
        },
        {
            "spec": {
                "nodeName": "n",
                "affinity": APART,
                "volumes": [{"name": "v"}],
                "schedulingGates": [{"name": "g"}],
                "containers": [WHOLE_CONTAINER],
            },
            "status": {
                "phase": "Running",
                "conditions": [CONDITION],
                "containerStatuses": [CONTAINER_STATUS | {"allocatedResourcesStatus": DEVICES}],
            },
        },
    ),
    (
        JOB,
        JOB_LINES,
        {"spec": JOB_SPEC, "status": {"active": 1, "conditions": [CONDITION]}},
        {"spec": JOB_SPEC | {"template": PODS}},
    ),
    (
        JOB_SET,
        JOB_SET_LINES,
        {"spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": JOB_SPEC}}]}},
        {
            "spec": {
                "replicatedJobs": [
                    {"name": "w", "replicas": 2, "template": {"spec": JOB_SPEC | {"template": PODS}}},
                ]
            }
        },
    ),
    (
        WORKLOAD,
        WORKLOAD_LINES,
        {"spec": {"queueName": "q", "podSets": [{"name": "w", "count": 4}]}, "status": {"conditions": [CONDITION]}},
        {"spec": {"queueName": "q", "podSets": [{"name": "w", "count": 4, "template": PODS}]}},
    ),
]


@pytest.mark.parametrize(("kind", "lines", "rest", "unread"), CASES, ids=lambda case: getattr(case, "kind", ""))
def test_what_is_read_is_as_in_the_whole_object(
    kind: Kind[Any], lines: Kind[Any], rest: dict[str, Any], unread: dict[str, Any]
) -> None:
    managers = {"managedFields": [{"manager": "kubectl", "operation": "Update"}]}
    whole = {"metadata": META | managers} | rest | unread

    line = lines.decode(msgspec.json.encode(whole))

    assert isinstance(line, kind.type)
    assert msgspec.to_builtins(line) == msgspec.to_builtins(kind.typed({"metadata": META} | rest))


OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "v", "controller": True}
ENDED = {"exitCode": 3, "reason": "Error", "message": "no\nspace", "containerID": "x", **STARTED}
READY = {"type": "Ready", "status": "True"}

# What lines of jobs depend on, of a pod beside its index: annotations, spec and status.
PODS_OF_A_JOB: list[tuple[dict[str, str], dict[str, Any], dict[str, Any]]] = [
    ({}, {"nodeName": "n"}, {"phase": "Running", "conditions": [READY], "containerStatuses": [CONTAINER_STATUS]}),
    ({}, {"nodeName": "m"}, {"phase": "Running", "conditions": [READY], "containerStatuses": [CONTAINER_STATUS]}),
    ({}, {"nodeName": "n"}, {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": ENDED}}]}),
    ({}, {"nodeName": "n"}, {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}),
    (
        {"muster.dev/preempted-by": "Preempted by b"},
        {"nodeName": "n"},
        {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "Preempted"}]},
    ),
    (
        {},
        {"priority": 7},
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]},
    ),
    ({"batch.kubernetes.io/job-index-failure-count": "2"}, {"schedulingGates": [{"name": "g"}]}, {"phase": "Pending"}),
    ({"muster.dev/usage": '{"cpuSeconds":1.5,"memoryBytes":7}'}, {"nodeName": "n"}, {"phase": "Succeeded"}),
]


def make_pods(copies: int) -> list[dict[str, Any]]:
    return [
        {
            "metadata": META
            | {
                "name": f"p-{number}-{copy}",
                "uid": f"{number}-{copy}",
                "labels": {COMPLETION_INDEX: str(copy), JOBSET_UID: "s"},
                "annotations": {COMPLETION_INDEX: str(copy), "example.com/note": "x"} | annotations,
                "ownerReferences": [OWNER],
                "finalizers": ["batch.kubernetes.io/job-tracking"],
            },
            "spec": {"containers": [WHOLE_CONTAINER], "hostname": f"h-{copy}"} | spec,
            "status": {"podIP": f"10.0.{number}.{copy}"} | status,
        }
        for copy in range(copies)
        for number, (annotations, spec, status) in enumerate(PODS_OF_A_JOB)
    ]


def describe(pods: list[Pod]) -> Any:
    """Return what the lines of jobs read of these pods."""
    places = order_workers(None, pods)
    each = [
        (make_worker(None, place), interruption_of(place.pod), failures_of_index(place.pod), job_of(place.pod))
        for place in places
    ]
    return each, sum_traces(pods), why_unplaced(pods), [pod.spec.priority for pod in pods]


def test_shared_lines_of_pods_say_what_the_whole_pods_do() -> None:
    documents = make_pods(3)
    lines = list(map(PodSharer(), (POD_LINES.decode(msgspec.json.encode(one)) for one in documents)))

    assert describe(lines) == describe(list(map(POD.typed, documents)))


def test_equal_parts_of_lines_are_kept_once() -> None:
    lines = list(map(PodSharer(), (POD_LINES.decode(msgspec.json.encode(one)) for one in make_pods(50))))

    assert len({id(line.spec) for line in lines}) == 4, "by node, priority and gate"
    assert len({id(line.status) for line in lines}) == len(PODS_OF_A_JOB) - 1
    assert len({id(line.metadata.labels) for line in lines}) == 1
    assert len({id(line.metadata.owner_references) for line in lines}) == 1


def make_rivals() -> list[dict[str, Any]]:
    """Return ten pods of each of two jobs; those of the first close their nodes to pods with the index 1."""
    pods = []
    for number in range(20):
        owner = OWNER | {"name": f"job-{number // 10}", "uid": f"job-{number // 10}"}
        meta = {"name": f"p-{number}", "uid": str(number), "labels": {COMPLETION_INDEX: str(number % 10)}}
        annotations = {COMPLETION_INDEX: str(number % 10), "muster.dev/submitted-by": "ada", "example.com/note": "x"}
        rules = {"affinity": APART} if number < 10 else {}
        spec = {"nodeName": "n", "containers": [WHOLE_CONTAINER], "hostname": f"h-{number}"} | rules
        document = {
            "metadata": META | meta | {"annotations": annotations, "ownerReferences": [owner]},
            "spec": spec,
            "status": {
                "phase": "Running",
                "containerStatuses": [CONTAINER_STATUS | {"allocatedResourcesStatus": DEVICES}],
            },
        }
        pods.append(document)
    return pods


def describe_demands(pods: list[Pod]) -> Any:
    """Return what is shown of the demands of these pods."""
    apart = [find_jobs_apart(pod, pods) for pod in pods]
    owners = [owner_of(pod.metadata) for pod in pods]
    return make_worker_rows(pods, {}), sum_pods(pods), list(map(read_occupied, pods)), apart, owners


def test_shared_demands_of_pods_say_what_the_whole_pods_do() -> None:
    documents, share = make_rivals(), make_sharer(POD_DEMANDS)
    assert share is not None
    demands = [share(POD_DEMANDS.decode(msgspec.json.encode(one))) for one in documents]

    assert describe_demands(demands) == describe_demands(list(map(POD.typed, documents)))
    assert find_jobs_apart(demands[11], demands) == ("job-0",), "the rule selects the index, which is kept"
    assert len({id(one.spec) for one in demands}) == 2


def test_whole_objects_are_kept_as_they_are() -> None:
    assert make_sharer(POD) is None
    assert make_sharer(JOB_LINES) is None


@pytest.mark.parametrize(
    ("labels", "annotations", "spec"),
    [
        ({}, {POD_GROUP_NAME_LABEL: "g", POD_GROUP_TOTAL_COUNT: "3"}, {}),
        ({}, {GROUP_NAME_ANNOTATION: "g"}, {}),
        ({}, {VOLCANO_GROUP_NAME_ANNOTATION: "g"}, {}),
        ({POD_GROUP_LABEL: "g"}, {}, {}),
        ({}, {}, {"schedulingGroup": {"podGroupName": "g"}}),
    ],
)
def test_lines_name_the_group_of_their_pods(
    labels: dict[str, str], annotations: dict[str, str], spec: dict[str, Any]
) -> None:
    document = {"metadata": META | {"labels": labels, "annotations": annotations}, "spec": spec}
    line, whole = POD_LINES.decode(msgspec.json.encode(document)), POD.typed(document)
    line = PodSharer(GROUP_ANNOTATIONS)(line)

    assert reference_of(line) == reference_of(whole)
    assert group_name(line.metadata) == group_name(whole.metadata)
    assert group_size(line.metadata) == group_size(whole.metadata)


@pytest.mark.parametrize(
    ("kind", "view", "expected"),
    [
        (WORKLOAD, WORKLOAD_LINES, True),
        (WORKLOAD_LINES, WORKLOAD, False),
        (WORKLOAD, WORKLOAD.seen_as(dict), False),
        (JOB, WORKLOAD_LINES, False),
    ],
)
def test_whole_objects_show_all_of_their_views(kind: Kind[Any], view: Kind[Any], expected: bool) -> None:
    assert shows_all_of(kind, view) is expected


def test_what_a_newer_server_says_there_is_not_looked_at() -> None:
    line = JOB_LINES.typed({"metadata": META, "spec": JOB_SPEC | {"template": "of another shape"}})

    assert line.spec.template == PodTemplateSpec()
