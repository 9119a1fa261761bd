"""Flavors and the nodes that there are: a job that selects a label gets the flavor whose nodes have it."""

from typing import Any

import msgspec
from tests.system.integrations.queued_jobs import Queued, story

from muster.api.core import NODE
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, ClusterQueue, LocalQueue, ResourceFlavor
from muster.api.kueue.names import QUOTA_RESERVED


async def _queue(q: Queued, *groups: dict[str, dict[str, Any]]) -> None:
    """The ClusterQueue `cq`: of each resource group, the flavors by name, with the resources of each."""
    written = [
        {
            "coveredResources": list(next(iter(group.values()))),
            "flavors": [
                {"name": name, "resources": [{"name": r, "nominalQuota": n} for r, n in resources.items()]}
                for name, resources in group.items()
            ],
        }
        for group in groups
    ]
    queue = {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}, "resourceGroups": written}}
    await q.client.create(CLUSTER_QUEUE, msgspec.convert(queue, ClusterQueue))
    local = {"metadata": {"name": "cq", "namespace": "default"}, "spec": {"clusterQueue": "cq"}}
    await q.client.create(LOCAL_QUEUE, msgspec.convert(local, LocalQueue))


async def _flavor(q: Queued, name: str, **labels: str) -> None:
    flavor = {"metadata": {"name": name}, "spec": {"nodeLabels": labels}}
    await q.client.create(RESOURCE_FLAVOR, msgspec.convert(flavor, ResourceFlavor))


async def _flavors(q: Queued) -> dict[str, str]:
    admission = (await q.workload()).status.admission
    return dict(admission.pod_set_assignments[0].flavors) if admission is not None else {}


@story
async def test_a_job_gets_the_flavor_whose_nodes_have_what_it_selects(q: Queued) -> None:
    await _flavor(q, "slow", pool="slow")
    await _flavor(q, "fast", pool="fast")
    await _queue(q, {"slow": {"cpu": 4}, "fast": {"cpu": 4}})
    await q.client.patch(NODE, "n", {"metadata": {"labels": {"pool": "fast", "accel": "a100"}}})
    other = await q.client.get(NODE, "n")
    plain = msgspec.convert({"metadata": {"name": "plain", "labels": {"pool": "slow"}}}, type(other))
    await q.client.create(NODE, plain)
    await q.job(template={"spec": {"nodeSelector": {"accel": "a100"}}})
    assert await _flavors(q) == {"cpu": "fast"}
    assert await q.running() == [0, 1]


@story
async def test_a_job_that_waits_for_its_flavor_gets_another_once_that_has_a_node_for_it(q: Queued) -> None:
    await _flavor(q, "slow", pool="slow")
    await _flavor(q, "fast", pool="fast")
    await _queue(q, {"slow": {"cpu": 4}, "fast": {"cpu": 1}})
    fast = await q.client.get(NODE, "n")
    document = {"metadata": {"name": "fast", "labels": {"pool": "fast", "accel": "a100"}}}
    await q.client.create(NODE, msgspec.convert(document, type(fast)))
    await q.client.patch(NODE, "n", {"metadata": {"labels": {"pool": "slow"}}})
    await q.job(template={"spec": {"nodeSelector": {"accel": "a100"}}})
    assert await _flavors(q) == {}
    (condition,) = [one for one in (await q.workload()).status.conditions if one.type == QUOTA_RESERVED]
    assert "no node of flavor slow matches node affinity" in condition.message
    await q.client.patch(NODE, "n", {"metadata": {"labels": {"accel": "a100"}}})
    await q.world.settle()
    assert await _flavors(q) == {"cpu": "slow"}
    assert await q.running() == [0, 1]


@story
async def test_flavors_that_set_one_label_differently_are_refused_with_a_reason(q: Queued) -> None:
    await _flavor(q, "a", zone="a")
    await _flavor(q, "b", zone="b")
    await _queue(q, {"a": {"cpu": 4}}, {"b": {"memory": "4Gi"}})
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    await q.job(template={"spec": {"containers": [container]}})
    assert await _flavors(q) == {}
    (condition,) = [one for one in (await q.workload()).status.conditions if one.type == QUOTA_RESERVED]
    assert condition.message == (
        "couldn't assign flavors to pod set main: flavor b sets node label zone=b, and flavor a of cpu sets zone=a"
    )
