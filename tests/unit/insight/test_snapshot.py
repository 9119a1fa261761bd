"""What a snapshot keeps of an object."""

import json
from typing import Any

import pytest

from muster.api.batch import JOB
from muster.api.core import NODE, POD
from muster.api.jobset import JOB_SET
from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD
from muster.insight.snapshot import reduce_object

SECRET = "hunter2"
META = {
    "name": "n",
    "namespace": "lab",
    "uid": "u",
    "labels": {"app": "x"},
    "annotations": {"acme.com/key": SECRET, "kueue.x-k8s.io/priority-boost": "3", "muster.dev/submitted-by": "ada"},
    "managedFields": [{"manager": SECRET}],
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "o", "controller": True, "x": 1}],
}
POD_SPEC = {
    "nodeName": "a",
    "nodeSelector": {"zone": "a"},
    "priority": 7,
    "serviceAccountName": SECRET,
    "imagePullSecrets": [{"name": SECRET}],
    "volumes": [{"name": "v", "secret": {"secretName": SECRET}}],
    "hostAliases": [{"ip": "1.1.1.1", "hostnames": [SECRET]}],
    "initContainers": [{"name": "i", "image": SECRET, "restartPolicy": "Always", "envFrom": [SECRET]}],
    "containers": [
        {
            "name": "c",
            "image": SECRET,
            "command": [SECRET],
            "args": [SECRET],
            "env": [{"name": "A", "value": SECRET}],
            "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
            "livenessProbe": {"exec": {"command": [SECRET]}},
            "volumeMounts": [{"name": SECRET, "mountPath": SECRET}],
            "workingDir": SECRET,
            "ports": [{"containerPort": 80}, {"name": SECRET, "containerPort": 81, "hostPort": 81}],
            "resources": {"requests": {"cpu": "1"}},
        }
    ],
}
TEMPLATE = {"metadata": META, "spec": POD_SPEC}
OBJECTS = {
    POD: {"metadata": META, "spec": POD_SPEC, "status": {"phase": "Running", "message": SECRET, "podIP": SECRET}},
    JOB: {"metadata": META, "spec": {"parallelism": 2, "template": TEMPLATE, "podFailurePolicy": SECRET}},
    JOB_SET: {
        "metadata": META,
        "spec": {
            "network": SECRET,
            "replicatedJobs": [
                {"name": "w", "replicas": 2, "template": {"metadata": META, "spec": {"template": TEMPLATE}}}
            ],
        },
    },
    WORKLOAD: {"metadata": META, "spec": {"queueName": "q", "podSets": [{"name": "main", "template": TEMPLATE}]}},
    NODE: {
        "metadata": META,
        "spec": {"taints": [{"key": "t"}], "providerID": SECRET},
        "status": {
            "allocatable": {"cpu": "4"},
            "addresses": [SECRET],
            "images": [SECRET],
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": SECRET}],
        },
    },
    CLUSTER_QUEUE: {"metadata": META, "spec": {"cohortName": "c"}, "status": {"pendingWorkloads": 3}},
}


def _reduce(kind: Any, document: Any) -> Any:
    reduced = reduce_object(kind, document)
    assert reduced is not None
    return reduced


@pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.kind)
def test_an_object_is_kept_without_what_users_would_not_share(kind):
    document = OBJECTS[kind]
    reduced = _reduce(kind, document)
    assert SECRET in json.dumps(document)
    assert SECRET not in json.dumps(reduced)
    assert (reduced["apiVersion"], reduced["kind"]) == (kind.api_version, kind.kind)
    assert reduced["metadata"] == {
        "name": "n",
        "namespace": "lab",
        "uid": "u",
        "labels": {"app": "x"},
        "annotations": {"kueue.x-k8s.io/priority-boost": "3", "muster.dev/submitted-by": "ada"},
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "o", "controller": True}],
    }


def test_a_pod_keeps_what_places_it():
    assert _reduce(POD, OBJECTS[POD])["spec"] == {
        "nodeName": "a",
        "nodeSelector": {"zone": "a"},
        "priority": 7,
        "initContainers": [{"name": "i", "image": "none", "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "c",
                "image": "none",
                "resources": {"requests": {"cpu": "1"}},
                "ports": [{"containerPort": 81, "hostPort": 81}],
            }
        ],
    }


def test_a_queue_keeps_its_spec_and_a_node_its_conditions():
    assert _reduce(CLUSTER_QUEUE, OBJECTS[CLUSTER_QUEUE])["spec"] == {"cohortName": "c"}
    node = _reduce(NODE, OBJECTS[NODE])
    assert node["status"] == {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
    assert node["spec"] == {"taints": [{"key": "t"}]}


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (POD, {"phase": "Succeeded"}),
        (POD, {"phase": "Failed"}),
        (WORKLOAD, {"conditions": [{"type": "Finished", "status": "True"}]}),
        (JOB, {"conditions": [{"type": "Complete", "status": "True"}]}),
        (JOB, {"conditions": [{"type": "Failed", "status": "True"}]}),
        (JOB_SET, {"conditions": [{"type": "Completed", "status": "True"}]}),
    ],
)
def test_what_has_finished_is_left_out(kind, status):
    assert reduce_object(kind, OBJECTS[kind] | {"status": status}) is None
