"""The Jobs of a JobSet, byte for byte (upstream's TestConstructJobsFromTemplate), its Service and its claims."""

import msgspec
import pytest
from tests.unit.jobs.jobset.world import jobset, role

from muster.api.jobset import JOB_SET
from muster.jobs.jobset.children import Children
from muster.jobs.jobset.claims import headless_service, volume_claims

OWNER = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "js",
    "uid": "js-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}
# The SHA-1 of default/js-a-1.
KEY = "5d8ebc7e4df7cff659ca2df55e4c417d8864436f"


def said(**more):
    """Labels, and annotations too, of Job 1 of role `a`."""
    words = {
        "jobset-name": "js",
        "jobset-uid": "js-uid",
        "replicatedjob-name": "a",
        "replicatedjob-replicas": "2",
        "global-replicas": "2",
        "job-index": "1",
        "job-global-index": "1",
        "job-key": KEY,
        "restart-attempt": "0",
        "job-restart-attempt": "0",
        "group-name": "default",
        "group-replicas": "2",
        "job-group-index": "1",
    }
    changed = {name.replace("_", "-"): value for name, value in more.items()}
    return {f"jobset.sigs.k8s.io/{name}": value for name, value in (words | changed).items()}


def as_json(thing):
    return msgspec.json.decode(msgspec.json.encode(thing))


def child(made, name="a", index=1):
    """A child Job as JSON."""
    of = next(role for role in made.spec.replicated_jobs if role.name == name)
    return as_json(Children(made).job(of, index))


def test_all_of_a_job():
    job = child(jobset(role("a", 2, 3, labels={"l": "1"}, annotations={"n": "2"}, backoffLimit=0)))
    assert job == {
        "metadata": {
            "name": "js-a-1",
            "namespace": "default",
            "labels": {"l": "1"} | said(),
            "annotations": {"n": "2"} | said(),
            "ownerReferences": [OWNER],
        },
        "spec": {
            "parallelism": 3,
            "completions": 3,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "suspend": False,
            "template": {
                "metadata": {"labels": said(), "annotations": said()},
                "spec": {"containers": [{"name": "main", "image": "none"}], "subdomain": "js"},
            },
        },
    }


@pytest.mark.parametrize(
    ("roles", "changed"),
    [
        ([role("b", 3), role("a", 2)], {"job_global_index": "4", "global_replicas": "5"}),
        ([role("b", 3), role("a", 2)], {"group_replicas": "5", "job_group_index": "4"}),
        ([role("b", 3), role("a", 2, group="g")], {"group_name": "g", "group_replicas": "2", "job_group_index": "1"}),
        ([role("b", 3, group="g"), role("a", 2, group="g")], {"group_replicas": "5", "job_group_index": "4"}),
    ],
)
def test_where_a_job_is_counted(roles, changed):
    labels = child(jobset(*roles))["metadata"]["labels"]
    assert said(**changed).items() & labels.items() >= {
        (f"jobset.sigs.k8s.io/{name.replace('_', '-')}", value) for name, value in changed.items()
    }


def test_attempts_are_those_of_the_status():
    status = {"restarts": 3, "replicatedJobsStatus": [{"name": "a", "jobRestarts": [5, 7]}]}
    labels = child(jobset(role("a", 2), status=status))["metadata"]["labels"]
    assert labels == said(restart_attempt="3", job_restart_attempt="7")


TOPOLOGY = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
STRATEGY = {"alpha.jobset.sigs.k8s.io/node-selector": "true"}


@pytest.mark.parametrize(
    ("on_jobset", "on_role", "annotated", "own_nodes"),
    [
        ({}, TOPOLOGY, TOPOLOGY, False),
        (TOPOLOGY, {}, TOPOLOGY, False),
        (STRATEGY, {}, {}, False),
        (TOPOLOGY | STRATEGY, {}, TOPOLOGY | STRATEGY, True),
        ({}, TOPOLOGY | STRATEGY, TOPOLOGY | STRATEGY, True),
    ],
)
def test_exclusive_placement(on_jobset, on_role, annotated, own_nodes):
    job = child(jobset(role("a", 2, annotations=on_role), annotations=on_jobset))
    pods = job["spec"]["template"]
    assert job["metadata"]["annotations"] == said() | annotated
    assert pods["metadata"]["annotations"] == said() | annotated
    assert job["metadata"]["labels"] == said()
    toleration = {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
    assert pods["spec"].get("tolerations", []) == ([toleration] if own_nodes else [])
    selector = {"alpha.jobset.sigs.k8s.io/namespaced-job": "default_js-a-1"}
    assert pods["spec"].get("nodeSelector", {}) == (selector if own_nodes else {})


@pytest.mark.parametrize(
    ("network", "subdomain", "publishes"),
    [
        ({"enableDNSHostnames": True}, "js", True),
        ({"enableDNSHostnames": True, "subdomain": "net", "publishNotReadyAddresses": False}, "net", False),
        ({"enableDNSHostnames": False}, None, None),
    ],
)
def test_host_names(network, subdomain, publishes):
    made = jobset(role("a", 2), network=network)
    assert child(made)["spec"]["template"]["spec"].get("subdomain") == subdomain
    service = headless_service(made, JOB_SET.refer_to_controller(made.metadata))
    if subdomain is None:
        assert service is None
        return
    spec = {"clusterIP": "None", "selector": {"jobset.sigs.k8s.io/jobset-name": "js"}}
    assert as_json(service) == {
        "metadata": {"name": subdomain, "namespace": "default", "ownerReferences": [OWNER]},
        "spec": spec | ({"publishNotReadyAddresses": True} if publishes else {}),
    }


def test_jobs_of_a_suspended_jobset_are_suspended():
    assert child(jobset(role("a", 2), suspend=True))["spec"]["suspend"] is True


def claim(name, **retention):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"name": name, "labels": {"l": "1"}, "annotations": {"a": "2"}}, "spec": spec}
    return {"templates": [template], "retentionPolicy": retention} if retention else {"templates": [template]}


def test_volume_claim_policies():
    mounts = [{"name": "data", "mountPath": "/data"}]
    init = [{"name": "i", "image": "none", "volumeMounts": [{"name": "init", "mountPath": "/i"}]}]
    pods = {"spec": {"containers": [{"name": "m", "image": "none", "volumeMounts": mounts}], "initContainers": init}}
    policies = [claim("data"), claim("init", whenDeleted="Retain"), claim("other", whenDeleted="Delete")]
    made = jobset(role("a", 2, template=pods), role("b", 1), volumeClaimPolicies=policies)
    assert child(made)["spec"]["template"]["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-js"}},
        {"name": "init", "persistentVolumeClaim": {"claimName": "init-js"}},
    ]
    assert "volumes" not in child(made, "b", 0)["spec"]["template"]["spec"]
    claims = [as_json(found) for found in volume_claims(made, JOB_SET.refer_to_controller(made.metadata))]
    labels = {"l": "1", "jobset.sigs.k8s.io/jobset-name": "js"}
    meta = {"name": "data-js", "namespace": "default", "labels": labels, "annotations": {"a": "2"}}
    assert claims[0] == {"metadata": meta | {"ownerReferences": [OWNER]}, "spec": claim("x")["templates"][0]["spec"]}
    assert [found["metadata"].get("ownerReferences") for found in claims] == [[OWNER], None, [OWNER]]
