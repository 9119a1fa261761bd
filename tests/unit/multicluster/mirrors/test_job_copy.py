"""What is made of a Job in a worker cluster."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import JOB
from muster.api.core import PodTemplateSpec
from muster.api.defaults.job import default_job, generate_selector
from muster.api.kueue import PodSet
from muster.api.validation.jobs.job import validate_create
from muster.multicluster.mirrors.job import JobMirror
from muster.multicluster.mirrors.table import mirror_of

MIRROR = JobMirror()
UID = "1f2a"
SERVERS = {
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": UID,
    "job-name": "j",
}
KUEUE = "kueue.x-k8s.io"
MARKS = {f"{KUEUE}/multikueue-origin": "here", f"{KUEUE}/prebuilt-workload-name": "w"}
NOTES = {f"{KUEUE}/prebuilt-workload-name": "w", f"{KUEUE}/multikueue-origin-uid": UID}
CONTAINERS = [{"name": "c", "image": "i"}]


def stored(template: Any = None, metadata: Any = None, **spec: Any) -> Any:
    """A Job as its server has it."""
    given = template or {}
    labels = SERVERS | given.pop("labels", {})
    pods = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": CONTAINERS, **given}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": "team",
            "uid": UID,
            "resourceVersion": "7",
            "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["a/b"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "y", "controller": True}],
            "managedFields": [{"manager": "m"}],
            **(metadata or {}),
        },
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "managedBy": f"{KUEUE}/multikueue",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
            "template": pods,
            **spec,
        },
        "status": {"active": 1, "conditions": [{"type": "Suspended", "status": "False"}]},
    }


def copied(document: Any, workload: str = "w", podsets: Any = ()) -> Any:
    """Its copy, which has to be the same whether it is read as a typed view or as plain JSON."""
    found = MIRROR.copy(document, workload, "here", podsets)
    assert MIRROR.copy(JOB.typed(document), workload, "here", podsets) == found
    return found


def test_it_has_nothing_of_its_server_and_is_ours():
    assert copied(stored(metadata={"labels": {f"{KUEUE}/queue-name": "q"} | SERVERS})) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": "team",
            "labels": {f"{KUEUE}/queue-name": "q"} | MARKS,
            "annotations": NOTES,
        },
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "suspend": True,
            "template": {"metadata": {"labels": {}}, "spec": {"restartPolicy": "Never", "containers": CONTAINERS}},
        },
    }


@pytest.mark.parametrize("suspend", [True, False, None])
def test_it_waits_for_its_worker_whether_the_job_runs_here_or_not(suspend):
    assert copied(stored(suspend=suspend))["spec"]["suspend"] is True


def test_its_end_is_kept_until_it_is_known_here():
    assert "ttlSecondsAfterFinished" not in copied(stored(ttlSecondsAfterFinished=0))["spec"]


def test_a_selector_of_the_users_stays():
    spec = copied(stored(manualSelector=True, template={"labels": {"mine": "x"}}))["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}
    assert spec["template"]["metadata"]["labels"] == SERVERS | {"mine": "x"}


@pytest.mark.parametrize(
    ("annotations", "kept"),
    [
        ({"mine": "x", f"{KUEUE}/elastic-job": "true"}, {"mine": "x", f"{KUEUE}/elastic-job": "true"}),
        ({"muster.dev/elastic": "1:4"}, {f"{KUEUE}/elastic-job": "true"}),
        ({"kubectl.kubernetes.io/last-applied-configuration": "{}"}, {}),
        ({"muster.dev/binding-since": "t", "muster.dev/elastic-cap": "2", "muster.dev/world": "{}"}, {}),
        ({"muster.dev/held-members": "2/u", "muster.dev/stopped-for": "preempted"}, {}),
        ({f"{KUEUE}/stopping": "true"}, {}),
        ({f"{KUEUE}/prebuilt-workload-name": "another"}, {}),
    ],
)
def test_what_is_written_down_about_the_job_here_stays_here(annotations, kept):
    assert copied(stored(metadata={"annotations": annotations}))["metadata"]["annotations"] == kept | NOTES


@pytest.mark.parametrize(("name", "fits"), [("w", True), ("w" * 63, True), ("w" * 64, False), ("a.b", True)])
def test_the_workload_is_named_by_a_label_where_it_fits_in_one(name, fits):
    label = f"{KUEUE}/prebuilt-workload-name"
    meta = copied(stored(metadata={"labels": {label: "another"}}), name)["metadata"]
    assert meta["annotations"][label] == name
    assert meta["labels"].get(label) == (name if fits else None)


def test_fields_that_we_do_not_know_are_kept_of_plain_json():
    document = stored(fromTheFuture={"a": [1]})
    assert MIRROR.copy(document, "w", "here")["spec"]["fromTheFuture"] == {"a": [1]}
    assert document == stored(fromTheFuture={"a": [1]}), "the job itself is left as it was"


def test_what_its_admission_here_injected_stays_here():
    injected: Any = {"labels": {"mine": "x", f"{KUEUE}/podset": "main"}, "nodeSelector": {"zone": "a"}}
    injected |= {"tolerations": [{"key": "spot"}], "schedulingGates": [{"name": f"{KUEUE}/topology"}]}
    original = {"metadata": {"labels": {"mine": "x"}}, "spec": {"tolerations": [{"key": "own"}]}}
    podset = msgspec.convert({"name": "main", "count": 2, "template": original}, PodSet)
    for manual in (False, True):
        found = copied(stored(template=dict(injected), manualSelector=manual), podsets=[podset])["spec"]["template"]
        assert found == {
            "metadata": {"labels": {"mine": "x"} | (SERVERS if manual else {})},
            "spec": {"restartPolicy": "Never", "containers": CONTAINERS, "tolerations": [{"key": "own"}]},
        }


def test_a_server_takes_it():
    document = copied(stored())
    default_job(document)
    document["metadata"]["uid"] = "another"
    generate_selector(document, "another")
    assert validate_create(JOB.typed(document)) == []


@pytest.mark.parametrize(
    ("managed_by", "is_ours"), [(None, False), (f"{KUEUE}/multikueue", True), ("kubernetes.io/job-controller", False)]
)
def test_it_is_handed_over_by_the_name_of_its_controller(managed_by, is_ours):
    assert MIRROR.is_handed_over(JOB.typed(stored(managedBy=managed_by))) is is_ours


@pytest.mark.parametrize(
    ("suspend", "status", "started"),
    [
        (True, {}, False),
        (True, {"active": 1}, True),
        (True, {"terminating": 1}, True),
        (False, {}, True),
        (None, {}, True),
    ],
)
def test_it_has_started_if_it_may_have_pods(suspend, status, started):
    document = {"spec": {"suspend": suspend}, "status": status}
    assert MIRROR.has_started(JOB.typed(document)) is started


ELASTIC = {"annotations": {f"{KUEUE}/elastic-job": "true"}}


@pytest.mark.parametrize(
    ("metadata", "here", "there", "changes"),
    [
        (ELASTIC, {"parallelism": 2, "completions": 2}, {"parallelism": 2, "completions": 2}, {}),
        (ELASTIC, {"parallelism": 1, "completions": 1}, {"parallelism": 2, "completions": 2},
         {"parallelism": 1, "completions": 1}),
        (ELASTIC, {"parallelism": None, "completions": 2}, {"parallelism": 2, "completions": 2}, {"parallelism": 1}),
        ({}, {"parallelism": 1, "completions": 1}, {"parallelism": 2, "completions": 2}, {}),
        (ELASTIC, {"completionMode": "NonIndexed", "parallelism": 1, "completions": 3},
         {"completionMode": "NonIndexed", "parallelism": 2, "completions": 5}, {"parallelism": 1}),
    ],
)  # fmt: skip
def test_an_elastic_one_becomes_as_large_as_the_job_here(metadata, here, there, changes):
    shape = {"completionMode": "Indexed"}
    local = JOB.typed(stored(metadata=metadata, **(shape | here)))
    patch = MIRROR.make_resize_patch(local, JOB.typed(stored(**(shape | there))), [quota(9)])
    assert patch == [{"op": "add", "path": f"/spec/{field}", "value": value} for field, value in changes.items()]


def quota(pods: int) -> PodSet:
    return PodSet(name="main", count=pods, template=PodTemplateSpec())


@pytest.mark.parametrize(
    ("here", "pods", "expected"),
    [
        ({"parallelism": 4, "completions": 4}, 4, (4, 4)),
        ({"parallelism": 4, "completions": 4}, 3, (3, 3)),
        ({"parallelism": 4, "completions": 9}, 3, (3, 9)),
        ({"parallelism": 4, "completions": 2}, 3, (4, 2)),
        ({"parallelism": 4, "completions": 4, "completionMode": "NonIndexed"}, 3, (3, 4)),
    ],
)
def test_an_elastic_one_is_no_larger_there_than_its_quota_here(here, pods, expected):
    local = stored(metadata=ELASTIC, **({"completionMode": "Indexed"} | here))
    copy = MIRROR.copy(local, "w", "here", [quota(pods)])
    assert (copy["spec"]["parallelism"], copy["spec"]["completions"]) == expected
    there = JOB.typed(stored(**({"completionMode": "Indexed"} | copy["spec"])))
    assert MIRROR.make_resize_patch(JOB.typed(local), there, [quota(pods)]) == []


TIED = {f"{KUEUE}/job-min-parallelism": "1", f"{KUEUE}/job-completions-equal-parallelism": "true"}


@pytest.mark.parametrize(
    ("annotations", "here", "expected"),
    [
        (TIED, (1, 1), (3, 3)),
        ({f"{KUEUE}/job-min-parallelism": "1"}, (1, 5), (3, 5)),
        ({}, (1, 5), (3, 5)),
        (TIED, (3, 3), (3, 3)),
        ({}, (9, 3), (9, 3)),
    ],
    ids=["index by index", "one after the other", "a sweep", "not made smaller", "more at once than are to be done"],
)
def test_a_worker_grants_some_of_its_pods_by_itself(annotations, here, expected):
    """The manager's own Job may be smaller by now, and its worker would refuse a Job of the smallest size."""
    local = stored(metadata={"annotations": annotations}, parallelism=here[0], completions=here[1])
    podset = PodSet(name="main", count=3, min_count=1, template=PodTemplateSpec())
    copy = copied(local, podsets=[podset])
    assert (copy["spec"]["parallelism"], copy["spec"]["completions"]) == expected


def test_the_table_knows_it():
    assert isinstance(mirror_of("batch/v1", "Job"), JobMirror)
    assert mirror_of("batch/v1", "CronJob") is None
    assert mirror_of("batch.volcano.sh/v1alpha1", "Job") is None
