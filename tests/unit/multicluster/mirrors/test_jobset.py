"""The mirror of JobSets."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.unit.multicluster.mirrors.merging import merged, plain

from muster.api.conditions import is_true
from muster.api.core import PodTemplateSpec
from muster.api.defaults.jobset import default_job_set
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kueue import PodSet
from muster.api.validation.jobset import validate_create
from muster.multicluster.mirrors.jobset import JobSetMirror
from muster.multicluster.mirrors.table import mirror_of

MIRROR = JobSetMirror()
NOW = datetime(2026, 1, 2, tzinfo=UTC)
KUEUE = "kueue.x-k8s.io"
MULTI = f"{KUEUE}/multikueue"


def role(name: str, **template: Any) -> Any:
    pods = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **template.pop("spec", {})}
    return {"name": name, "replicas": 2, "template": {"spec": {"template": {**template, "spec": pods}}}}


def jobset(status: Any = None, *, roles: Any = None, **spec: Any) -> Any:
    return {
        "metadata": {"name": "js", "namespace": "team", "uid": "u", "resourceVersion": "1"},
        "spec": {"replicatedJobs": [role("a"), role("b")] if roles is None else roles, **spec},
        "status": status or {},
    }


def counted(name: str, **counts: int) -> Any:
    return {"name": name} | dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0) | counts


def condition(type_: str, status: str = "True") -> Any:
    return {"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


RUNNING = {"restarts": 0, "replicatedJobsStatus": [counted("a", active=2, ready=1), counted("b", active=2)]}
RESTING = {"restarts": 0, "conditions": [condition("Suspended")], "replicatedJobsStatus": [counted("a", suspended=2)]}
DONE = {"restarts": 0, "conditions": [condition("Completed")], "terminalState": "Completed"}


def copied(document: Any, podsets: Any = ()) -> Any:
    found = MIRROR.copy(document, "w", "here", podsets)
    assert MIRROR.copy(JOB_SET.typed(document), "w", "here", podsets) == found
    return found


def patched(local: JobSet, patch: Any) -> JobSet:
    status = merged(msgspec.to_builtins(local.status), patch)
    return msgspec.structs.replace(local, status=msgspec.convert(status, type(local.status)))


def test_the_copy_waits_for_its_worker_and_is_kept_until_its_end_is_known():
    found = copied(jobset(managedBy=MULTI, suspend=False, ttlSecondsAfterFinished=0))
    assert found["metadata"] == {
        "name": "js",
        "namespace": "team",
        "labels": {f"{KUEUE}/multikueue-origin": "here", f"{KUEUE}/prebuilt-workload-name": "w"},
        "annotations": {f"{KUEUE}/multikueue-origin-uid": "u", f"{KUEUE}/prebuilt-workload-name": "w"},
    }
    assert found["spec"] == {"replicatedJobs": [role("a"), role("b")], "suspend": True}
    default_job_set(found)
    assert validate_create(JOB_SET.typed(found)) == []


def test_what_its_admission_here_injected_stays_here():
    labels = {"labels": {f"{KUEUE}/podset": "a"}}
    injected = [role("a", metadata=labels, spec={"nodeSelector": {"zone": "x"}}), role("b")]
    podsets = [
        msgspec.convert({"name": name, "count": 2, "template": {"spec": {"nodeSelector": {"own": name}}}}, PodSet)
        for name in "ab"
    ]
    found = copied(jobset(roles=injected), podsets)["spec"]["replicatedJobs"]
    templates = [one["template"]["spec"]["template"] for one in found]
    assert [one["spec"]["nodeSelector"] for one in templates] == [{"own": "a"}, {"own": "b"}]
    assert [one["metadata"] for one in templates] == [{}, {}]


@pytest.mark.parametrize(("managed_by", "is_ours"), [(None, False), (MULTI, True), ("a.b/c", False)])
def test_it_is_handed_over_by_the_name_of_its_controller(managed_by, is_ours):
    assert MIRROR.is_handed_over(JOB_SET.typed(jobset(managedBy=managed_by))) is is_ours


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ((False, {}), (False, RUNNING), RUNNING),
        ((False, RUNNING), (False, RUNNING), RUNNING),
        ((False, RUNNING), (False, DONE), DONE),
        ((False, RUNNING), (True, RESTING), RESTING),
        ((True, {}), (False, RUNNING), None),
        ((True, {}), (True, RESTING), RESTING),
        ((True, RUNNING), (True, RUNNING), RUNNING),
        ((True, {}), (False, DONE), DONE),
        ((False, DONE), (False, RUNNING), DONE),
        ((False, {}), (False, {"replicatedJobsStatus": [counted("x"), counted("b", active=1), counted("b")]}),
         {"restarts": 0, "replicatedJobsStatus": [counted("b", active=1)]}),
        ((False, {}), (False, {"conditions": [condition("Mine"), condition("Mine", "False")]}),
         {"restarts": 0, "conditions": [condition("Mine")]}),
    ],
)  # fmt: skip
def test_it_is_shown_as_its_copy_once_it_may_be(here, there, expected):
    local, remote = (JOB_SET.typed(jobset(status, suspend=suspend)) for suspend, status in (here, there))
    patch = MIRROR.status(local, remote)
    if patch is None:
        assert expected is None
        return
    after = patched(local, patch)
    assert plain(after.status) == expected
    assert MIRROR.status(after, remote) == {}


@pytest.mark.parametrize("status", [RUNNING, {}, RESTING])
def test_of_one_whose_worker_is_lost_nothing_runs(status):
    local = JOB_SET.typed(jobset(status, suspend=True))
    after = patched(local, MIRROR.make_stop_patch(local, NOW))
    assert is_true(after.status.conditions, "Suspended")
    assert all((one.active, one.ready) == (0, 0) for one in after.status.replicated_jobs_status)
    assert MIRROR.make_stop_patch(after, NOW) == {}
    assert MIRROR.make_stop_patch(JOB_SET.typed(jobset(DONE)), NOW) == {}


@pytest.mark.parametrize(
    ("suspend", "status", "started"), [(True, RESTING, False), (True, RUNNING, True), (False, {}, True)]
)
def test_it_has_started_if_it_may_have_pods(suspend, status, started):
    assert MIRROR.has_started(JOB_SET.typed(jobset(status, suspend=suspend))) is started


def quota(*counts: int) -> list[PodSet]:
    return [
        PodSet(name=name, count=count, template=PodTemplateSpec()) for name, count in zip("ab", counts, strict=True)
    ]


ENOUGH = quota(9, 9)


def test_an_elastic_one_becomes_as_large_as_the_jobset_here():
    def sized(elastic: bool, replicas: int, pods: int, name: str = "b") -> JobSet:
        second = role(name) | {"replicas": replicas}
        second["template"]["spec"] |= {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}
        document = jobset(roles=[role("a"), second])
        document["metadata"]["annotations"] = {f"{KUEUE}/elastic-job": "true"} if elastic else {}
        return JOB_SET.typed(document)

    there = sized(False, 2, 3)
    assert MIRROR.make_resize_patch(sized(True, 2, 3), there, ENOUGH) == []
    assert MIRROR.make_resize_patch(sized(False, 1, 1), there, ENOUGH) == []
    assert MIRROR.make_resize_patch(sized(True, 1, 1, name="c"), there, ENOUGH) == []
    path = "/spec/replicatedJobs/1"
    assert MIRROR.make_resize_patch(sized(True, 1, 4), there, ENOUGH) == [
        {"op": "add", "path": f"{path}/replicas", "value": 1},
        {"op": "add", "path": f"{path}/template/spec/parallelism", "value": 4},
        {"op": "add", "path": f"{path}/template/spec/completions", "value": 4},
    ]
    assert MIRROR.make_resize_patch(sized(True, 1, 4), there, quota(1, 3)) == [], "without quota"
    assert len(MIRROR.make_resize_patch(sized(True, 1, 4), there, quota(1, 4))) == 3


def test_the_table_knows_it():
    assert isinstance(mirror_of("jobset.x-k8s.io/v1alpha2", "JobSet"), JobSetMirror)
