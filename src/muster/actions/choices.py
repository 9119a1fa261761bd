"""Checks what users name against what a cluster has; who names what is not there is told what is."""

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from muster.actions.errors import UserError
from muster.actions.gang import SecretAsked
from muster.api.batch import JOB
from muster.api.core import NODE, SECRET
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kinds import Kind
from muster.api.kueue import LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS
from muster.api.managed.jobs import DEFAULT_QUEUE
from muster.api.meta import Object
from muster.api.ours.gpus import NVIDIA_GPU, is_gpu
from muster.api.status import ApiError
from muster.insight.nearest import nearest
from muster.insight.reader.queues import get_or_none, list_or_none
from muster.insight.reader.records import record_named
from muster.insight.record import JobRecord
from muster.runtime.client import Client

_MOST_NAMES = 500  # that a wrong one is compared with
_MOST_NODES = 500  # that are looked at to know which GPUs there are


async def get_job(client: Client, name: str, namespace: str) -> JobRecord:
    """The job. Raises `ApiError`; of one that there is not it says what may have been meant."""
    try:
        return await record_named(client, name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        raise ApiError(structs.replace(error.status, message=await no_job(client, name, namespace))) from None


async def no_job(client: Client, name: str, namespace: str) -> str:
    """That there is no job of a name (in any namespace: ""), and what may have been meant, if the user may see that."""
    names: list[str] = []
    kinds: tuple[tuple[Kind[Any], str], ...] = ((JOB_SET, ""), (JOB, f"!{JOBSET_NAME}"))
    for kind, labels in kinds:
        try:
            page = await client.page(kind.seen_as(Object), namespace, labels=labels, limit=_MOST_NAMES)
        except ApiError:
            continue
        names += [one.metadata.name for one in page.items]
    meant = nearest(name, names)
    where = f" in namespace {namespace}" if namespace else ""
    return f"there is no job {name}{where}" + (f"; did you mean {meant}?" if meant else "")


async def check_secrets(client: Client, namespace: str, asked: Iterable[SecretAsked]) -> None:
    """Raises `UserError` if there is no such Secret, or it has no such key, as far as the user may see that."""
    for one in asked:
        try:
            found = await client.find(SECRET, one.name, namespace)
        except ApiError as error:
            if error.code != 403:
                raise
            continue
        if found is None:
            make = f"kubectl create secret generic {one.name} --from-literal={one.key or 'KEY'}=..."
            raise UserError(f"there is no Secret {one.name} in namespace {namespace}; make it with: {make}")
        if one.key and one.key not in found.data:
            there = ", ".join(sorted(found.data)) or "none"
            raise UserError(f"Secret {one.name} has no key {one.key}; it has: {there}")


async def check_queue(client: Client, namespace: str, name: str) -> None:
    """Raises `UserError` if the namespace has no such LocalQueue; `ApiError` if that may not be known."""
    if await client.find(LOCAL_QUEUE, name, namespace):
        return
    try:
        queues = (await client.list(LOCAL_QUEUE, namespace)).items
    except ApiError as error:
        raise UserError(f"no queue {name}: {error}") from error
    there = ", ".join(sorted(queue.metadata.name for queue in queues))
    what = f"there is: {there}" if there else f"it has none; make one with: muster queue create {name} --cpu N"
    raise UserError(f"no queue {name} in namespace {namespace}; {what}")


async def queue_to_name(client: Client, namespace: str, asked: str, *, embedded: bool) -> str:
    """The queue that a job names: the one that is asked for, or the LocalQueue `default` where it may be seen.

    An embedded cluster draws jobs into that itself. Elsewhere the webhook that does may be away: a job that names none
    would then run outside all quota. Raises `ApiError`, `UserError` as `check_queue` does.
    """
    if asked:
        await check_queue(client, namespace, asked)
    if asked or embedded:
        return asked
    return DEFAULT_QUEUE if await get_or_none(client, LOCAL_QUEUE, DEFAULT_QUEUE, namespace) is not None else ""


async def priority_classes(client: Client, name: str) -> dict[str, str]:
    """Which kind of class the name is of: `queue_priority` if a WorkloadPriorityClass, else `priority`.

    Raises `UserError` if it is of none.
    """
    if not name:
        return {"priority": "", "queue_priority": ""}
    if await client.find(WORKLOAD_PRIORITY_CLASS, name):
        return {"priority": "", "queue_priority": name}
    if await client.find(PRIORITY_CLASS, name):
        return {"priority": name, "queue_priority": ""}
    kinds: tuple[Kind[Any], ...] = (WORKLOAD_PRIORITY_CLASS, PRIORITY_CLASS)
    names = [found.metadata.name for kind in kinds for found in await list_or_none(client, kind) or ()]
    # Those of the system itself are for the system alone.
    names = sorted({one for one in names if not one.startswith("system-")})
    there = f"; there is: {', '.join(names)}" if names else ""
    raise UserError(f"no WorkloadPriorityClass and no PriorityClass {name}{there}")


async def gpu_resource(client: Client) -> str:
    """What counts GPUs in this cluster, as far as the user may see that: NVIDIA's, unless only others are offered."""
    try:
        nodes = (await client.page(NODE, limit=_MOST_NODES)).items
    except ApiError:
        return NVIDIA_GPU
    offered = sorted({name for node in nodes for name in node.status.capacity if is_gpu(name)})
    return NVIDIA_GPU if NVIDIA_GPU in offered or not offered else offered[0]
