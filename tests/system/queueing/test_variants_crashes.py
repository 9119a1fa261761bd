"""The engine is killed after any of its writes while a job moves to a better flavor: the next one brings it there."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.system.integrations.queued_jobs import noded
from tests.system.operator.operator_site import Cable, Site, Wire, configured
from tests.system.queueing import quota_audit
from tests.system.queueing.test_variants import BEST, WORST, concurrent, runs_on, states
from tests.system.takeover.left_by_kueue import Kueue

from muster.api.batch import JOB
from muster.api.config import DEFAULT
from muster.api.kueue import WORKLOAD
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.runtime.transport import Request, Response

pytestmark = pytest.mark.slow

SETTINGS = replace(DEFAULT, feature_gates={"ConcurrentAdmission": True})
FLAVORS: dict[str, Any] = {"reservation": 2, "spot": 4}


def dying(writes: int) -> type[Cable]:
    """A way that breaks for good after so many writes about workloads, jobs and pods."""

    class Dying(Wire):
        left = writes

        async def request(self, request: Request) -> Response:
            if request.method != "GET" and "/namespaces/default/" in request.path and "events" not in request.path:
                if self.left <= 0:
                    self.sever()
                self.left -= 1
            return await super().request(request)

    return Dying


async def audit(s: Site, k: Kueue) -> None:
    """Look all the time that no pod is on a node without quota, and that no more is held than there is."""
    while True:
        await k.bind("n")
        workloads = (await s.client.list(WORKLOAD, "default")).items
        held = quota_audit.reserved(one for one in workloads if one.metadata.owner_references[0].kind == "Workload")
        assert all(amount <= FLAVORS[cell.flavor] * 1000 for cell, amount in held.items()), held
        assert quota_audit.squatters(await s.world.pods(), workloads) == []
        await s.world.clock.sleep(0.25)


@pytest.mark.parametrize("writes", range(0, 40, 3))
def test_killed_after_a_write_while_a_job_moves(writes: int) -> None:
    @configured(SETTINGS)
    async def story(s: Site) -> None:
        async with noded(s.queued):
            await concurrent(s.queued, name="many", cpus=FLAVORS)
            await s.start("first")
            for name in ("a", "b", "c"):
                await s.queued.job(name, 2, suspend=True, queue="many")
                await s.world.settle(20)
            assert [await runs_on(s.queued, name) for name in ("a", "b", "c")] == [BEST, WORST, WORST]
            await s.replicas["first"].stop()
            await s.ended("first")
            watching = asyncio.create_task(audit(s, Kueue(InProcessTransport(s.world.plane.server), s.world.settle)))
            await s.start("dies", dying(writes))
            await s.client.delete(JOB, "a", "default")
            await s.world.settle(40)
            await s.start("next")
            await s.world.settle(120)
            assert not watching.done(), watching.exception()
            watching.cancel()
            assert [await runs_on(s.queued, name) for name in ("b", "c")] == [BEST, WORST]
            assert [await s.queued.running(name) for name in ("b", "c")] == [[0, 1], [0, 1]]
            assert await states(s.queued, "b") == {BEST: "holds", WORST: "inactive"}
            assert await states(s.queued, "c") == {BEST: "waits", WORST: "holds"}

    story()
