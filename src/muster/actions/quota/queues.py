"""Create, change and delete ClusterQueues and the LocalQueues that point to them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from muster.actions.choices import check_queue
from muster.actions.errors import UserError
from muster.actions.jobs.conflicts import ATTEMPTS, pause_after_conflict
from muster.actions.quota.teams import check_parts, find_division
from muster.actions.server.session import Session
from muster.actions.waiting import wait_for_result
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD, ClusterQueue, LocalQueue
from muster.api.ours.teams import FOLLOWS_NODES
from muster.api.status import ApiError, require_uid
from muster.insight.quota.state import display_name, find_quota_state
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.runtime.client import Client
from muster.runtime.realclock import Clock

# A running engine releases an unused ClusterQueue within this number of seconds.
_RELEASE_SECONDS = 2.0


async def create_all(client: Client, documents: Iterable[dict[str, Any]]) -> list[str]:
    """Create the objects of new queues after a dry run of all of them; return a sentence for each created object.

    An existing ResourceFlavor is kept unchanged. Raises `ApiError`, and `UserError` if a queue exists already.
    """
    made = list(documents)
    for document in made:  # all objects are checked before the first one is stored
        await _create(client, document, dry_run=True)
    return [
        f"{document['kind'].lower()}/{document['metadata']['name']} created"
        for document in made
        if await _create(client, document, dry_run=False)
    ]


async def _create(client: Client, document: dict[str, Any], *, dry_run: bool) -> bool:
    """Create an object; return whether it is new. False is possible only for an existing ResourceFlavor.

    Raises `UserError` if a queue of this name exists, and `ApiError`.
    """
    kind = next(kind for kind in (RESOURCE_FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE) if kind.kind == document["kind"])
    namespace = document["metadata"].get("namespace", "")
    try:
        await client.create(kind.seen_as(dict), document, namespace, dry_run=dry_run)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        if kind is not RESOURCE_FLAVOR:
            raise make_taken_error(kind.kind, document["metadata"]["name"]) from None
        return False
    return True


def make_taken_error(kind: str, name: str) -> UserError:
    """Return the error for a new queue whose name is taken."""
    change = f"change it (muster queue edit {name}), or " if kind == CLUSTER_QUEUE.kind else ""
    return UserError(f"there is a {kind} {name} already: {change}choose another name")


async def edit(
    session: Session,
    name: str,
    patch: Callable[[Mapping[str, Any]], dict[str, Any]],
    annotate: Callable[[Mapping[str, str]], Mapping[str, str | None]],
    *,
    dry_run: bool,
    uid: str = "",
) -> dict[str, Any] | None:
    """Patch a ClusterQueue, retrying after conflicts; return the changed object, or None if nothing changed.

    patch: returns the merge patch for the given spec.
    annotate: returns the changes of the given annotations.
    dry_run: whether the server only validates the change.
    uid: the UID of the queue; "" for the current queue of this name.

    Edited quotas no longer follow the nodes, because the next change of a node would overwrite the edit. The edit is
    refused while teams have parts of such quotas. Raises `ApiError` (409 for another queue), `UserError` if the queue
    does not exist or its quota is divided, and the errors of `patch` and `annotate`.
    """
    client, kind = session.client, CLUSTER_QUEUE.seen_as(dict)
    for attempt in range(1, ATTEMPTS + 1):
        queue = await client.find(kind, name)
        if queue is None:
            raise UserError(await _explain_missing_queue(session, name))
        require_uid(kind.resource, name, queue["metadata"]["uid"], uid)
        uid = queue["metadata"]["uid"]  # a retry edits this queue, and no other of its name
        annotations = queue["metadata"].get("annotations") or {}
        spec, changed = patch(queue["spec"]), dict(annotate(annotations))
        if not spec and not changed:
            return None
        if "resourceGroups" in spec and FOLLOWS_NODES in annotations:
            check_parts(await find_division(client))
            changed[FOLLOWS_NODES] = None
        metadata = {"resourceVersion": queue["metadata"]["resourceVersion"], "annotations": changed}
        change = {"metadata": metadata, "spec": spec}
        try:
            after: dict[str, Any] = await client.patch(kind, name, change, dry_run=dry_run)
        except ApiError as error:
            if error.code != 409 or attempt == ATTEMPTS:
                raise
            await pause_after_conflict(attempt)
        else:
            return after
    raise AssertionError("the last attempt returns or raises")


async def _explain_missing_queue(session: Session, name: str) -> str:
    local = await get_or_none(session.client, LOCAL_QUEUE, name, session.namespace)
    if local is None:
        return f"there is no ClusterQueue {name}"
    there = local.spec.cluster_queue
    return f"{name} is a LocalQueue; its quota is that of ClusterQueue {there}: muster queue edit {there}"


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that has not finished, in a queue that is to be deleted. is_admitted: it has quota, and keeps it."""

    name: str
    is_admitted: bool

    def describe_effect(self) -> str:
        """Return the sentence that says what the deletion of the queue does to the job."""
        return f"job {self.name} {'continues' if self.is_admitted else 'does not start any more'}"


@dataclass(frozen=True, slots=True)
class Deletion:
    """The objects to delete with a queue, and the jobs in its LocalQueues.

    cluster: the ClusterQueue; None if only a LocalQueue is deleted.
    """

    cluster: ClusterQueue | None
    local: tuple[LocalQueue, ...]
    jobs: tuple[QueuedJob, ...]


async def plan_deletion(session: Session, name: str) -> Deletion:
    """Return the objects to delete: a ClusterQueue with all its LocalQueues, or else the LocalQueue in the namespace.

    Raises `ApiError`, and `UserError` if neither exists.
    """
    client, namespace = session.client, session.namespace
    cluster = await get_or_none(client, CLUSTER_QUEUE, name)
    if cluster is None:
        await check_queue(client, namespace, name)
        local = [await client.get(LOCAL_QUEUE, name, namespace)]
    else:
        everywhere = await list_or_none(client, LOCAL_QUEUE)
        local_queues = everywhere if everywhere is not None else (await client.list(LOCAL_QUEUE, namespace)).items
        local = [one for one in local_queues if one.spec.cluster_queue == name]
    jobs: list[QueuedJob] = []
    for queue in local:
        jobs += await _list_jobs(client, queue, namespace)
    return Deletion(cluster, tuple(local), tuple(jobs))


async def _list_jobs(client: Client, queue: LocalQueue, namespace: str) -> list[QueuedJob]:
    meta = queue.metadata
    jobs = []
    for workload in await list_or_none(client, WORKLOAD, meta.namespace) or ():
        state = find_quota_state(workload)
        if workload.spec.queue_name == meta.name and not state.finished:
            jobs.append(QueuedJob(display_name(workload.metadata, namespace), state.word == "Admitted"))
    return jobs


async def delete(client: Client, deletion: Deletion, clock: Clock) -> list[str]:
    """Delete the queues of a plan; return one sentence for each deleted object. Raises `ApiError`.

    If no running job uses the ClusterQueue, wait briefly until the engine has released it, so that the next command
    sees its quota as free.
    """
    sentences = []
    for queue in deletion.local:
        await client.delete_object(LOCAL_QUEUE, queue)
        sentences.append(f"localqueue/{queue.metadata.name} (namespace {queue.metadata.namespace}) deleted")
    if deletion.cluster is not None:
        await client.delete_object(CLUSTER_QUEUE, deletion.cluster)
        is_used = any(job.is_admitted for job in deletion.jobs)
        if not is_used:
            await wait_for_result(partial(_is_gone, client, deletion.cluster), clock, _RELEASE_SECONDS)
        later = " when its running jobs have ended" if is_used else ""
        sentences.append(f"clusterqueue/{deletion.cluster.metadata.name} deleted{later}")
    return sentences


async def _is_gone(client: Client, queue: ClusterQueue) -> bool | None:
    """Return True once the deleted ClusterQueue no longer exists, and None before that."""
    there = await client.find(CLUSTER_QUEUE, queue.metadata.name)
    return True if there is None or there.metadata.uid != queue.metadata.uid else None
