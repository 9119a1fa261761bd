"""Read the objects that the user may see, even if the user has rights in one namespace only.

Each function reads the whole cluster, or else the user's own namespace, and returns which of both it read.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from muster.api.kinds import Kind
from muster.api.kueue import Workload
from muster.api.status import ApiError
from muster.insight.history.runs import Run, RunQuery
from muster.insight.reader.history.recorded import read_history
from muster.insight.reader.jobs.rows import job_rows, job_rows_of
from muster.insight.reader.listing.access import list_all
from muster.insight.reader.listing.memo import Memo
from muster.runtime.client import Client

if TYPE_CHECKING:
    from muster.insight.jobs.podgroups import PodGroupView

T = TypeVar("T")


async def list_visible(
    client: Client, kind: Kind[T], own: str, say: Callable[[str], None], noun: str
) -> tuple[list[T], str]:
    """Return the objects of all namespaces and ""; or the objects of the user's own namespace and its name.

    own: the user's namespace.
    noun: a plural noun for the objects, for the sentence that those of other namespaces are not shown.
    say: receives that sentence.

    Raises:
        ApiError: the user may not list the objects of their own namespace either, or there is no such kind.
    """

    async def read(namespace: str) -> list[T]:
        return await list_all(client, kind, namespace)

    return await _read_visible(read, own, say, noun)


async def _read_visible(
    read: Callable[[str], Awaitable[T]], own: str, say: Callable[[str], None], noun: str
) -> tuple[T, str]:
    """Return the result of `read` for all namespaces ("") and ""; or for the user's own namespace and its name.

    say: receives a sentence that names the own namespace, if the user may not see all.
    noun: a plural noun for the objects.
    """
    try:
        return await read(""), ""
    except ApiError as error:
        if error.code != 403:
            raise
    found = await read(own)
    say(_describe_limit(noun, own))
    return found, own


async def visible_job_rows(
    client: Client,
    own: str,
    now: datetime,
    say: Callable[[str], None],
    find_memo: Callable[[str], Memo | None] = lambda _: None,
) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of all jobs and ""; or the rows of the jobs in the user's own namespace and its name.

    own: the user's namespace.
    say: receives a sentence about the objects that the user may not see.
    find_memo: returns the results of earlier calls for a namespace.

    Raises:
        ApiError: the user may not see the jobs of their own namespace either.
    """

    async def read(namespace: str) -> list[dict[str, Any]]:
        return await job_rows(client, namespace, now, say, find_memo(namespace))

    return await _read_visible(read, own, say, "jobs")


async def visible_job_rows_of(
    client: Client,
    namespace: str,
    own: str,
    now: datetime,
    workloads: Sequence[Workload],
    positions: Mapping[str, int | None],
) -> list[dict[str, Any]]:
    """Return the rows of `job_rows_of`, as far as the user may see the jobs: all, those of one namespace, or none.

    namespace: the namespace of the Workloads; "" for all.
    own: the user's namespace.
    """
    for where in dict.fromkeys((namespace, namespace or own)):
        try:
            return await job_rows_of(client, where, now, workloads, positions)
        except ApiError as error:
            if error.code != 403:
                raise
    return []


async def visible_pod_groups(client: Client, own: str, say: Callable[[str], None]) -> "tuple[list[PodGroupView], str]":
    """Return the groups of all namespaces and ""; or the groups of the user's own namespace and its name.

    own: the user's namespace.
    say: receives a sentence about the objects that the user may not see.

    Raises:
        ApiError: the user may not list the pods of their own namespace either.
    """
    from muster.insight.reader.jobs.podgroups import pod_groups  # few questions are about the dialects of groups

    return await _read_visible(lambda namespace: pod_groups(client, namespace, say), own, say, "groups")


async def visible_history(
    client: Client, query: RunQuery, most: int, own: str, say: Callable[[str], None]
) -> tuple[list[Run], bool]:
    """Return the matching runs and whether there are more.

    If the user may not see all runs, return the runs of their own namespace.

    own: the user's namespace.
    most: the maximum number of runs.
    say: receives a sentence about the objects that the user may not see.

    Raises:
        ApiError: the user may not see the jobs of the namespace that the query names, or of their own.
    """
    try:
        return await read_history(client, query, most, say)
    except ApiError as error:
        if error.code != 403 or query.namespace:
            raise
    found = await read_history(client, replace(query, namespace=own), most, say)
    say(_describe_limit("runs", own))
    return found


def _describe_limit(noun: str, namespace: str) -> str:
    return f"{noun} are those of namespace {namespace}: you may not list others"
