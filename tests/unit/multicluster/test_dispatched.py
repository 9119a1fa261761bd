"""Of what has our mark in a worker, what was made for the very job that is here."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import JOB, Job
from muster.api.core import POD, Pod
from muster.api.kinds import Kind
from muster.api.kueue import Workload
from muster.api.meta import OwnerReference
from muster.multicluster.dispatch.views import RemoteJob
from muster.multicluster.dispatched import Dispatched
from muster.multicluster.mirrors.job import JobMirror
from muster.multicluster.mirrors.pods import PodMirror

PREBUILT, UID = "kueue.x-k8s.io/prebuilt-workload-name", "kueue.x-k8s.io/multikueue-origin-uid"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}


JOBS = JobMirror()


def one(*, mirror: JobMirror | None = JOBS) -> Dispatched:
    workload = msgspec.convert({"metadata": {"name": "w", "namespace": "ns", "ownerReferences": [OWNER]}}, Workload)
    return Dispatched(workload, workload.metadata.owner_references, mirror, ())


def job(
    name: str = "j", workload: str = "w", uid: str | None = "1", *, suspend: bool = False, gone: bool = False
) -> Job:
    annotations = {PREBUILT: workload} | ({} if uid is None else {UID: uid})
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "annotations": annotations}
    if gone:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": metadata, "spec": {"suspend": suspend, "template": {"spec": {}}}}, Job)


@pytest.mark.parametrize(
    ("kind", "found", "own"),
    [
        pytest.param(JOB, job(), True, id="its own"),
        pytest.param(JOB, job(uid=None), True, id="one that does not say for which job of that name"),
        pytest.param(JOB, job(uid="2"), False, id="of another job of that name"),
        pytest.param(JOB, job(workload="v"), False, id="of another workload"),
        pytest.param(JOB, job("k"), False, id="of another name"),
        pytest.param(POD, job(), False, id="of another kind"),
    ],
)
def test_what_is_its_own(kind: Kind[Any], found: Job, own: bool) -> None:
    copies = one().split([(kind, found)])
    assert (list(copies.own), len(copies.strays)) == (["j"] if own else [], 0 if own else 1)


def test_where_its_kind_cannot_be_sent_nothing_is_its_own() -> None:
    assert one(mirror=None).split([(JOB, job())]).own == {}


@pytest.mark.parametrize(
    ("jobs", "together"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param([job()], RemoteJob("w", started=True), id="its own runs"),
        pytest.param([job(suspend=True)], RemoteJob("w"), id="its own waits"),
        pytest.param([job(suspend=True), job("i")], RemoteJob("w", started=True), id="one of its own runs"),
        pytest.param([job(gone=True)], RemoteJob("w", started=True, is_going=True), id="its own is being deleted"),
        pytest.param([job(uid="2")], RemoteJob("", active=True), id="another's is never counted as started"),
        pytest.param([job(suspend=True), job("k")], RemoteJob("w", active=True), id="another's beside its own"),
    ],
)
def test_what_is_found(jobs: list[Job], together: RemoteJob | None) -> None:
    known = one()
    given = Dispatched(known.workload, (*known.owners, OwnerReference(name="i", uid="1")), known.mirror, ())
    assert given.summarize(given.split((JOB, found) for found in jobs)) == together


@pytest.mark.parametrize(
    ("phase", "gone", "is_going"), [("Running", True, True), ("Running", False, False), ("Failed", True, False)]
)
def test_a_pod_that_is_being_deleted_is_going_until_it_has_finished(phase: str, gone: bool, is_going: bool) -> None:
    owner = OWNER | {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    workload = msgspec.convert({"metadata": {"name": "w", "namespace": "ns", "ownerReferences": [owner]}}, Workload)
    known = Dispatched(workload, workload.metadata.owner_references, PodMirror(), ())
    metadata: dict[str, Any] = {"name": "p", "namespace": "ns", "annotations": {PREBUILT: "w", UID: "1"}}
    if gone:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    copy = msgspec.convert({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}}, Pod)
    found = known.summarize(known.split([(POD, copy)]))
    assert found is not None
    assert found.is_going is is_going
