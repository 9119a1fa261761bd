import copy
from typing import Any

import pytest

from muster.api.defaults import default_pod, default_pod_template
from muster.api.defaults.pod import image_tag


def test_a_small_pod_becomes_what_upstream_shows(pod: Any) -> None:
    default_pod(pod)
    assert pod["spec"] == {
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "command": ["true"],
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }


def test_what_only_pods_get(pod: Any) -> None:
    pod["spec"]["hostNetwork"] = True
    pod["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
    }
    template = copy.deepcopy(pod)
    default_pod(pod)
    default_pod_template(template)
    container = pod["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert [port["hostPort"] for port in container["ports"]] == [80, 81]
    assert "enableServiceLinks" not in template["spec"]
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert "hostPort" not in template["spec"]["containers"][0]["ports"][0]


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("busybox", "latest"),
        ("busybox:1.36", "1.36"),
        ("registry:5000/busybox", "latest"),
        ("registry:5000/a/busybox:v1", "v1"),
        ("busybox@sha256:abc", ""),
        ("busybox:v1@sha256:abc", "v1"),
        ("", ""),
    ],
)
def test_image_tag(image: Any, tag: Any) -> None:
    assert image_tag(image) == tag


@pytest.mark.parametrize(
    ("place", "given", "expected"),
    [
        ("livenessProbe", {"exec": {"command": ["true"]}},
         {"exec": {"command": ["true"]}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
          "failureThreshold": 3}),
        ("readinessProbe", {"httpGet": {"port": 80}, "timeoutSeconds": 5, "failureThreshold": 0},
         {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 5, "periodSeconds": 10,
          "successThreshold": 1, "failureThreshold": 3}),
        ("startupProbe", {"grpc": {"port": 80}},
         {"grpc": {"port": 80, "service": ""}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
          "failureThreshold": 3}),
        ("lifecycle", {"preStop": {"httpGet": {"port": "http"}}, "stopSignal": "SIGUSR1"},
         {"preStop": {"httpGet": {"port": "http", "path": "/", "scheme": "HTTP"}}, "stopSignal": "SIGUSR1"}),
        ("ports", [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
         [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]),
        ("env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
         [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]),
        ("env", [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
         [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}}]),
        ("env", [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0.001"}}}],
         [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}]),
        ("env", [{"name": "A", "valueFrom": {"fileKeyRef": {"path": "a", "key": "k", "volumeName": "v"}}}],
         [{"name": "A", "valueFrom": {"fileKeyRef": {"path": "a", "key": "k", "volumeName": "v",
                                                     "optional": False}}}]),
        ("resources", {"requests": {"cpu": 0.5, "memory": "1024Mi", "bad": "x"}},
         {"requests": {"cpu": "500m", "memory": "1Gi", "bad": "x"}}),
    ],
)  # fmt: skip
def test_containers(pod: Any, place: Any, given: Any, expected: Any) -> None:
    for field in ("containers", "initContainers", "ephemeralContainers"):
        subject = copy.deepcopy(pod)
        subject["spec"][field] = [{"name": "main", "image": "a", place: copy.deepcopy(given)}]
        default_pod_template(subject)
        assert subject["spec"][field][0][place] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        ({"secret": {"secretName": "a"}}, {"secret": {"secretName": "a", "defaultMode": 420}}),
        ({"configMap": {"name": "a", "defaultMode": 0}}, {"configMap": {"name": "a", "defaultMode": 0}}),
        ({"hostPath": {"path": "/a"}}, {"hostPath": {"path": "/a", "type": ""}}),
        ({"nfs": {"server": "a"}}, {"nfs": {"server": "a"}}),
        ({"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
         {"downwardAPI": {"defaultMode": 420, "items": [
             {"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}]}}),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}},
                                    {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "b"}}]}}]}},
         {"projected": {"defaultMode": 420, "sources": [
             {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
             {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "b"}}]}}]}}),
        ({"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
         {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                                                         "resources": {}}}}}),
    ],
)  # fmt: skip
def test_volumes(pod: Any, given: Any, expected: Any) -> None:
    pod["spec"]["volumes"] = [{"name": "v", **given}]
    default_pod(pod)
    assert pod["spec"]["volumes"] == [{"name": "v", **expected}]


def test_both_names_of_the_service_account(pod: Any) -> None:
    pod["spec"]["serviceAccount"] = "old"
    default_pod(pod)
    assert pod["spec"]["serviceAccountName"] == "old"
    pod["spec"]["serviceAccountName"] = "new"
    default_pod(pod)
    assert pod["spec"]["serviceAccount"] == "new"


def test_requests_of_the_pod_as_a_whole(pod: Any) -> None:
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    pod["spec"]["resources"] = {"limits": {"cpu": "4", "memory": "1Gi"}}
    default_pod(pod)
    assert pod["spec"]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_a_second_time_changes_nothing(pod: Any) -> None:
    pod["spec"] |= {
        "volumes": [{"name": "a"}, {"name": "b", "configMap": {"name": "c"}}],
        "initContainers": [{"name": "i", "image": "x:1", "resources": {"limits": {"cpu": 1.5}}}],
        "resources": {"limits": {"cpu": "4"}},
        "overhead": {"cpu": "0.0001"},
    }
    default_pod(pod)
    once = copy.deepcopy(pod)
    default_pod(pod)
    assert pod == once
    assert pod["spec"]["overhead"] == {"cpu": "1m"}
