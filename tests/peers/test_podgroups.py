"""kubectl and PodGroups: manifests as the peers' own examples write them, columns, short names, what is refused."""

import time
from typing import Any, TypeAlias

import pytest

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]

Kubectl: TypeAlias = Any  # the fixture's class, in conftest

CONTAINER = "{name: main, image: busybox, command: [sleep, '60'], resources: {requests: {cpu: 10m}}}"

JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: qj-1}}
spec:
  backoffLimit: 6
  completions: 2
  parallelism: 2
  template:
    metadata: {{%s}}
    spec:
      restartPolicy: Never
      containers: [{CONTAINER}]
---
"""
ANNOTATED, LABELLED = "annotations: {%s: qj-1}", "labels: {scheduling.x-k8s.io/pod-group: qj-1}"
KEP, VOLCANO = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"
GROUP = """
apiVersion: {version}
kind: PodGroup
metadata: {{name: qj-1}}
spec: {{{spec}}}
"""


@pytest.mark.parametrize(
    ("version", "spec", "marks", "header", "status"),
    [
        (
            "incubator.scheduling.k8s.io/v1alpha1",
            "minMembers: 2",
            ANNOTATED % KEP,
            "NAME MINMEMBERS ADMITTED RUNNING SUCCEEDED FAILED AGE",
            {"admitted": 2, "running": 2},
        ),
        (
            "scheduling.incubator.k8s.io/v1alpha1",
            "minMember: 2",
            ANNOTATED % KEP,
            "NAME AGE",
            {"phase": "Running", "running": 2},
        ),
        (
            "scheduling.sigs.dev/v1alpha2",
            "minMember: 2, queue: default",
            ANNOTATED % KEP,
            "NAME AGE",
            {"phase": "Running", "running": 2},
        ),
        (
            "scheduling.volcano.sh/v1beta1",
            "minMember: 2, minResources: {cpu: 20m}, queue: default, priorityClassName: ''",
            ANNOTATED % VOLCANO,
            "NAME STATUS MINMEMBER RUNNINGS AGE",
            {"phase": "Running", "running": 2},
        ),
        (
            "scheduling.x-k8s.io/v1alpha1",
            "scheduleTimeoutSeconds: 10, minMember: 2",
            LABELLED,
            "NAME PHASE MINMEMBER RUNNING SUCCEEDED FAILED AGE",
            {"phase": "Running", "running": 2},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "/v1" in value else "",
)
def test_a_job_in_a_group(
    kubectl: Kubectl, version: str, spec: str, marks: str, header: str, status: dict[str, Any]
) -> None:
    manifest = JOB % marks + GROUP.format(version=version, spec=spec)
    assert kubectl("apply", "-f", "-", input=manifest).count("created") == 2
    assert kubectl("apply", "-f", "-", input=manifest).count("unchanged") == 2
    resource = "podgroups." + version.partition("/")[0]
    end = time.monotonic() + 60
    while not status.items() <= kubectl.json("get", resource, "qj-1").get("status", {}).items():
        assert time.monotonic() < end, kubectl.json("get", resource, "qj-1")
        time.sleep(0.2)
    assert kubectl("get", resource).splitlines()[0].split() == header.split()
    assert "Bound 2 pods together" in kubectl("describe", resource, "qj-1")
    assert "start together" in kubectl("explain", "podgroups", f"--api-version={version}")
    kubectl("delete", "job", "qj-1")


def test_names(kubectl: Kubectl) -> None:
    for version, spec in (("scheduling.x-k8s.io/v1alpha1", "minMember: 1"), ("scheduling.volcano.sh/v1beta1", "")):
        kubectl("apply", "-f", "-", input=GROUP.format(version=version, spec=spec))
    assert kubectl("get", "pgs", "-o", "name").split() == ["podgroup.scheduling.x-k8s.io/qj-1"]
    assert kubectl("get", "podgroup-v1beta1", "-o", "name").split() == ["podgroup.scheduling.volcano.sh/qj-1"]
    # Kueue's queues are not hidden behind those of others.
    assert "localqueue" in kubectl("get", "queues", "-n", "default", "-o", "name")


@pytest.mark.parametrize(
    ("version", "spec", "refusal"),
    [
        ("incubator.scheduling.k8s.io/v1alpha1", "", "spec.minMembers: Required value"),
        ("incubator.scheduling.k8s.io/v1alpha1", "minMembers: -1", "spec.minMembers"),
        ("scheduling.x-k8s.io/v1alpha1", "minMember: 0", "spec.minMember in body should be greater than or equal to 1"),
        ("scheduling.volcano.sh/v1beta1", "minMember: -1", "should be greater than or equal to 0"),
        ("scheduling.volcano.sh/v1beta1", "minMember: 1, nonsense: 1", 'unknown field "spec.nonsense"'),
        ("scheduling.sigs.dev/v1alpha2", "minMember: two", "spec.minMember"),
    ],
)
def test_what_is_refused(kubectl: Kubectl, version: str, spec: str, refusal: str) -> None:
    done = kubectl.run("create", "-f", "-", input=GROUP.format(version=version, spec=spec))
    assert done.returncode != 0
    assert refusal in done.stderr


def test_3_6_a_group_of_the_kep_cannot_be_changed(kubectl: Kubectl) -> None:
    version = "incubator.scheduling.k8s.io/v1alpha1"
    kubectl("apply", "-f", "-", input=GROUP.format(version=version, spec="minMembers: 2"))
    done = kubectl.run("apply", "-f", "-", input=GROUP.format(version=version, spec="minMembers: 3"))
    assert "spec: Forbidden: update to PodGroup is not supported" in done.stderr
