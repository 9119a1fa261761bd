"""JobSets that keep to racks: each replicated job as it asks, and the ranks of its pods count over all its Jobs."""

from tests.system import queueing_world
from tests.system.queued_jobs import Queued
from tests.system.test_queued_jobsets import jobset, role
from tests.system.test_topology import LEVELS, RACK, asking, hall, no_more_ready, queue, topology

from muster.api.core import NODE, POD
from muster.api.jobset import names
from muster.api.nodes import HOSTNAME_LABEL
from muster.queueing.topology.written import domains_of


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


@hall
async def test_a_role_without_places_waits_for_the_node_that_it_names_itself(q: Queued) -> None:
    """Even while that is lost, and others of its workload are given another."""
    await topology(q, LEVELS)
    await queueing_world.flavor(q.world, "tas", nodeLabels={"zone": "a"}, topologyName="default")
    await queueing_world.flavor(q.world, "plain")
    groups = [
        {"coveredResources": [resource], "flavors": [{"name": flavor, "resources": [quota]}]}
        for resource, flavor in (("cpu", "tas"), ("memory", "plain"))
        for quota in [{"name": resource, "nominalQuota": "100"}]
    ]
    await queueing_world.queue(q.world, "cq", 100, resourceGroups=groups)
    driver = role("driver")
    container = {"name": "c", "image": "none", "resources": {"requests": {"memory": "1"}}}
    chosen = {"nodeSelector": {HOSTNAME_LABEL: "b2-r2-h2"}, "schedulerName": "nobody"}
    driver["template"]["spec"]["template"]["spec"] |= {"containers": [container], **chosen}
    await jobset(q, "j", role("workers", 1, 2, pod=asking(required=RACK)["metadata"]), driver)

    async def driver_pods() -> list[str]:
        pods = (await q.client.list(POD, "default", labels=f"{names.REPLICATED_JOB_NAME}=driver")).items
        return [pod.metadata.uid for pod in pods if not pod.metadata.deletion_timestamp]

    before = await driver_pods()
    await no_more_ready(q, "b2-r2-h2")
    await q.client.delete(NODE, "b1-r1-h1")
    await q.world.settle(120)
    (workload,) = await q.workloads()
    assignments = [one.topology_assignment for one in workload.status.admission.pod_set_assignments]
    assert [domains_of(one) for one in assignments if one is not None] == [((("b1-r1-h2",), 2),)]
    assert before
    assert await driver_pods() == before
