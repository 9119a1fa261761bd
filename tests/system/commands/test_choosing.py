"""The jobs that `muster cancel --all` chooses, and what the cancelling of them asks of the server."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.system.plane import World, virtual

from muster.actions.jobs.cancelling import cancel
from muster.actions.server.session import Session
from muster.actions.submission.gang import Gang
from muster.actions.submission.submitting import submit, submit_cron_job
from muster.api.batch import CRON_JOB, JOB
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.status import ApiError
from muster.cli.actions.choosing import select_job_rows
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.jobs.job.conditions import find_announced_end
from muster.runtime.client import Client
from muster.runtime.transport import Request, Response

JOB_GANG = Gang("single", ["x"], plain=True)


class Recording(InProcessTransport):
    """Notes the method of each request about a job, and the resource."""

    def __init__(self, world: World) -> None:
        super().__init__(world.plane.server)
        self.requests: list[str] = []

    async def request(self, request: Request) -> Response:
        parts = request.path.split("/")
        if parts[-1] != "version":
            self.requests.append(f"{request.method} {parts[6]}")
        return await super().request(request)


@virtual
async def test_the_kind_of_a_chosen_job_is_looked_for_only_once(world: World) -> None:
    for gang in (JOB_GANG, replace(JOB_GANG, name="several", workers=2, plain=False)):
        await submit(world.client, gang, pytest.fail)
    await world.settle(10)
    rows = await select_job_rows(Session(world.client, "default"), "", (), "", "")
    assert {row["name"]: row["kind"] for row in rows} == {"single": JOB, "several": JOB_SET}
    transport = Recording(world)
    for row in rows:
        assert (await cancel(Client(transport), row["name"], "default", kind=row["kind"])).startswith("cancelled")
    assert sorted(transport.requests) == ["GET jobs", "GET jobs", "GET jobsets", "PATCH jobs", "PATCH jobsets"]


@virtual
async def test_a_chosen_job_that_is_gone_is_not_taken_for_another_kind_of_its_name(world: World) -> None:
    async def refuse(kind: Kind[Any]) -> None:
        for delete in (False, True):
            with pytest.raises(ApiError) as refusal:
                await cancel(world.client, "single", "default", delete=delete, kind=kind)
            assert refusal.value.code == 404

    await submit_cron_job(world.client, replace(JOB_GANG, schedule="@daily"))
    await world.settle(10)
    await refuse(JOB)
    assert not (await world.client.get(CRON_JOB, "single", "default")).spec.suspend
    await cancel(world.client, "single", "default", delete=True, kind=CRON_JOB)
    await world.settle(10)
    await submit(world.client, JOB_GANG, pytest.fail)
    await world.settle(10)
    await refuse(JOB_SET)
    assert find_announced_end(await world.client.get(JOB, "single", "default")) is None
