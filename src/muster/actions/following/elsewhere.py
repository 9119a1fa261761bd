"""The way to the cluster that MultiKueue has run a job in, with the kubeconfig that its manager uses."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

from muster.actions.following.queuewatch import labels_of
from muster.api.kueue import MULTI_KUEUE_CLUSTER, WORKLOAD
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_LABEL, MULTI_KUEUE_ORIGIN_UID
from muster.api.status import ApiError, Status
from muster.insight.quotastate import by_owner
from muster.insight.reader.clusters import connection_to, engine_namespace, origin
from muster.insight.reader.queues import get_or_none, list_or_none
from muster.insight.reader.records import filled
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport

# A client of the worker cluster of a name, for as long as the context lasts. Raises `OutOfReachError`.
Reach: TypeAlias = Callable[[str], AbstractAsyncContextManager[Client]]


class OutOfReachError(Exception):
    """A worker cluster that the user cannot ask; says why, and what to do."""


async def cluster_of(client: Client, job: JobRecord) -> str:
    """The cluster that a job runs in, or has run in at last; "" if none does, or that may not be seen."""
    meta = job.metadata
    workloads = await list_or_none(client, WORKLOAD, meta.namespace, labels=labels_of(meta.uid)) or ()
    workload = by_owner(workloads).get(meta.uid)
    return (workload.status.cluster_name or "") if workload is not None else ""


async def copy_of(client: Client, there: Client, job: JobRecord) -> JobRecord:
    """What its manager has made of a job in a worker cluster. Raises `ApiError` (NotFound) if that is not there.

    Another's of its name is not it: the credential with which a worker is asked is the manager's, and may do more than
    the user may.
    """
    copy = await filled(there, await there.get(job.kind, job.metadata.name, job.metadata.namespace))
    meta = copy.metadata
    mark, uid = meta.labels.get(MULTI_KUEUE_ORIGIN_LABEL, ""), meta.annotations.get(MULTI_KUEUE_ORIGIN_UID, "")
    # Kueue as manager does not say for which job it has made one.
    if mark and (uid == job.metadata.uid if uid else mark == await origin(client)):
        return copy
    problem = f"the {job.kind.kind} {meta.name} that is there was not made for it"
    raise ApiError(Status(status="Failure", code=404, reason="NotFound", message=problem))


def reaching(client: Client) -> Reach:
    """With what the server of a manager tells this user."""

    @asynccontextmanager
    async def reach(name: str) -> AsyncIterator[Client]:
        async with tunneling(client, name) as transport:
            yield Client(transport, field_manager="muster-cli")

    return reach


@asynccontextmanager
async def tunneling(client: Client, name: str) -> AsyncIterator[HttpsTransport]:
    """The same, for what goes into pods as well. Raises `OutOfReachError`."""
    cluster = await get_or_none(client, MULTI_KUEUE_CLUSTER, name)
    if cluster is None:
        raise OutOfReachError(f"{_advice(name)}: it is not there any more, or may not be seen by you")
    config = await connection_to(client, cluster, await engine_namespace(client))
    if isinstance(config, str):
        raise OutOfReachError(f"{_advice(name)}: {config}")
    transport = HttpsTransport(config, RealClock(), Random())
    try:
        yield transport
    finally:
        await transport.close()


def _advice(name: str) -> str:
    return f"it is in cluster {name}; ask there, with --kubeconfig"
