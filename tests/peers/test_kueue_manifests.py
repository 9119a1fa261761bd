"""kubectl and the Kueue kinds: upstream's sample manifests, both versions, short names, columns, explain."""

import re
from typing import Any, TypeAlias

import pytest
import yaml
from tests.documents import documents

from muster.api.kueue import GROUP

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]

Kubectl: TypeAlias = Any  # the fixture's class, in conftest

# In both versions: what differs between them is what is applied.
SETUP = """
apiVersion: kueue.x-k8s.io/{version}
kind: ResourceFlavor
metadata: {{name: {name}}}
---
apiVersion: kueue.x-k8s.io/{version}
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  {cohort}: team
  namespaceSelector: {{}}
  {checks}
  flavorFungibility: {{whenCanBorrow: {stop}}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: {name}
      resources: [{{name: cpu, nominalQuota: {quota}}}]
---
apiVersion: kueue.x-k8s.io/{version}
kind: LocalQueue
metadata: {{name: users}}
spec: {{clusterQueue: {name}}}
"""
RULES = "admissionChecksStrategy: {admissionChecks: [{name: a}]}"


def new(name: str, quota: str = "9") -> str:
    return SETUP.format(
        name=name, version="v1beta2", cohort="cohortName", checks=RULES, stop="MayStopSearch", quota=quota
    )


def old(name: str, quota: str = "9") -> str:
    return SETUP.format(
        name=name, version="v1beta1", cohort="cohort", checks="admissionChecks: [a]", stop="Borrow", quota=quota
    )


@pytest.fixture
def name(kubectl: Kubectl) -> Any:
    """Of objects that have no namespace."""
    yield kubectl.namespace
    for resource in ("cq", "rf"):
        kubectl.run("patch", resource, kubectl.namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        kubectl.run("delete", resource, kubectl.namespace)


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def test_apply_and_get(kubectl: Kubectl, name: str) -> None:
    assert kubectl("apply", "-f", "-", input=new(name)).count("created") == 3
    assert kubectl("apply", "-f", "-", input=new(name)).count("unchanged") == 3
    assert f"clusterqueue.kueue.x-k8s.io/{name} configured" in kubectl("apply", "-f", "-", input=new(name, "10"))
    assert rows(kubectl("get", "cq", name))[0] == ["NAME", "COHORT", "PENDING WORKLOADS"]
    assert rows(kubectl("get", "cq", name, "-o", "wide"))[0][-1] == "ADMITTED WORKLOADS"
    assert rows(kubectl("get", "queue"))[1][:2] == ["users", name]
    assert kubectl("get", "flavors", name, "-o", "name").strip() == f"resourceflavor.kueue.x-k8s.io/{name}"
    assert "nominalQuota" in kubectl("explain", "cq.spec.resourceGroups.flavors.resources")
    assert "Stop Policy" in kubectl("describe", "lq", "users")


def test_the_old_version(kubectl: Kubectl, name: str) -> None:
    # kubectl prints the warning of every request, which `kubectl()` would not have.
    applied = kubectl.run("apply", "-f", "-", input=old(name))
    assert applied.returncode == 0, applied.stderr
    assert "This version is deprecated. Use v1beta2 instead." in applied.stderr
    assert kubectl.run("apply", "-f", "-", input=old(name, "10")).returncode == 0
    spec = kubectl.json("get", "cq", name)["spec"]
    assert (spec["cohortName"], spec["flavorFungibility"]["whenCanBorrow"]) == ("team", "MayStopSearch")
    assert spec["admissionChecksStrategy"] == {"admissionChecks": [{"name": "a"}]}
    shown = kubectl.run("get", "clusterqueues.v1beta1.kueue.x-k8s.io", name, "-o", "jsonpath={.spec.cohort}")
    assert shown.stdout == "team"


def test_every_sample_would_be_taken(kubectl: Kubectl) -> None:
    samples = [
        document
        for _, document in documents("manifests/kueue/*.yaml")
        if document["apiVersion"].startswith(f"{GROUP}/")
    ]
    for document in samples:
        document["metadata"].pop("namespace", None)  # the samples' own are not there
    manifests = yaml.safe_dump_all(samples)
    taken = kubectl.run("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=manifests)
    assert taken.stdout.count("(server dry run)") == len(samples)
    # `muster up` made an object of the same name as a sample, without kubectl: that is all that it says.
    assert all("last-applied-configuration" in line for line in taken.stderr.splitlines()), taken.stderr
