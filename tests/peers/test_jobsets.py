"""kubectl and JobSets: upstream's samples, columns, what is explained, changed and refused."""

import json
from typing import Any, TypeAlias

import pytest
import yaml
from tests.documents import documents

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]

Kubectl: TypeAlias = Any  # the fixture's class, in conftest

JOB_SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js}
spec:
  suspend: true
  failurePolicy: {maxRestarts: 2, rules: [{action: FailJobSet}]}
  groupSchedulingConfig: {timeoutAfterSeconds: 300}
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        template: {spec: {containers: [{name: main, image: busybox, command: ['true']}]}}
"""
SAMPLES = [document for _, document in documents("manifests/*/*.yaml") if document.get("kind") == "JobSet"]


def test_a_job_set(kubectl: Kubectl) -> None:
    assert "jobset.jobset.x-k8s.io/js created" in kubectl("apply", "-f", "-", input=JOB_SET)
    # Rules of failure are patched whole, without the name that the server has filled in: it is filled in again.
    kubectl("apply", "-f", "-", input=JOB_SET)
    assert kubectl.json("get", "jobset", "js")["metadata"]["generation"] == 1
    assert kubectl("diff", "-f", "-", input=JOB_SET) == ""
    header, row = kubectl("get", "jobsets").splitlines()
    assert header.split() == ["NAME", "TERMINALSTATE", "RESTARTS", "COMPLETED", "SUSPENDED", "AGE"]
    assert row.split()[:3] == ["js", "0", "true"]
    spec = kubectl.json("get", "jobset", "js")["spec"]
    assert spec["failurePolicy"]["rules"][0]["name"] == "failurePolicyRule0"
    assert "Max Restarts" in kubectl("describe", "jobset", "js")
    assert "timeoutAfterSeconds" in kubectl("explain", "jobset.spec.groupSchedulingConfig")
    assert "containers" in kubectl("explain", "jobsets.spec.replicatedJobs.template.spec.template.spec")
    kubectl("patch", "jobset", "js", "--type=merge", "-p", '{"spec": {"ttlSecondsAfterFinished": 60}}')
    # Conditions that named a generation, and an old one, would be waited for in vain.
    assert "condition met" in kubectl("wait", "--for=condition=Suspended", "--timeout=20s", "jobset/js")
    assert kubectl.json("get", "jobset", "js")["status"]["restarts"] == 0
    kubectl("label", "jobset", "js", "team=a")
    assert kubectl("get", "jobset", "-l", "team=a", "-o", "name").strip() == "jobset.jobset.x-k8s.io/js"
    kubectl("delete", "jobset", "js")


def test_a_manifest_that_is_applied_again_leaves_alone_what_others_have_added(kubectl: Kubectl) -> None:
    plain = JOB_SET.replace(
        "failurePolicy: {maxRestarts: 2, rules: [{action: FailJobSet}]}", "ttlSecondsAfterFinished: 9"
    )
    kubectl("apply", "-f", "-", input=plain)
    labels = "/spec/replicatedJobs/0/template/spec/template/metadata"
    added = [{"op": "add", "path": labels, "value": {"labels": {"kueue.x-k8s.io/podset": "workers"}}}]
    kubectl("patch", "jobset", "js", "--type=json", "-p", json.dumps(added))
    assert "unchanged" in kubectl("apply", "-f", "-", input=plain)
    template = kubectl.json("get", "jobset", "js")["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["metadata"] == added[0]["value"]


@pytest.mark.parametrize(
    ("patch", "refusal"),
    [
        (
            '{"spec": {"failurePolicy": {"maxRestarts": 3}}}',
            'spec.failurePolicy: Invalid value: "object": Value is immut',
        ),
        ('{"spec": {"failurePolicy": null}}', 'spec.failurePolicy: Invalid value: "object": Value is immutable'),
        ('{"spec": {"managedBy": "example.com/other"}}', "spec.managedBy: Invalid value: "),
        ('{"spec": {"coordinator": {"replicatedJob": "nobody"}}}', "coordinator replicatedJob nobody does not exist"),
        ('{"spec": {"suspend": "yes"}}', "spec.suspend"),
    ],
)
def test_what_may_not_be_changed(kubectl: Kubectl, patch: str, refusal: str) -> None:
    kubectl("apply", "-f", "-", input=JOB_SET)
    done = kubectl.run("patch", "jobset", "js", "--type=merge", "-p", patch)
    assert done.returncode != 0
    assert refusal in done.stderr


def test_every_sample_would_be_taken(kubectl: Kubectl) -> None:
    for document in SAMPLES:
        document["metadata"].pop("namespace", None)  # the samples' own are not there
    manifests = yaml.safe_dump_all(SAMPLES)
    # It may warn of queues that are not there.
    taken = kubectl.run("create", "--dry-run=server", "--validate=strict", "-f", "-", input=manifests)
    assert taken.returncode == 0, taken.stderr
    assert taken.stdout.count("created (server dry run)") == len(SAMPLES)
