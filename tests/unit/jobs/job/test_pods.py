from typing import Any

import msgspec
import pytest
from tests.unit.jobs.world import job_of, replace

from muster.api.batch import Job
from muster.api.core import POD, Pod
from muster.api.ours.elastic import ELASTIC_ANNOTATION, WORLD_ANNOTATION
from muster.jobs.job.plan import Creation
from muster.jobs.job.pods import PodTemplate

TEMPLATE = {
    "metadata": {"labels": {"app": "a"}, "annotations": {"note": "n"}, "finalizers": ["example.com/own"]},
    "spec": {
        "restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "i"}],
        "containers": [
            {"name": "main", "image": "m"},
            {"name": "own", "image": "o", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]},
        ],
    },
}
INDEX_REF = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}


def pod_of(creation: Creation, name: str = "job", **spec: Any) -> tuple[Pod, dict[str, Any]]:
    job: Job = job_of({"template": TEMPLATE} | spec)
    job = replace(job, metadata=replace(job.metadata, name=name))
    pod = PodTemplate(job).pod(creation)
    return pod, msgspec.json.decode(POD.encode(pod))


def test_pod_of_a_job_without_indexes() -> None:
    _, pod = pod_of(Creation())
    assert pod["metadata"] == {
        "generateName": "job-",
        "namespace": "default",
        "labels": {"app": "a"},
        "annotations": {"note": "n"},
        "finalizers": ["example.com/own", "batch.kubernetes.io/job-tracking"],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "job",
                "uid": "job-uid",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert pod["spec"] == TEMPLATE["spec"]


def test_pod_of_an_index() -> None:
    _, pod = pod_of(Creation(7), completionMode="Indexed", completions=9)
    key = "batch.kubernetes.io/job-completion-index"
    assert pod["metadata"]["generateName"] == "job-7-"
    assert pod["metadata"]["labels"] == {"app": "a", key: "7"}
    assert pod["metadata"]["annotations"] == {"note": "n", key: "7"}
    assert pod["spec"]["hostname"] == "job-7"
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": INDEX_REF}
    assert pod["spec"]["initContainers"][0]["env"] == [variable]
    assert pod["spec"]["containers"][0]["env"] == [variable]
    assert pod["spec"]["containers"][1]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]


def test_counts_of_failures_travel_in_annotations() -> None:
    _, pod = pod_of(Creation(0, failures=0), completionMode="Indexed", completions=1)
    assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "0"
    assert "batch.kubernetes.io/job-index-ignored-failure-count" not in pod["metadata"]["annotations"]
    _, pod = pod_of(Creation(0, failures=2, ignored_failures=1), completionMode="Indexed", completions=1)
    assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "2"
    assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-ignored-failure-count"] == "1"


@pytest.mark.parametrize("index", [0, 12345])
def test_a_long_name_is_cut_before_its_index(index: int) -> None:
    pod, _ = pod_of(Creation(index), name="x" * 63, completionMode="Indexed", completions=99999)
    assert len(pod.metadata.generate_name) == 58
    assert pod.metadata.generate_name.endswith(f"x-{index}-")


@pytest.mark.parametrize(
    ("annotations", "born_with"),
    [
        ({}, {}),
        ({WORLD_ANNOTATION: '{"size":9,"epoch":1}'}, {}),
        (
            {ELASTIC_ANNOTATION: "1:9", WORLD_ANNOTATION: '{"size":9,"epoch":4}'},
            {WORLD_ANNOTATION: '{"size":9,"epoch":4}', "muster.dev/world-size": "9"},
        ),
        (  # the Job has not been told yet: so will it be
            {ELASTIC_ANNOTATION: "1:9", WORLD_ANNOTATION: '{"size":4,"epoch":1}'},
            {WORLD_ANNOTATION: '{"size":9,"epoch":2}', "muster.dev/world-size": "9"},
        ),
    ],
)
def test_pods_of_an_elastic_job_know_their_world_from_birth(
    annotations: dict[str, str], born_with: dict[str, str]
) -> None:
    template = TEMPLATE | {"metadata": {"annotations": {"note": "n", WORLD_ANNOTATION: "the user's"}}}
    job = job_of({"template": template, "completionMode": "Indexed", "completions": 9}, annotations=annotations)
    found = PodTemplate(job).pod(Creation(0)).metadata.annotations
    del found["batch.kubernetes.io/job-completion-index"]
    assert found == {"note": "n", WORLD_ANNOTATION: "the user's"} | born_with
