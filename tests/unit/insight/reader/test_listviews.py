"""Objects as a list of many jobs reads them: all that the whole ones say but for what is not read."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import JOB
from muster.api.core import NODE, POD, PodTemplateSpec
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.insight.reader.listviews import (
    JOB_LINES,
    JOB_SET_LINES,
    NODE_LINES,
    POD_LINES,
    WORKLOAD_LINES,
    shows_all_of,
)

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
WHOLE_CONTAINER = {
    "name": "c",
    "resources": {"requests": {"cpu": "1"}},
    "command": ["a"],
    "env": [{"name": "A", "value": "b"}],
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
NODE_STATUS = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}, "nodeInfo": {"architecture": "arm64"}}
JOB_SPEC = {"parallelism": 2, "completions": 3, "suspend": True, "backoffLimit": 1}
CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "so"}

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
        {"spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
        {"spec": {"nodeName": "n", "volumes": [{"name": "v"}], "containers": [WHOLE_CONTAINER]}},
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
    whole = {"metadata": META} | rest | unread

    line = lines.decode(msgspec.json.encode(whole))

    assert isinstance(line, kind.type)
    assert msgspec.to_builtins(line) == msgspec.to_builtins(kind.typed({"metadata": META} | rest))


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
