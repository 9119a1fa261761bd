"""What is created for a gang, and what is said where that cannot be as it is meant."""

import asyncio
from contextlib import nullcontext

import pytest
from tests.unit.runtime.conftest import MemoryServer

from muster.actions.errors import UserError
from muster.actions.submission.gang import Gang, Role
from muster.actions.submission.submitting import may_have_created, sign_manifest, submit, submit_cron_job
from muster.api.batch import CRON_JOB, JOB
from muster.api.core import SECRET, SERVICE
from muster.api.jobset import JOB_SET
from muster.api.ours.submitter import SUBMITTED_KINDS, SUBMITTER_ANNOTATION
from muster.api.status import ApiError, Status, not_found, unavailable
from muster.cluster.store.errors import StorageFull
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.kube.credentials import CredentialError
from muster.runtime.kube.requests import UnreachedError
from muster.runtime.transport import TransportError

TWO = Gang("train", ["x"], workers=2)


def unserved(request):
    return not_found("jobsets", "") if "jobset.x-k8s.io" in request.path else None


def submitted(server, gang):
    """The kind of the job, and what was said."""
    said: list[str] = []

    async def main():
        return await submit(Client(server), gang, said.append)

    return run_virtual(main()).kind, said


def test_a_gang_is_a_jobset():
    assert submitted(MemoryServer(), TWO) == (JOB_SET, [])


def test_on_a_cluster_without_jobsets_it_is_a_job_which_is_said_once():
    server = MemoryServer()
    server.fault = unserved
    kind, [said] = submitted(server, TWO)
    assert kind == JOB
    assert said == "this cluster serves no JobSets: the workers are a Job, and each begins as soon as it can"


def test_but_roles_need_them():
    server = MemoryServer()
    server.fault = unserved
    with pytest.raises(UserError, match="roles need JobSets, which this cluster does not serve"):
        submitted(server, Gang("train", roles=[Role("a", ["x"])]))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (JOB_SET, "there is a job train already: give another name, or remove it"),
        (JOB, "there is a job train already: give another name, or remove it"),
        (SERVICE, "there is a Service train already, which workers would be named by: give another name"),
    ],
)
def test_a_name_that_something_has(kind, complaint):
    server = MemoryServer()
    server.put("train", kind=kind)
    with pytest.raises(UserError, match=complaint):
        submitted(server, TWO)


@pytest.mark.parametrize(("seconds", "is_submitted"), [(5, True), (60, False)])
def test_a_job_of_the_name_that_is_being_deleted_is_waited_for(seconds, is_submitted):
    server = MemoryServer()
    server.put("train", kind=JOB)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    async def main():
        asyncio.get_running_loop().call_later(seconds, server.remove, "train", "default", JOB)
        return await submit(Client(server), TWO, print)

    with nullcontext() if is_submitted else pytest.raises(UserError, match="there is a job train already"):
        assert run_virtual(main()).kind == JOB_SET


MPI = Gang("sum", ["mpirun", "x"], workers=2, mpi="muster")


@pytest.mark.parametrize("serves_jobsets", [True, False])
def test_the_secret_of_a_gang_of_mpi_goes_with_its_job(serves_jobsets):
    server = MemoryServer()
    server.fault = (lambda _: None) if serves_jobsets else unserved
    kind, _ = submitted(server, MPI)
    [job] = server.objects[kind.path()].values()
    [made] = server.objects[SECRET.path()].values()
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == (kind.kind, "sum", job["metadata"]["uid"])


def test_without_its_secret_there_is_no_job():
    server = MemoryServer()
    server.fault = lambda request: not_found("secrets", "") if request.path.endswith("/secrets") else None
    with pytest.raises(ApiError):
        submitted(server, MPI)
    assert not server.objects[JOB_SET.path()]


def test_a_job_that_cannot_be_made_leaves_no_secret():
    server = MemoryServer()
    server.fault = lambda request: (
        not_found("jobsets", "") if request.method == "POST" and "jobsets" in request.path else None
    )
    with pytest.raises((ApiError, UserError)):
        submitted(server, Gang("sum", ["mpirun", "x"], workers=2, mpi="muster", retries=1))
    assert not server.objects[SECRET.path()]


def test_a_connection_that_is_lost_before_the_job_is_made_leaves_what_the_next_try_uses():
    """The job comes last: there is never one whose workers wait for their Secret."""
    server = MemoryServer()

    def lost(request):
        if request.method == "POST" and "jobsets" in request.path:
            raise TransportError("connection reset")

    server.fault = lost
    with pytest.raises(TransportError):
        submitted(server, MPI)
    [first] = server.objects[SECRET.path()].values()
    assert not server.objects[JOB_SET.path()]
    server.fault = lambda _: None
    submitted(server, MPI)
    [made], [job] = server.objects[SECRET.path()].values(), server.objects[JOB_SET.path()].values()
    assert made["data"] == first["data"]
    assert made["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_the_secret_of_another_job_is_left_alone():
    server = MemoryServer()
    submitted(server, MPI)
    server.objects[JOB_SET.path()].clear()
    before = dict(server.objects[SECRET.path()])
    with pytest.raises(ApiError):
        submitted(server, MPI)
    assert (server.objects[JOB_SET.path()], server.objects[SECRET.path()]) == ({}, before)


def test_other_gangs_have_no_secret():
    server = MemoryServer()
    submitted(server, TWO)
    assert SECRET.path() not in server.objects


DAILY = Gang("tick", ["x"], schedule="@daily")


def submitted_cron_job(server, gang=DAILY):
    async def main():
        await submit_cron_job(Client(server), gang)

    run_virtual(main())


def test_a_gang_with_a_schedule_is_a_cronjob_with_a_service():
    server = MemoryServer()
    submitted_cron_job(server)
    [made], [service] = server.objects[CRON_JOB.path()].values(), server.objects[SERVICE.path()].values()
    assert service["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    with pytest.raises(UserError, match="there is a CronJob tick already: give another name, or remove it"):
        submitted_cron_job(server)


def test_without_its_service_a_cronjob_does_not_stay():
    server = MemoryServer()
    server.fault = lambda request: unavailable("x") if request.method == "POST" and "services" in request.path else None
    with pytest.raises(ApiError):
        submitted_cron_job(server)
    assert not server.objects[CRON_JOB.path()]


def lose_connection(*methods):
    """Return a fault that breaks the connection at these methods, from the creation of a Service on."""
    broken = []

    def fault(request):
        if request.method == "POST" and "services" in request.path:
            broken.append(request)
        if broken and request.method in methods:
            raise TransportError("connection reset")

    return fault


def test_a_cronjob_does_not_stay_when_the_connection_is_lost_before_its_service():
    server = MemoryServer()
    server.fault = lose_connection("POST")
    with pytest.raises(TransportError, match="connection reset"):
        submitted_cron_job(server)
    assert not server.objects[CRON_JOB.path()]


@pytest.mark.parametrize(
    ("submit_gang", "gang", "kind"),
    [(submitted_cron_job, DAILY, "CronJob"), (submitted, Gang("tick", ["x"], plain=True), "Job")],
)
def test_what_stays_without_its_service_is_said(submit_gang, gang, kind):
    server = MemoryServer()
    server.fault = lose_connection("POST", "DELETE")
    with pytest.raises(UserError) as refused:
        submit_gang(server, gang)
    assert str(refused.value).startswith(f"the {kind} tick has no Service, so its workers may not find each other: ")
    assert "Remove it with: muster cancel --delete tick (" in str(refused.value)


def test_a_manifest_that_names_its_submitter_keeps_the_name():
    manifest = {"metadata": {"name": "j", "annotations": {SUBMITTER_ANNOTATION: "ada"}}}
    assert sign_manifest(manifest) == manifest
    assert sign_manifest({"metadata": {"name": "j", "annotations": None}})["metadata"]["annotations"].keys() == {
        SUBMITTER_ANNOTATION
    }


def test_a_cronjob_has_a_submitter_as_other_jobs_have():
    assert {"cronjobs.batch", "jobs.batch", "jobsets.jobset.x-k8s.io", "pods"} == SUBMITTED_KINDS


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TransportError("the connection broke"), "the connection broke"),
        (ApiError(Status(code=500, message="it broke")), "it broke"),
    ],
)
def test_an_error_after_which_the_job_may_exist_says_so(error, expected):
    server = MemoryServer()
    server.fault = lambda request: error if request.method == "POST" else None
    advice = "train may have been submitted; inspect it: muster why train -n ns; end it: muster cancel train -n ns"
    with pytest.raises(type(error), match=f"^{expected}; {advice}$"):
        submitted(server, Gang("train", ["x"], namespace="ns", workers=2))


def test_a_refused_job_does_not_exist():
    server = MemoryServer()
    server.fault = lambda request: ApiError(Status(code=403, message="no")) if request.method == "POST" else None
    with pytest.raises(ApiError, match=r"^no$"):
        submitted(server, TWO)


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (TransportError("the connection broke"), True),
        (unavailable("stops"), True),
        (not_found("jobs", "train"), False),
        (StorageFull("/data/store.db"), False),
        (UnreachedError("refused"), False),
        (CredentialError("no login"), False),
        (None, False),
    ],
    ids=["lost", "failed", "refused", "disk full", "not reached", "not logged in", "no error"],
)
def test_a_job_may_exist_only_if_its_request_was_sent(error, may):
    assert may_have_created(error) is may
