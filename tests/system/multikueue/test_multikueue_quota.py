"""The quota of the queue in front of two clusters follows theirs (KEP-9988)."""

import msgspec
import pytest
from tests.system.multikueue.federation import Federation, federated
from tests.system.workers.worker_world import status

from muster.api.conditions import find
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, MULTI_KUEUE_CONFIG, ClusterQueue, LocalQueue
from muster.multicluster.links import queues

SUM = "QuotaAutomated: ClusterQueue quota is automatically managed based on MultiKueue workers."


async def managed(f: Federation, management: str = "Automated") -> None:
    await f.here.client.patch(MULTI_KUEUE_CONFIG, "multikueue", {"spec": {"quotaManagement": management}})
    await f.settle()


async def seen(f: Federation) -> ClusterQueue:
    return await f.here.client.get(CLUSTER_QUEUE, "cq")


async def quota(f: Federation) -> str:
    """How many CPUs the manager's queue has."""
    ((group,),) = [one.flavors for one in (await seen(f)).spec.resource_groups]
    return str(group.resources[0].nominal_quota)


async def said(f: Federation) -> str:
    found = find((await seen(f)).status.conditions, "MultiKueueManagerQuotaAutomation")
    return f"{found.reason}: {found.message}" if found is not None else ""


async def resize(f: Federation, cluster: str, cpu: int) -> None:
    """Another quota in a worker."""
    client = f.workers[cluster].client
    queue = await client.get(CLUSTER_QUEUE, "cq")
    path = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
    await client.edit_object(CLUSTER_QUEUE, queue, [{"op": "replace", "path": path, "value": str(cpu)}])
    await f.settle()


@federated()
async def test_it_is_the_sum_of_theirs_as_long_as_that_is_asked_for(f: Federation) -> None:
    await f.queues(a=4, b=3)
    assert (await quota(f), await said(f)) == (
        "100",
        "NotRequested: MultiKueue manager quota automation has not been requested.",
    )
    await managed(f)
    assert (await quota(f), await said(f)) == ("7", SUM)
    await resize(f, "a", 6)
    assert await quota(f) == "9"
    await managed(f, "Manual")
    await resize(f, "a", 8)
    assert await quota(f) == "9"
    await f.here.client.patch(CLUSTER_QUEUE, "cq", {"spec": {"admissionChecksStrategy": None}})
    await f.settle()
    assert (await quota(f), await said(f)) == ("9", "")


@federated()
async def test_a_lost_cluster_gives_none_and_takes_none_from_what_runs(f: Federation) -> None:
    await f.queues(a=4, b=4)
    await managed(f)
    await f.job("x", 4)
    await f.job("y", 4)
    await f.settle()
    (lost,) = await f.where("x")
    f.lines[lost].cut()
    await f.settle(60)
    assert await quota(f) == "4"
    assert len(await f.where("x")) == len(await f.where("y")) == 1
    await f.job("z", 2)
    await f.settle(60)
    assert await f.where("z") == {}, "what there is is in use"
    f.lines[lost].mend()
    await f.settle(60)
    assert await quota(f) == "8"


@federated()
async def test_a_manager_that_begins_anew_changes_no_quota_before_it_knows_its_workers(f: Federation) -> None:
    await f.queues(a=4, b=3)
    await managed(f)
    before = (await seen(f)).metadata.generation
    await f.restart()
    assert (await seen(f)).metadata.generation == before
    await resize(f, "b", 5)
    assert await quota(f) == "9"


@federated()
async def test_a_cluster_that_does_not_show_its_queues_leaves_the_quota_as_it_is(f: Federation) -> None:
    await f.queues(a=4, b=3)
    f.lines["b"].spoil = lambda request: status(403, "Forbidden") if request.path.endswith("/clusterqueues") else None
    await f.restart()
    await managed(f)
    assert (await quota(f), await said(f)) == ("100", 'UnsupportedConfiguration: worker cluster "b": Forbidden')
    await f.job("j", 2)
    await f.settle()
    assert list((await f.where()).values()) == [2], "which is no harm to jobs"
    f.lines["b"].spoil = lambda _: None
    await f.settle(120)
    assert (await quota(f), await said(f)) == ("7", SUM)


@federated()
async def test_a_quota_that_its_limits_do_not_allow_is_told(f: Federation) -> None:
    await f.queues(a=4, b=3)
    path = "/spec/resourceGroups/0/flavors/0/resources/0/lendingLimit"
    edits = [{"op": "add", "path": "/spec/cohortName", "value": "c"}, {"op": "add", "path": path, "value": "50"}]
    await f.here.client.edit_object(CLUSTER_QUEUE, await seen(f), edits)
    await managed(f)
    assert await quota(f) == "100"
    assert "lendingLimit" in await said(f)


@pytest.mark.parametrize(
    ("limit", "most", "problem"),
    [("MOST_QUEUES", 3, "there are more than 3"), ("MOST_BYTES", 200_000, "they take more than 0 MiB")],
)
def test_a_cluster_with_more_queues_than_there_can_be_leaves_the_quota_as_it_is(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int, problem: str
) -> None:
    monkeypatch.setattr(queues, limit, most)

    @federated()
    async def body(f: Federation) -> None:
        await f.queues(a=4, b=3)
        await managed(f)
        for number in range(3):
            meta = {"name": f"more-{number}", "namespace": "default", "annotations": {"of": "x" * 100_000}}
            queue = msgspec.convert({"metadata": meta, "spec": {"clusterQueue": "cq"}}, LocalQueue)
            await f.workers["b"].client.create(LOCAL_QUEUE, queue)
        await f.settle()
        assert await quota(f) == "7"
        told = f"its localqueues cannot be followed: {problem}"
        assert await said(f) == f'UnsupportedConfiguration: worker cluster "b": {told}'

    body()
