"""JobSets that keep to racks: each replicated job as it asks, and the ranks of its pods count over all its Jobs."""

from tests.system.integrations.queued_jobs import Queued
from tests.system.integrations.test_queued_jobsets import jobset, role
from tests.system.topology.test_topology import RACK, asking, hall, queue

from muster.api.core import POD
from muster.api.jobset import names


async def racks(q: Queued, name: str, of: str) -> list[str]:
    """Those of a role's pods, by Job and rank."""
    selector = f"{names.JOBSET_NAME}={name},{names.REPLICATED_JOB_NAME}={of}"
    pods = (await q.client.list(POD, "default", labels=selector)).items
    ranks = {pod.metadata.labels[names.JOB_INDEX] + pod.metadata.generate_name: pod for pod in pods}
    return [pod.spec.node_name[:5] for _, pod in sorted(ranks.items())]


@hall
async def test_each_role_goes_where_it_asks(q: Queued) -> None:
    await queue(q)
    pods = asking(required=RACK)["metadata"]
    await jobset(q, "j", role("workers", 2, 2, pod=pods), role("driver"))
    await q.world.settle(20)
    workers, driver = await racks(q, "j", "workers"), await racks(q, "j", "driver")
    assert len(workers) == 4
    assert len(set(workers)) == 1, "four CPUs are one rack"
    assert driver != [""]


@hall
async def test_one_that_fits_in_no_rack_waits_whole(q: Queued) -> None:
    await queue(q)
    pods = asking(required=RACK)["metadata"]
    await jobset(q, "j", role("workers", 3, 2, pod=pods), role("driver"))
    await q.world.settle(20)
    assert await racks(q, "j", "workers") + await racks(q, "j", "driver") == []


@hall
async def test_the_ranks_of_a_role_are_those_of_its_jobs_in_their_order(q: Queued) -> None:
    """Neighbours in rank share a rack."""
    await queue(q)
    pods = asking(required="cloud.provider.com/topology-block")["metadata"]
    await jobset(q, "j", role("workers", 4, 2, pod=pods))
    await q.world.settle(20)
    first = await racks(q, "j", "workers")
    assert len(first) == 8
    assert first[:4] == [first[0]] * 4
    assert first[4:] == [first[4]] * 4
