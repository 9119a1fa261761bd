"""Connect to the worker cluster in which MultiKueue runs a job, with the kubeconfig that the manager uses."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from muster.api.kueue import MULTI_KUEUE_CLUSTER, WORKLOAD
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_LABEL, MULTI_KUEUE_ORIGIN_UID
from muster.api.status import ApiError, Status
from muster.insight.quota.state import index_by_owner
from muster.insight.reader.jobs.records import read_record
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.insight.reader.quota.workloads import labels_of
from muster.insight.record import JobRecord
from muster.runtime.client import Client
from muster.runtime.eventloop import ensure_loop
from muster.runtime.realclock import RealClock

if TYPE_CHECKING:
    from muster.runtime.kube.https import HttpsTransport

# Opens a client for the named worker cluster until the end of the context. Raises `OutOfReachError`.
Reach: TypeAlias = Callable[[str], AbstractAsyncContextManager[Client]]


class OutOfReachError(Exception):
    """The error of a worker cluster that the user cannot reach; the message says why, and what to do."""


async def cluster_of(client: Client, job: JobRecord) -> str:
    """Return the name of the worker cluster in which a job runs or last ran.

    "" if there is none, or the user may not see the job's Workload.
    """
    meta = job.metadata
    workloads = await list_or_none(client, WORKLOAD, meta.namespace, labels=labels_of(meta.uid)) or ()
    workload = index_by_owner(workloads).get(meta.uid)
    return (workload.status.cluster_name or "") if workload is not None else ""


async def copy_of(client: Client, there: Client, job: JobRecord) -> JobRecord:
    """Return the copy of a job that its manager created in a worker cluster. there: the worker cluster.

    Another job of the same name does not count: the request uses the manager's credential, which may have more rights
    than the user. Raises `ApiError` (NotFound) if there is no copy.
    """
    copy = await read_record(there, await there.get(job.kind, job.metadata.name, job.metadata.namespace))
    from muster.insight.reader.clusters import read_origin  # few jobs run in other clusters

    meta = copy.metadata
    mark, uid = meta.labels.get(MULTI_KUEUE_ORIGIN_LABEL, ""), meta.annotations.get(MULTI_KUEUE_ORIGIN_UID, "")
    # A copy that Kueue created names its manager, but not the job.
    if mark and (uid == job.metadata.uid if uid else mark == await read_origin(client)):
        return copy
    problem = f"the {job.kind.kind} {meta.name} that is there was not made for it"
    raise ApiError(Status(status="Failure", code=404, reason="NotFound", message=problem))


def make_reach(client: Client) -> Reach:
    """Return a function that opens a client for a worker cluster by name, with the kubeconfig of the manager.

    The client's opening raises `OutOfReachError`.
    """

    @asynccontextmanager
    async def reach(name: str) -> AsyncIterator[Client]:
        async with open_tunnel(client, name) as transport:
            yield Client(transport, field_manager="muster-cli")

    return reach


@asynccontextmanager
async def open_tunnel(client: Client, name: str) -> "AsyncIterator[HttpsTransport]":
    """Open a transport to a worker cluster that also supports exec and attach.

    Raises `OutOfReachError` if the cluster or its kubeconfig is missing or may not be seen by the user.
    """
    from muster.insight.reader.clusters import connection_to, engine_namespace  # few jobs run in other clusters

    cluster = await get_or_none(client, MULTI_KUEUE_CLUSTER, name)
    if cluster is None:
        raise OutOfReachError(f"{_advise(name)}: it is not there any more, or may not be seen by you")
    config = await connection_to(client, cluster, await engine_namespace(client))
    if isinstance(config, str):
        raise OutOfReachError(f"{_advise(name)}: {config}")
    await ensure_loop()
    from muster.runtime.ids import Random
    from muster.runtime.kube.https import HttpsTransport  # it takes long to load, and most jobs run here

    transport = HttpsTransport(config, RealClock(), Random())
    try:
        yield transport
    finally:
        await transport.close()


def _advise(name: str) -> str:
    return f"the job is in cluster {name}; use that cluster's --kubeconfig"
