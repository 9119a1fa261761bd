"""Words for tests of jobs that run in another cluster, which the test plays: its check, and what they become there."""

from typing import Any

import msgspec
from tests.system.integrations.queued_jobs import Queued

from muster.api.kueue import ADMISSION_CHECK, WORKLOAD, AdmissionCheck
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.multicluster.mirrors.framework import Mirror

HANDED_OVER: dict[str, Any] = {"managedBy": MULTI_KUEUE_CONTROLLER}


async def queue_elsewhere(q: Queued, cpu: int = 4, **spec: Any) -> None:
    """The queue, with a check of a controller that the test plays."""
    document = {"metadata": {"name": "elsewhere"}, "spec": {"controllerName": "example.com/elsewhere"}}
    await q.client.create(ADMISSION_CHECK, msgspec.convert(document, AdmissionCheck))
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now(q)}
    await q.client.patch(ADMISSION_CHECK, "elsewhere", {"status": {"conditions": [active]}}, subresource="status")
    strategy = {"admissionChecks": [{"name": "elsewhere"}]}
    await q.queue(cpu, admissionChecksStrategy=strategy, **spec)


async def answer(q: Queued, name: str = "j", state: str = "Ready") -> None:
    """What the check says of a job; when it is ready, cluster `east` has it."""
    workload = await q.workload(name)
    (check,) = msgspec.to_builtins(workload.status.admission_checks)
    said = {"admissionChecks": [check | {"state": state, "lastTransitionTime": now(q), "message": "m"}]}
    chosen = {"clusterName": "east", "nominatedClusterNames": None}
    steps = ({"nominatedClusterNames": ["east"]}, said | chosen) if state == "Ready" else (said,)
    for step in steps:
        await q.client.patch(WORKLOAD, workload.metadata.name, {"status": step}, "default", subresource="status")
    await q.world.settle()


async def tell(q: Queued, mirror: Mirror[Any], name: str, status: Any, *, suspend: bool = False) -> bool:
    """Show the job as it is elsewhere; False if it is not time for that yet."""
    local = await q.client.get(mirror.kind, name, "default")
    document = msgspec.to_builtins(local)
    remote = mirror.kind.typed(document | {"spec": document["spec"] | {"suspend": suspend}, "status": status})
    return await _written(q, mirror, name, mirror.status(local, remote))


async def lose(q: Queued, mirror: Mirror[Any], name: str) -> None:
    """Its worker is given up for lost."""
    local = await q.client.get(mirror.kind, name, "default")
    await _written(q, mirror, name, mirror.make_stop_patch(local, q.world.clock.now()))


async def _written(q: Queued, mirror: Mirror[Any], name: str, patch: Any) -> bool:
    if patch:
        await q.client.patch(mirror.kind, name, {"status": patch}, "default", subresource="status")
    await q.world.settle()
    return patch is not None


def now(q: Queued) -> str:
    """As the API writes it."""
    return q.world.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
