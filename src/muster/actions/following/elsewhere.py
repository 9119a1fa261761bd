"""Connect to the worker cluster in which MultiKueue runs a job, with the manager cluster's kubeconfig for it."""

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

# A context manager that opens a client for the named worker cluster. Raises `OutOfReachError`.
Reach: TypeAlias = Callable[[str], AbstractAsyncContextManager[Client]]


class OutOfReachError(Exception):
    """A worker cluster that the user cannot reach. The message contains the reason and the remedy."""


async def cluster_of(client: Client, job: JobRecord) -> str:
    """Return the name of the worker cluster that runs a job, or ran it last.

    Returns "" if no worker cluster ran it, or if the user may not read the job's Workload.
    """
    meta = job.metadata
    workloads = await list_or_none(client, WORKLOAD, meta.namespace, labels=labels_of(meta.uid)) or ()
    workload = index_by_owner(workloads).get(meta.uid)
    return (workload.status.cluster_name or "") if workload is not None else ""


async def copy_of(client: Client, there: Client, job: JobRecord) -> JobRecord:
    """Return the copy of a job that its manager cluster created in a worker cluster.

    there: a client for the worker cluster.

    Another job of the same name is ignored: the request uses the manager's credential, which may have more rights than
    the user. Raises `ApiError` (NotFound) if the copy does not exist.
    """
    copy = await read_record(there, await there.get(job.kind, job.metadata.name, job.metadata.namespace))
    from muster.insight.reader.clusters import read_origin  # few jobs run in other clusters

    meta = copy.metadata
    mark, uid = meta.labels.get(MULTI_KUEUE_ORIGIN_LABEL, ""), meta.annotations.get(MULTI_KUEUE_ORIGIN_UID, "")
    # A copy that Kueue created names its manager cluster, but not the job's UID.
    if mark and (uid == job.metadata.uid if uid else mark == await read_origin(client)):
        return copy
    problem = f"the {job.kind.kind} {meta.name} that is there was not made for it"
    raise ApiError(Status(status="Failure", code=404, reason="NotFound", message=problem))


def make_reach(client: Client) -> Reach:
    """Return a function that opens a client for a named worker cluster, with the manager's kubeconfig for it.

    Entering the returned context manager raises `OutOfReachError` if the cluster cannot be reached.
    """

    @asynccontextmanager
    async def reach(name: str) -> AsyncIterator[Client]:
        async with open_tunnel(client, name) as transport:
            yield Client(transport, field_manager="muster-cli")

    return reach


@asynccontextmanager
async def open_tunnel(client: Client, name: str) -> "AsyncIterator[HttpsTransport]":
    """Open a transport to a worker cluster that also supports exec and attach.

    Raises `OutOfReachError` if the cluster or its kubeconfig is missing, or if the user may not read it.
    """
    from muster.insight.reader.clusters import (  # few jobs run in other clusters
        find_engine_namespace,
        read_connection_to,
    )

    cluster = await get_or_none(client, MULTI_KUEUE_CLUSTER, name)
    if cluster is None:
        raise OutOfReachError(f"{_advise(name)}: it is not there any more, or may not be seen by you")
    config = await read_connection_to(client, cluster, await find_engine_namespace(client))
    if isinstance(config, str):
        raise OutOfReachError(f"{_advise(name)}: {config}")
    await ensure_loop()
    from muster.runtime.ids import Random
    from muster.runtime.kube.https import HttpsTransport  # importing it is slow, and most jobs run in this cluster

    transport = HttpsTransport(config, RealClock(), Random())
    try:
        yield transport
    finally:
        await transport.close()


def _advise(name: str) -> str:
    return f"the job is in cluster {name}; use that cluster's --kubeconfig"
