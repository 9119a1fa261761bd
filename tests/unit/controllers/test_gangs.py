"""Which pods are part of a gang."""

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Pod
from muster.controllers.gangs import find_gang_of_done, gang_of
from muster.controllers.integrations.pods.gang import PodGroupGangs
from muster.controllers.integrations.table import gang_sources

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
FOREIGN = OWNER | {"apiVersion": "batch.volcano.sh/v1alpha1"}
GROUP = {"kueue.x-k8s.io/pod-group-name": "g"}
COUNT = {"kueue.x-k8s.io/pod-group-total-count": "2"}


@pytest.mark.parametrize(
    ("metadata", "key", "is_group"),
    [
        pytest.param({}, "ns/1", False, id="alone"),
        pytest.param({"ownerReferences": [OWNER]}, "ns/j/u", False, id="of a Job"),
        pytest.param({"ownerReferences": [FOREIGN]}, "ns/1", False, id="of a Job of another group"),
        pytest.param(
            {"labels": GROUP, "annotations": COUNT, "ownerReferences": [FOREIGN]},
            "ns/g/pods",
            True,
            id="of a group that a Job of another group made",
        ),
        pytest.param({"labels": GROUP, "annotations": COUNT}, "ns/g/pods", True, id="of a group"),
        pytest.param({"annotations": GROUP | COUNT}, "ns/g/pods", True, id="of a group by annotation"),
        pytest.param({"annotations": GROUP}, "ns/1", False, id="of a group of unknown size"),
        pytest.param({"annotations": GROUP | COUNT, "ownerReferences": [OWNER]}, "ns/j/u", False, id="a Job's group"),
        pytest.param(
            {"annotations": GROUP | COUNT | {"kueue.x-k8s.io/pod-group-fast-admission": "true"}},
            "ns/1",
            False,
            id="fast",
        ),
        pytest.param({"annotations": GROUP | COUNT | {"muster.dev/gang": "false"}}, "ns/1", False, id="no gang"),
    ],
)
def test_who_belongs_together(metadata, key, is_group):
    pod = msgspec.convert({"metadata": {"namespace": "ns", "name": "p", "uid": "1", **metadata}}, Pod)
    found, source = gang_of(pod, gang_sources())
    assert found == key
    assert isinstance(source, PodGroupGangs) is is_group


GROUPED = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
PLUGIN = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
JOBSET = {
    "annotations": {"muster.dev/gang": "true"},
    "labels": {"jobset.sigs.k8s.io/jobset-name": "j", "jobset.sigs.k8s.io/jobset-uid": "u"},
}


@pytest.mark.parametrize(
    ("template", "status", "key"),
    [
        pytest.param(GROUPED, {"succeeded": 1}, "ns/g/group-name", id="a PodGroup"),
        pytest.param(PLUGIN, {"succeeded": 1}, "ns/g/pod-group", id="a PodGroup of the coscheduling plugin"),
        pytest.param(JOBSET, {"succeeded": 1}, "ns/j/u", id="a JobSet that is one gang"),
        pytest.param(JOBSET, {"failedIndexes": "1"}, "ns/j/u", id="an index has failed"),
        pytest.param(JOBSET, {}, "", id="nothing is done"),
        pytest.param({}, {"succeeded": 1}, "", id="the Job carries its gang"),
    ],
)
def test_a_gang_that_spans_jobs_asks_each_of_them(template, status, key):
    meta = {"namespace": "ns", "name": "job", "uid": "1"}
    job = msgspec.convert({"metadata": meta, "spec": {"template": {"metadata": template}}, "status": status}, Job)
    assert find_gang_of_done(job, gang_sources()) == key
