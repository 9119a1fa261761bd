"""Checks what users name against what a cluster has; who names what is not there is told what is."""

from typing import Any

import click
from msgspec import structs

from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kinds import Kind
from muster.api.kueue import LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS
from muster.api.meta import Object
from muster.api.scheduling import PRIORITY_CLASS
from muster.api.status import ApiError
from muster.cli.names.nearest import nearest
from muster.insight.reader.queues import list_or_none
from muster.insight.reader.records import record_named
from muster.insight.record import JobRecord
from muster.runtime.client import Client

_MOST_NAMES = 500  # that a wrong one is compared with


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


async def check_queue(client: Client, namespace: str, name: str) -> None:
    """Raises `click.ClickException` if the namespace has no such LocalQueue."""
    if await client.find(LOCAL_QUEUE, name, namespace):
        return
    queues = await list_or_none(client, LOCAL_QUEUE, namespace)
    if queues is None:
        raise click.ClickException(f"no queue {name}: this cluster has no queues")
    there = ", ".join(sorted(queue.metadata.name for queue in queues))
    what = f"there is: {there}" if there else f"it has none; make one with: muster queue create {name} --cpu N"
    raise click.ClickException(f"no queue {name} in namespace {namespace}; {what}")


async def priority_classes(client: Client, name: str) -> dict[str, str]:
    """Which kind of class the name is of: `queue_priority` if a WorkloadPriorityClass, else `priority`.

    Raises `click.ClickException` if it is of none.
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
    raise click.ClickException(f"no WorkloadPriorityClass and no PriorityClass {name}{there}")
