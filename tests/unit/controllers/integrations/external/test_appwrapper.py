"""What an AppWrapper wraps, and how many pods of it there are."""

import pytest

from muster.controllers.integrations.external.appwrapper import component_places
from muster.controllers.integrations.external.documents import ExternalJob
from muster.controllers.integrations.framework import UnreadableJobError

PODS = {"spec": {"containers": [{"name": "c", "image": "a/b:1", "env": [{"name": "A"}]}]}}


def places(*components):
    spec = {"components": [{"template": one} if "podSets" not in one else one for one in components]}
    return list(component_places(ExternalJob(spec=spec)))


def wrapped(api_version, kind, spec):
    return {"apiVersion": api_version, "kind": kind, "spec": spec}


def role(replicas, parallelism):
    return {"replicas": replicas, "template": {"spec": {"parallelism": parallelism, "template": PODS}}}


RAY = {"headGroupSpec": {"template": PODS}, "workerGroupSpecs": [{"replicas": 2, "template": PODS}]}
KNOWN = [
    (wrapped("v1", "Pod", PODS["spec"]), [1]),
    (wrapped("apps/v1", "Deployment", {"replicas": 3, "template": PODS}), [3]),
    (wrapped("apps/v1", "StatefulSet", {"template": PODS}), [1]),
    (wrapped("batch/v1", "Job", {"parallelism": 4, "completions": 2, "template": PODS}), [2]),
    (wrapped("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [role(2, 3), role(1, 1)]}), [6, 1]),
    (wrapped("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"template": PODS}}}), [1]),
    (wrapped("ray.io/v1", "RayCluster", RAY), [1, 2]),
    (wrapped("ray.io/v1", "RayJob", {"rayClusterSpec": RAY}), [1, 2]),
    (wrapped("v1", "ConfigMap", {}), []),
]


@pytest.mark.parametrize(("template", "counts"), KNOWN, ids=[one["kind"] for one, _ in KNOWN])
def test_pods_of_known_kinds_are_found(template, counts):
    assert [place.count for place in places(template)] == counts


def test_podsets_are_numbered_over_all_that_is_wrapped():
    found = places(KNOWN[1][0], KNOWN[6][0])
    assert [place.name for place in found] == ["-0", "-1", "-2"]
    assert [place.path[:3] for place in found] == [("spec", "components", number) for number in (0, 1, 1)]


def test_a_template_is_what_kueue_takes_of_it():
    (place,) = places(KNOWN[0][0])
    (container,) = place.template.spec.containers
    assert (container.env, container.image_pull_policy) == ((), "IfNotPresent")
    assert place.template.spec.restart_policy == "Always"


@pytest.mark.parametrize(
    "path", ["", "spec", "templates", "template.", "template..spec", "template.a[x]", "template[0"]
)
def test_a_path_that_is_none_is_told_by_its_field(path):
    with pytest.raises(UnreadableJobError, match=r"^spec\.components\[0\]\.podSets\[0\]\.path: must be a path"):
        places({"podSets": [{"path": path}], "template": {}})
