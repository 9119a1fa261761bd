"""Which clusters are asked for a job, as upstream's dispatchers choose them; and jobs that can go to none."""

from msgspec.structs import replace
from tests.system.multikueue.federation import Federation, federated

from muster.api.config import EMBEDDED
from muster.api.config.types import INCREMENTAL, IncrementalDispatcher
from muster.api.core import EVENT
from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD

ONE_BY_ONE = replace(
    EMBEDDED.multi_kueue,
    dispatcher_name=INCREMENTAL,
    incremental_dispatcher_config=IncrementalDispatcher(step_size=1),
)
MINE = replace(EMBEDDED.multi_kueue, dispatcher_name="example.com/mine")


@federated(configuration=replace(EMBEDDED, multi_kueue=ONE_BY_ONE))
async def test_the_incremental_dispatcher_asks_one_more_after_each_round(f: Federation) -> None:
    await f.queues(a=1, b=4)
    await f.job("j", 2)
    await f.settle(280)
    assert (await f.where(), await f.clones()) == ({}, ["a"])
    await f.settle(60)
    assert (await f.where(), await f.clones()) == ({"b": 2}, ["b"])


@federated(configuration=replace(EMBEDDED, multi_kueue=MINE))
async def test_a_dispatcher_of_another_program_names_the_clusters(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle(600)
    assert await f.clones() == []
    name = (await f.here.workload()).metadata.name
    chosen = {"status": {"nominatedClusterNames": ["b"]}}
    await f.here.client.patch(WORKLOAD, name, chosen, "default", subresource="status")
    await f.settle()
    assert await f.where() == {"b": 2}


@federated(configuration=replace(EMBEDDED, multi_kueue=MINE))
async def test_all_that_it_names_get_a_clone_at_once_though_one_has_room(f: Federation) -> None:
    await f.queues(a=4, b=4)
    await f.workers["a"].world.plane.manager.stop()
    await f.job("j", 2)
    name = (await f.here.workload()).metadata.name
    chosen = {"status": {"nominatedClusterNames": ["a", "b"]}}
    await f.here.client.patch(WORKLOAD, name, chosen, "default", subresource="status")
    await f.settle(2)
    assert await f.where() == {"b": 2}


@federated()
async def test_a_job_that_was_there_before_its_queue_had_the_check_goes_nowhere_and_is_told_why(f: Federation) -> None:
    await f.here.queue(1)
    for worker in f.workers.values():
        await worker.queue(4)
    await f.job("j", 2)
    quota = [{"name": "cpu", "nominalQuota": 4}]
    spec = {
        "admissionChecksStrategy": {"admissionChecks": [{"name": "multikueue"}]},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": quota}]}],
    }
    await f.here.client.patch(CLUSTER_QUEUE, "cq", {"spec": spec})
    await f.settle(60)
    assert (await f.where(), await f.clones()) == ({}, [])
    assert not (await f.here.workload()).spec.active
    expected = 'The owner is not managed by Kueue: Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue"'
    assert expected in {event.message for event in (await f.here.client.list(EVENT, "default")).items}
