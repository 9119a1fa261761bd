"""Check names that users type against the objects of a cluster.

The error for an unknown name suggests the most similar known names.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from muster.actions.errors import UserError
from muster.actions.submission.caller import find_account_name
from muster.api.batch import JOB
from muster.api.core import NODE, SECRET, Node
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS
from muster.api.kueue.names import DEFAULT_QUEUE, MANAGED_LABEL
from muster.api.managed.podgroup import group_name
from muster.api.managed.teams import refuse_foreigner
from muster.api.meta import Object, ObjectMeta
from muster.api.ours.gpus import NVIDIA_GPU, is_gpu
from muster.api.ours.teams import read_users
from muster.api.ours.users import short_user
from muster.api.pods import is_finished
from muster.api.server.authentication import SELF_SUBJECT_REVIEW, SelfSubjectReview, UserInfo
from muster.api.status import ANOTHER_OBJECT, ApiError, conflict
from muster.api.values.quantity import parse_amount, parse_thousandths
from muster.insight.nearest import find_nearest
from muster.insight.reader.jobs.records import record_named
from muster.insight.reader.listing.access import get_or_none, list_all, list_or_none
from muster.insight.reader.listing.views import POD_LINES
from muster.insight.record import JobRecord
from muster.runtime.client import Client

if TYPE_CHECKING:
    from muster.actions.submission.gang import SecretVariables

_MOST_NAMES = 500  # The maximum number of existing names that an unknown name is compared with.
_MOST_NODES = 500  # The maximum number of nodes whose capacity is read.
_ADMINISTRATORS = "system:masters"


async def get_job(client: Client, name: str, namespace: str, uid: str = "") -> JobRecord:
    """Return the job with this name.

    uid: of the job that the caller means; "" for any job of this name.
    Raises `ApiError`: 404 if there is no such job, with the name of the most similar one; 409 if it has another UID.
    """
    try:
        job = await record_named(client, name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        raise ApiError(structs.replace(error.status, message=await no_job(client, name, namespace))) from None
    require_uid(job.kind, job.metadata, uid)
    return job


def require_uid(kind: Kind[Any], meta: ObjectMeta, uid: str) -> None:
    """Raise `ApiError` (409) unless an object has this UID. uid: "" for any."""
    if uid not in ("", meta.uid):
        raise conflict(kind.resource, meta.name, ANOTHER_OBJECT)


async def no_job(client: Client, name: str, namespace: str) -> str:
    """Return a sentence that there is no job with this name, with the most similar name that the user may see.

    If pods of a group with this name do not queue yet, the sentence says why instead. namespace: "" means all
    namespaces. Errors of the server only shorten the sentence.
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
    """Return why the pods of a group with this name do not queue; "" if the user sees no such pods."""
    try:
        # The name of the group may be an annotation, which no server selects by.
        pods = await list_all(client, POD_LINES, namespace, labels=MANAGED_LABEL)
    except ApiError:
        return ""
    living = [pod for pod in pods if group_name(pod.metadata) == name and not is_finished(pod)]
    if not living:
        return ""
    from muster.insight.jobs.unqueued import UnqueuedGroup, explain_unqueued  # importing it takes long

    group = UnqueuedGroup(living[0].metadata.namespace, name, tuple(living))
    return f"{explain_unqueued(group)} (to remove it: kubectl delete pods {group.selector})"


async def check_secrets(client: Client, namespace: str, asked: "Iterable[SecretVariables]") -> None:
    """Raise `UserError` if a Secret or its key is missing. A Secret that the user may not read counts as existing."""
    for one in asked:
        try:
            secret = await client.find(SECRET, one.name, namespace)
        except ApiError as error:
            if error.code != 403:
                raise
            continue
        if secret is None:
            make = f"kubectl create secret generic {one.name} --from-literal={one.key or 'KEY'}=..."
            raise UserError(f"there is no Secret {one.name} in namespace {namespace}; make it with: {make}")
        if one.key and one.key not in secret.data:
            existing = ", ".join(sorted(secret.data)) or "none"
            raise UserError(f"Secret {one.name} has no key {one.key}; it has: {existing}")


async def check_queue(client: Client, namespace: str, name: str) -> None:
    """Raise `UserError` if the namespace has no such LocalQueue; `ApiError` if the user may not read LocalQueues."""
    if await client.find(LOCAL_QUEUE, name, namespace):
        return
    try:
        queues = (await client.list(LOCAL_QUEUE, namespace)).items
    except ApiError as error:
        raise UserError(f"no queue {name}: {error}") from error
    existing = ", ".join(sorted(queue.metadata.name for queue in queues))
    what = f"there is: {existing}" if existing else f"it has none; make one with: muster queue create {name} --cpu N"
    raise UserError(f"no queue {name} in namespace {namespace}; {what}")


async def check_own_queue(client: Client, namespace: str, name: str) -> None:
    """Raise `UserError` if the caller's jobs cannot start from this queue: it is missing, or that of another team.

    Raises `ApiError` as `check_queue` does.
    """
    local = await client.find(LOCAL_QUEUE, name, namespace)
    target = local.spec.cluster_queue if local is not None else name
    queue = None
    if target:
        queue = await get_or_none(client, CLUSTER_QUEUE, target)
    if queue is not None and read_users(queue.metadata.annotations) is not None:
        caller = (await client.create(SELF_SUBJECT_REVIEW, SelfSubjectReview())).status.user_info
        if why := refuse_foreigner(_name_submitter(caller), queue):
            raise UserError(why)
    if local is None:
        await check_queue(client, namespace, name)


def _name_submitter(caller: UserInfo) -> str:
    """Return the short name by which the server knows the submitter of the caller's jobs.

    An administrator's name is taken from the job: `submitting.sign_manifest` writes the name of the machine's account
    there.
    """
    account = find_account_name() if _ADMINISTRATORS in caller.groups else ""
    return account or short_user(caller.username)


async def describe_missing_queue(client: Client, name: str, namespace: str) -> str:
    """Return the sentence that there is no LocalQueue with this name, with the most similar visible name.

    Return "" if there is such a queue, or if the user may not list LocalQueues.
    namespace: "" means all namespaces.
    """
    queues = await list_or_none(client, LOCAL_QUEUE, namespace)
    names = {queue.metadata.name for queue in queues or ()}
    if queues is None or name in names:
        return ""
    similar = find_nearest(name, sorted(names))
    where = f" in namespace {namespace}" if namespace else ""
    return f"there is no queue {name}{where}" + (f"; did you mean {similar}?" if similar else "")


async def queue_to_name(client: Client, namespace: str, asked: str, *, embedded: bool) -> str:
    """Return the queue for the job's label: the requested one, or the LocalQueue `default` if it is visible; else "".

    An embedded cluster itself puts jobs without a queue into `default`, so that "" is returned. In any other cluster
    the webhook that does so may be missing, and a job without a queue would run outside all quota. Raises `ApiError`
    and `UserError` as `check_own_queue` does.
    """
    if asked:
        await check_own_queue(client, namespace, asked)
    if asked or embedded:
        return asked
    return DEFAULT_QUEUE if await get_or_none(client, LOCAL_QUEUE, DEFAULT_QUEUE, namespace) is not None else ""


async def priority_classes(client: Client, name: str) -> dict[str, str]:
    """Return the name as `queue_priority` if it is a WorkloadPriorityClass, else as `priority`.

    The other of the two is "", as both are for an empty name. Raises `UserError` if there is neither a
    WorkloadPriorityClass nor a PriorityClass with this name, and `ApiError`.
    """
    if not name:
        return {"priority": "", "queue_priority": ""}
    if await client.find(WORKLOAD_PRIORITY_CLASS, name):
        return {"priority": "", "queue_priority": name}
    if await client.find(PRIORITY_CLASS, name):
        return {"priority": name, "queue_priority": ""}
    kinds: tuple[Kind[Any], ...] = (WORKLOAD_PRIORITY_CLASS, PRIORITY_CLASS)
    names = [
        priority_class.metadata.name for kind in kinds for priority_class in await list_or_none(client, kind) or ()
    ]
    # Kubernetes reserves its own classes for system pods.
    names = sorted({one for one in names if not one.startswith("system-")})
    existing = f"there is: {', '.join(names)}" if names else "there is none: leave out --priority (in a script, --qos)"
    raise UserError(f"no WorkloadPriorityClass and no PriorityClass {name}; {existing}")


async def gpu_resource(client: Client) -> str:
    """Return the resource that counts GPUs in this cluster: NVIDIA's, unless the visible nodes offer only others."""
    offered = sorted({name for node in await _list_nodes(client) for name in node.status.capacity if is_gpu(name)})
    return NVIDIA_GPU if NVIDIA_GPU in offered or not offered else offered[0]


async def has_gpus(client: Client) -> bool:
    """Return whether a visible node offers GPUs."""
    nodes = await _list_nodes(client)
    return any(
        is_gpu(name) and parse_amount(name, count) for one in nodes for name, count in one.status.capacity.items()
    )


async def node_cpus(client: Client) -> list[int]:
    """Return the CPUs of each visible node that accepts pods, in thousandths; empty if the user may not see nodes."""
    nodes = [node for node in await _list_nodes(client) if not node.spec.unschedulable]
    return [parse_thousandths(node.status.allocatable.get("cpu", 0)) for node in nodes]


async def queue_lacks_cpus(client: Client, namespace: str, name: str) -> bool:
    """Return whether a LocalQueue has quota but none for CPUs, as far as the user may see.

    A job that requests CPUs never gets quota there.
    """
    local = await get_or_none(client, LOCAL_QUEUE, name, namespace)
    if local is None or (queue := await get_or_none(client, CLUSTER_QUEUE, local.spec.cluster_queue)) is None:
        return False
    groups = queue.spec.resource_groups
    return bool(groups) and not any("cpu" in group.covered_resources for group in groups)


async def _list_nodes(client: Client) -> Sequence[Node]:
    """Return the first page of the cluster's nodes; none if the server refuses the list."""
    try:
        return (await client.page(NODE, limit=_MOST_NODES)).items
    except ApiError:
        return ()
