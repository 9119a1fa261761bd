"""The lines of jobs: those of some jobs are the same as among all."""

import pytest
from tests.system.plane import World, virtual
from tests.system.queueing.queueing_world import flavor, queue, workload

from muster.actions.submission.gang import Gang
from muster.actions.submission.submitting import submit
from muster.api.kueue import WORKLOAD
from muster.insight.quota.state import is_owned_by, owner_uids
from muster.insight.reader.jobs.rows import job_rows, job_rows_of


@virtual
async def test_the_line_of_one_workload_is_that_among_all(world: World) -> None:
    await world.node("n", cpu="4")
    await flavor(world)
    await queue(world, "team", 4)
    gangs = (
        Gang("plain", ["x"], workers=2, cpus="1", queue="team", plain=True),
        Gang("set", ["x"], workers=2, cpus="1", queue="team"),
        Gang("waits", ["x"], workers=3, cpus="1", queue="team"),
        Gang("huge", ["x"], workers=900, cpus="1", queue="team", plain=True),
    )
    for one in gangs:
        await submit(world.client, one, lambda _: None)
        await world.settle(10)
    await workload(world, "foreign", "team", 4)
    await world.settle(10)
    now = world.clock.now()
    everything = await job_rows(world.client, "default", now, pytest.fail)
    rows = {row["uid"]: row for row in everything}
    workloads = (await world.client.list(WORKLOAD)).items
    positions = {row["uid"]: row["position"] for row in everything}
    seen = set[str]()
    for chosen in workloads:
        jobs = owner_uids(chosen)
        family = [one for one in workloads if one is chosen or is_owned_by(one, jobs)]
        [uid] = (jobs | {chosen.metadata.uid}) & rows.keys()
        [line] = await job_rows_of(world.client, "default", now, family, {chosen.metadata.uid: positions[uid]})
        assert line == rows[uid]
        seen.add(line["name"])
    assert seen == {"plain", "set", "waits", "huge", "foreign"}
