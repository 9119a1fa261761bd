"""Find a job by the name that the user gave. The error for an unknown name suggests the most similar name."""

from typing import Any

from msgspec import structs

from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kinds import Kind
from muster.api.kueue.names import MANAGED_LABEL
from muster.api.managed.podgroup import group_name
from muster.api.meta import Object
from muster.api.pods import is_finished
from muster.api.status import ApiError, require_uid
from muster.insight.nearest import find_nearest
from muster.insight.reader.jobs.records import record_named
from muster.insight.reader.listing.access import list_all
from muster.insight.reader.listing.views import POD_LINES
from muster.insight.record import JobRecord
from muster.runtime.client import Client

_MOST_NAMES = 500  # The maximum number of existing names to compare an unknown name with.


async def get_job(client: Client, name: str, namespace: str, uid: str = "", kind: Kind[Any] | None = None) -> JobRecord:
    """Return the job with this name.

    uid: the UID of the job; "" for any job of this name.
    kind: the kind of the job if a list has shown it; None for a JobSet, or else a Job.

    Raises `ApiError`: 404 if there is no such job, with the most similar name; 409 if the job has another UID.
    """
    try:
        job = await record_named(client, name, namespace, kind)
    except ApiError as error:
        if error.code != 404:
            raise
        raise ApiError(
            structs.replace(error.status, message=await explain_missing_job(client, name, namespace))
        ) from None
    require_uid(job.kind.resource, name, job.metadata.uid, uid)
    return job


async def explain_missing_job(client: Client, name: str, namespace: str) -> str:
    """Return a sentence that no job has this name, with the most similar name that the user may see.

    If there is a pod group of this name that is not queued yet, the sentence says why instead.

    namespace: the namespace to search; "" for all namespaces.

    Errors of the server only make the sentence shorter.
    """
    names: list[str] = []
    kinds: tuple[tuple[Kind[Any], str], ...] = ((JOB_SET, ""), (JOB, f"!{JOBSET_NAME}"))
    for kind, labels in kinds:
        try:
            page = await client.page(kind.seen_as(Object), namespace, labels=labels, limit=_MOST_NAMES)
        except ApiError:
            continue
        names += [one.metadata.name for one in page.items]
    similar = find_nearest(name, names)
    where = f" in namespace {namespace}" if namespace else ""
    sentence = f"there is no job {name}{where}"
    if group := await _describe_unqueued_group(client, name, namespace):
        return f"{sentence}: {group}"
    return sentence + (f"; did you mean {similar}?" if similar else "")


async def _describe_unqueued_group(client: Client, name: str, namespace: str) -> str:
    """Return the reason why the pods of the group with this name are not queued; "" if the user sees no such pods."""
    try:
        # The name of the group may be an annotation, which no server selects by.
        pods = await list_all(client, POD_LINES, namespace, labels=MANAGED_LABEL)
    except ApiError:
        return ""
    living = [pod for pod in pods if group_name(pod.metadata) == name and not is_finished(pod)]
    if not living:
        return ""
    from muster.insight.jobs.unqueued import UnqueuedGroup, explain_unqueued  # importing it is slow

    group = UnqueuedGroup(living[0].metadata.namespace, name, tuple(living))
    return f"{explain_unqueued(group)} (to remove it: kubectl delete pods {group.selector})"
