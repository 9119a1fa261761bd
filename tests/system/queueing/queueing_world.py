"""Words for tests of queues: flavors, queues and workloads on a control plane in virtual time."""

from typing import Any

import msgspec
from tests.system.plane import World

from muster.api.conditions import find, is_true
from muster.api.kueue import (
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Workload,
)
from muster.queueing.workload.eviction import release_evicted
from muster.runtime.objects import merge_patch


async def flavor(world: World, name: str = "default", **spec: Any) -> None:
    document = {"metadata": {"name": name}, "spec": spec}
    await world.client.create(RESOURCE_FLAVOR, msgspec.convert(document, ResourceFlavor))


async def queue(
    world: World, name: str, cpu: int | str, *, flavor: str = "default", local: bool = True, **spec: Any
) -> None:
    """A ClusterQueue with CPUs of one flavor, and a LocalQueue of the same name in namespace default."""
    quota = {"name": "cpu", "nominalQuota": cpu}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [quota]}]}
    document = {
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
    }
    await world.client.create(CLUSTER_QUEUE, msgspec.convert(document, ClusterQueue))
    if local:
        await local_queue(world, name, name)


async def local_queue(world: World, name: str, cluster_queue: str, **spec: Any) -> None:
    document = {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": cluster_queue, **spec}}
    await world.client.create(LOCAL_QUEUE, msgspec.convert(document, LocalQueue))


async def cohort(world: World, name: str, **spec: Any) -> None:
    await world.client.create(COHORT, msgspec.convert({"metadata": {"name": name}, "spec": spec}, Cohort))


async def workload(
    world: World, name: str, queue: str, cpu: int | str = 1, *, count: int = 1, metadata: Any = None, **spec: Any
) -> Workload:
    """A workload of identical pods."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    podset = {
        "name": "main",
        "count": count,
        "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
    }
    document = {
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": {"queueName": queue, "podSets": [podset], **spec},
    }
    return await world.client.create(WORKLOAD, msgspec.convert(document, Workload))


async def get(world: World, name: str) -> Workload:
    return await world.client.get(WORKLOAD, name, "default")


async def is_(world: World, name: str, condition: str) -> bool:
    """Whether a condition of the workload is True."""
    return is_true((await get(world, name)).status.conditions, condition)


async def why(world: World, name: str, condition: str = "QuotaReserved") -> tuple[str, str]:
    """Reason and message of a condition."""
    found = find((await get(world, name)).status.conditions, condition)
    return (found.reason, found.message) if found is not None else ("", "")


async def admitted(world: World) -> list[str]:
    """The workloads that are admitted and not finished, by name."""
    page = await world.client.list(WORKLOAD, "default")
    return sorted(
        one.metadata.name
        for one in page.items
        if is_true(one.status.conditions, "Admitted") and not is_true(one.status.conditions, "Finished")
    )


async def finish(world: World, name: str) -> None:
    """Play the job: it has ended."""
    now = world.clock.now().replace(microsecond=0).isoformat()
    current = await get(world, name)
    done = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "done", "lastTransitionTime": now}
    conditions = [*msgspec.to_builtins(current.status.conditions), done]
    await world.client.patch(WORKLOAD, name, {"status": {"conditions": conditions}}, "default", subresource="status")


async def give_back(world: World, name: str) -> None:
    """Play the job of an evicted workload: it has stopped."""
    current = await get(world, name)
    status = merge_patch(release_evicted(current.status, world.clock.now()))
    await world.client.patch(WORKLOAD, name, {"status": status}, "default", subresource="status")
