"""What is planned for queues over a Topology: the racks that it names are those that the job then gets."""

from collections import Counter
from typing import Any

from tests.system.insight.test_plan import job, planned, template
from tests.system.integrations.queued_jobs import Queued
from tests.system.topology.test_topology import BLOCK, RACK, asking, by_rank, hall, queue

from muster.api.batch import JOB
from muster.api.nodes import HOSTNAME_LABEL
from muster.cli.commands.forecasts.plan import _render_lines
from muster.insight.forecasts.plan import ObjectPlan


def in_racks(name: str, workers: int, **asked: str) -> Any:
    return job(name, workers, queue="cq", template=template(**asking(**asked)["metadata"]), completionMode="Indexed")


def racks(found: ObjectPlan) -> dict[str, int]:
    assert found.gang is not None
    count: Counter[str] = Counter()
    for node, pods in found.gang.nodes.items():
        count[node[:5]] += pods
    return dict(count)


@hall
async def test_a_job_goes_to_the_rack_that_was_planned(q: Queued) -> None:
    await queue(q)
    await q.job("before", workers=3, template=asking(required=RACK))
    found = (await planned(q.world, in_racks("j", 4, required=RACK)))["j"]
    assert (found.verdict, racks(found)) == ("starts", {"b1-r2": 4})
    assert found.quota is not None
    assert found.quota.places["main"].domains == ((("b1-r2-h1",), 2), (("b1-r2-h2",), 2))
    assert found.quota.places["main"].levels == (HOSTNAME_LABEL,)
    await q.job("j", workers=4, template=asking(required=RACK))
    assert {node[:5] for node in await by_rank(q)} == {"b1-r2"}


@hall
async def test_domains_that_are_no_nodes_are_planned_too(q: Queued) -> None:
    await queue(q, [BLOCK, RACK])
    found = (await planned(q.world, in_racks("j", 6, preferred=RACK)))["j"]
    assert racks(found) == {"b1-r1": 4, "b1-r2": 2}
    assert found.quota is not None
    assert found.quota.places["main"].domains == ((("b1", "b1-r1"), 4), (("b1", "b1-r2"), 2))
    assert "   topology   main: b1/b1-r1 4, b1/b1-r2 2" in _render_lines(found, "default", q.world.clock.now())


@hall
async def test_what_finds_no_rack_waits_and_says_when_one_is_free(q: Queued) -> None:
    await queue(q)
    for name in ("a", "b", "c", "d"):
        await q.job(name, workers=4, activeDeadlineSeconds=3600, template=asking(required=RACK))
    found = (await planned(q.world, in_racks("j", 3, required=RACK)))["j"]
    assert found.verdict == "waits"
    assert found.quota is not None
    assert found.quota.estimate is not None
    assert found.quota.estimate.at is not None, "there is quota for 100: the first rack that is free is what counts"
    assert 'topology "default" doesn\'t allow to fit any of 3 pod(s)' in found.quota.reason
    await q.client.delete(JOB, "b", "default")
    await q.world.settle(60)
    assert racks((await planned(q.world, in_racks("j", 3, required=RACK)))["j"]) == {"b1-r2": 3}


@hall
async def test_what_is_larger_than_any_rack_is_told_so(q: Queued) -> None:
    await queue(q)
    found = (await planned(q.world, in_racks("j", 5, required=RACK)))["j"]
    assert found.verdict == "waits"
    assert found.quota is not None
    assert 'topology "default" allows to fit only 4 out of 5 pod(s)' in found.quota.reason
    assert found.quota.estimate is not None
    assert found.quota.estimate.at is None
