"""What is created for a gang, and what is said where that cannot be as it is meant."""

import pytest
from tests.unit.runtime.conftest import MemoryServer

from muster.actions.errors import UserError
from muster.actions.gang import Gang, Role
from muster.actions.submitting import submit
from muster.api.batch import JOB
from muster.api.core import SERVICE
from muster.api.jobset import JOB_SET
from muster.api.status import not_found
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual

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
