"""Check the names that a user gives against the objects in the cluster.

The error for an unknown name suggests the most similar existing names.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from muster.actions.errors import UserError
from muster.actions.submission.caller import find_account_name
from muster.api.core import NODE, SECRET, Node
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS
from muster.api.kueue.names import DEFAULT_QUEUE
from muster.api.managed.teams import refuse_foreigner
from muster.api.ours.gpus import NVIDIA_GPU, is_gpu
from muster.api.ours.teams import read_users
from muster.api.ours.users import short_user
from muster.api.server.authentication import SELF_SUBJECT_REVIEW, SelfSubjectReview, UserInfo
from muster.api.status import ApiError
from muster.api.values.quantity import parse_amount, parse_thousandths
from muster.insight.nearest import find_nearest
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.runtime.client import Client

if TYPE_CHECKING:
    from muster.actions.submission.gang import SecretVariables

_MOST_NODES = 500  # The maximum number of nodes whose capacity is read.
_ADMINISTRATORS = "system:masters"


async def check_secrets(client: Client, namespace: str, variables: "Iterable[SecretVariables]") -> None:
    """Raise `UserError` if a Secret or a requested key of it is missing.

    A Secret that the user may not read is assumed to exist.
    """
    for one in variables:
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
    """Raise `UserError` if the namespace has no LocalQueue with this name.

    Raises `ApiError` if the user may not read LocalQueues.
    """
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
    """Raise `UserError` if the LocalQueue is missing or belongs to a team that the caller is not a member of.

    Raises `ApiError` if the caller may not read LocalQueues.
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
    """Return the short user name that the server records as the submitter of the caller's jobs.

    For an administrator, the server records the name of the machine's account, which `submitting.sign_manifest` writes
    into the job.
    """
    account = find_account_name() if _ADMINISTRATORS in caller.groups else ""
    return account or short_user(caller.username)


async def describe_missing_queue(client: Client, name: str, namespace: str) -> str:
    """Return a sentence that no LocalQueue has this name, with the most similar visible name.

    Returns "" if the LocalQueue exists, or if the user may not list LocalQueues.

    namespace: the namespace to search; "" for all namespaces.
    """
    queues = await list_or_none(client, LOCAL_QUEUE, namespace)
    names = {queue.metadata.name for queue in queues or ()}
    if queues is None or name in names:
        return ""
    similar = find_nearest(name, sorted(names))
    where = f" in namespace {namespace}" if namespace else ""
    return f"there is no queue {name}{where}" + (f"; did you mean {similar}?" if similar else "")


async def find_queue_label(client: Client, namespace: str, queue: str, *, embedded: bool) -> str:
    """Return the value of the job's queue label: `queue` if set, else LocalQueue `default` if visible, else "".

    In an embedded cluster the result is "" without a requested queue, because the server itself puts such jobs into
    `default`. In another cluster the webhook that does so may be missing, and a job without a queue would bypass all
    quota.
    Raises `ApiError` and `UserError` as `check_own_queue` does.
    """
    if queue:
        await check_own_queue(client, namespace, queue)
    if queue or embedded:
        return queue
    return DEFAULT_QUEUE if await get_or_none(client, LOCAL_QUEUE, DEFAULT_QUEUE, namespace) is not None else ""


async def priority_classes(client: Client, name: str) -> dict[str, str]:
    """Return the priority class under the key `queue_priority` if it is a WorkloadPriorityClass, else under `priority`.

    The value of the other key is "". Both values are "" for an empty name. Raises `UserError` if neither a
    WorkloadPriorityClass nor a PriorityClass has this name, and `ApiError`.
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
    # Kubernetes reserves these classes for system pods.
    names = sorted({one for one in names if not one.startswith("system-")})
    existing = f"there is: {', '.join(names)}" if names else "there is none: leave out --priority (in a script, --qos)"
    raise UserError(f"no WorkloadPriorityClass and no PriorityClass {name}; {existing}")


async def gpu_resource(client: Client) -> str:
    """Return the name of the cluster's GPU resource: NVIDIA's, unless the visible nodes offer only other GPUs."""
    offered = sorted({name for node in await _list_nodes(client) for name in node.status.capacity if is_gpu(name)})
    return NVIDIA_GPU if NVIDIA_GPU in offered or not offered else offered[0]


async def has_gpus(client: Client) -> bool:
    """Return whether any node that the user may see offers GPUs."""
    nodes = await _list_nodes(client)
    return any(
        is_gpu(name) and parse_amount(name, count) for one in nodes for name, count in one.status.capacity.items()
    )


async def node_cpus(client: Client) -> list[int]:
    """Return the allocatable CPUs of each schedulable node, in millicores; empty if the user may not list nodes."""
    nodes = [node for node in await _list_nodes(client) if not node.spec.unschedulable]
    return [parse_thousandths(node.status.allocatable.get("cpu", 0)) for node in nodes]


async def queue_lacks_cpus(client: Client, namespace: str, name: str) -> bool:
    """Return whether a LocalQueue's ClusterQueue has quota, but none for CPUs. False if the user may not read them.

    A job that requests CPUs is never admitted there.
    """
    local = await get_or_none(client, LOCAL_QUEUE, name, namespace)
    if local is None or (queue := await get_or_none(client, CLUSTER_QUEUE, local.spec.cluster_queue)) is None:
        return False
    groups = queue.spec.resource_groups
    return bool(groups) and not any("cpu" in group.covered_resources for group in groups)


async def _list_nodes(client: Client) -> Sequence[Node]:
    """Return the first page of the cluster's nodes; empty if the server refuses the request."""
    try:
        return (await client.page(NODE, limit=_MOST_NODES)).items
    except ApiError:
        return ()
