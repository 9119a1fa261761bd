"""The page of a node: its pods, its free amounts, its GPUs, taints and conditions."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.actions.rights import Right
from muster.api.core import NODE, POD, Node, Pod
from muster.api.nodes import taints_of
from muster.api.ours.gpus import is_gpu
from muster.api.pods import is_finished, job_of, rank_of
from muster.api.status import ApiError
from muster.api.validation.names import dns_subdomain
from muster.dashboard.listing import cut, read_list_query
from muster.dashboard.meters import describe_amount, draw_amount
from muster.dashboard.pages.nodes.nodemap import list_nodes
from muster.dashboard.rights import find_refusal
from muster.dashboard.usage import ask_usage
from muster.dashboard.visits import Page, PageError, Visit, require_name
from muster.insight.gpus import count_gpus, make_gpu_rows
from muster.insight.history.build import owner_of
from muster.insight.nodes import make_node_rows, request_of
from muster.insight.quota.state import index_by_owner
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.insight.reader.listing.views import WORKLOAD_LINES
from muster.insight.reader.visible import list_visible
from muster.insight.text import format_quantity
from muster.insight.usage import CurrentUsage, format_cpus, format_memory, usage_by_pod

NODE_RIGHTS = (Right("patch", NODE),)
"""The right that cordoning a node takes."""

_MOST_DIGITS = 10
_INFO = (
    ("System", "os_image"),
    ("Kernel", "kernel_version"),
    ("Architecture", "architecture"),
    ("Agent", "kubelet_version"),
    ("Runtime", "container_runtime_version"),
)


class PodRow(Struct, frozen=True):
    """A pod on a node.

    requests: the requests by resource, in units of `quantity.parse_amount`.
    cpus, memory: the measured use, as text.
    """

    namespace: str
    name: str
    uid: str
    job: str
    rank: str
    owner: str
    phase: str
    requests: Mapping[str, int]
    cpus: str
    memory: str

    @property
    def gpus(self) -> int:
        """The number of GPUs, of any vendor, that the pod requests."""
        return sum(amount for resource, amount in self.requests.items() if is_gpu(resource))


async def view_node(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the page of a node. Raises `PageError` if it does not exist, and `ApiError`."""
    node = await find_node(visit)
    unseen: list[str] = []
    pods, where = await _list_pods(visit, unseen)
    here = [pod for pod in pods if pod.spec.node_name == node.metadata.name and not is_finished(pod)]
    [row] = make_node_rows([node], None if where else here)
    usage = usage_by_pod(await ask_usage(visit, where))
    info = node.status.node_info
    gpus = make_gpu_rows([node], here, shared=bool(where))
    pod_rows = _make_pod_rows(here, usage, await _find_owners(visit, where))
    return {
        "node": node,
        "refusal": await find_refusal(visit, NODE_RIGHTS, node.metadata.name),
        "row": row,
        "pods": cut(pod_rows, read_list_query(visit)),
        "has_usage": bool(usage),
        "gpus": gpus,
        "gpu_count": count_gpus([node], None if where else sum(row.gpus for row in pod_rows)) if not gpus else None,
        "gpu_pods": [row for row in pod_rows if row.gpus],
        "taints": taints_of(node),
        "conditions": [(one, _is_bad(one.type, one.status)) for one in node.status.conditions],
        "info": [(title, value) for title, name in _INFO if (value := getattr(info, name))],
        "labels": sorted(node.metadata.labels.items()),
        "draw_amount": draw_amount,
        "describe_amount": describe_amount,
        "format_quantity": format_quantity,
        "unseen": unseen,
    }


async def find_node(visit: Visit) -> Node:
    """Return the node that the address names, from the viewer's list.

    Raises `PageError` if it does not exist, and `ApiError`.
    """
    name = _read_name(visit)
    return _require_node(name, next((one for one in await list_nodes(visit) if one.metadata.name == name), None))


async def read_node(visit: Visit) -> Node:
    """Return the current node that the address names, from the server.

    Raises `PageError` if it does not exist, and `ApiError`.
    """
    name = _read_name(visit)
    node = await get_or_none(visit.viewer.client, NODE, name)
    return _require_node(name, node)


def _read_name(visit: Visit) -> str:
    name = visit.names["name"]
    require_name("node", name, dns_subdomain)
    return name


def _require_node(name: str, node: Node | None) -> Node:
    """Return the node. Raises `PageError` if it is None, because no node has this name."""
    if node is None:
        raise PageError(
            f"There is no node {name}", "It has left the cluster, or never was in it. The menu leads to all nodes."
        )
    return node


async def _list_pods(visit: Visit, unseen: list[str]) -> tuple[Sequence[Pod], str]:
    """Return the pods that the viewer may see, and the namespace if they are from only one; "" for all namespaces.

    Sentences about what the viewer may not see are added to `unseen`.
    """
    own = visit.viewer.namespace
    try:
        return await list_visible(visit.copy, POD, own, unseen.append, "pods")
    except ApiError as error:
        if error.code != 403:
            raise
        unseen.append(f"Pods are not shown: {error}")
        return (), own


async def _find_owners(visit: Visit, where: str) -> Mapping[str, str]:
    """Return the submitter of each job that has a Workload, by the job's UID, as far as the viewer may see that."""
    workloads = await list_or_none(visit.copy, WORKLOAD_LINES, where) or ()
    return {uid: owner_of(one.metadata) for uid, one in index_by_owner(workloads).items()}


def _make_pod_rows(
    pods: Sequence[Pod], usage: Mapping[tuple[str, str], CurrentUsage], owners: Mapping[str, str]
) -> list[PodRow]:
    rows = []
    for pod in pods:
        meta = pod.metadata
        used = usage.get((meta.namespace, meta.name))
        cpus, memory = (format_cpus(used), format_memory(used)) if used is not None else ("", "")
        requests = {resource: number for resource, number in request_of(pod).items() if resource != "pods"}
        uid, job = job_of(pod)
        owner = owners.get(uid) or owner_of(meta)
        rows.append(
            PodRow(
                meta.namespace, meta.name, meta.uid, job, rank_of(pod), owner, pod.status.phase, requests, cpus, memory
            )
        )
    return sorted(rows, key=lambda row: (row.namespace, row.job, _order_rank(row.rank), row.name))


def _order_rank(rank: str) -> int:
    return int(rank) if rank.isascii() and rank.isdecimal() and len(rank) < _MOST_DIGITS else 0


def _is_bad(condition: str, status: str) -> bool:
    """Return whether a node's condition is bad: Ready is not True, or any other condition is True."""
    return status != "True" if condition == "Ready" else status == "True"


ROUTES = (Page("/nodes/{name}", "nodes/one.html", view_node, "nodes"),)
