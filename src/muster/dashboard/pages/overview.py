"""The overview page: what runs, what waits, the use of the quotas, and what needs attention."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from muster.api.core import POD, Node, Pod
from muster.api.kueue import COHORT
from muster.api.nodes import is_ready
from muster.api.ours.gpus import is_gpu
from muster.api.status import ApiError
from muster.dashboard.jobrows import read_job_rows
from muster.dashboard.meters import draw_share
from muster.dashboard.states import GROUPS, color_of
from muster.dashboard.visits import Page, Visit, make_address
from muster.insight.attention import Scene, Trouble, find_troubles
from muster.insight.gpus import GpuCount, count_gpus
from muster.insight.nodes import NodeAmount, sum_cluster
from muster.insight.quota.shares import QuotaNode, list_quota_nodes, list_shared_resources
from muster.insight.reader.attention import read_scene
from muster.insight.reader.listing.access import list_or_none
from muster.insight.reader.listing.missing import update_missing
from muster.insight.text import format_age, format_quantity

# The number of jobs and queues that the page names; the pages of jobs and queues list the others.
_MOST_JOBS, _MOST_QUEUES = 8, 12
_FORBIDDEN = 403
# Times that stand for an unknown time, before and after all other times.
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Tile(Struct, frozen=True):
    """A number on the overview, with its name and a note.

    link: the address of the page with details; "" for none.
    """

    name: str
    value: str
    note: str = ""
    link: str = ""


async def view_overview(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the overview: the state of the cluster, as far as the viewer may see it.

    Raises `ApiError`.
    """
    unseen: list[str] = []
    sees_jobs, where = True, ""  # where: the namespace of the jobs

    async def find_rows() -> tuple[list[dict[str, Any]], str]:
        nonlocal sees_jobs, where
        try:
            lines = await read_job_rows(visit)
        except ApiError as error:
            if error.code != _FORBIDDEN:
                raise
            sees_jobs = False
            unseen.append(f"jobs are not shown: {error}")
            return [], visit.viewer.namespace
        where = lines.namespace
        unseen.extend(lines.unseen)
        return lines.rows, lines.namespace

    pods = await list_or_none(visit.copy, POD)  # read before the jobs, so that their pods are included
    scene = await read_scene(visit.copy, visit.viewer.namespace, visit.now, unseen.append, find_rows)
    cohorts = await list_or_none(visit.copy, COHORT)
    tree = list_quota_nodes(scene.cluster_queues or (), cohorts or ())
    queues = [one for one in tree if one.row is not None]
    running = [row for row in scene.jobs if row["state"] in GROUPS["runs"]]
    waiting = [row for row in scene.jobs if row["state"] in GROUPS["waits"]]
    first = sorted(waiting, key=lambda row: row["waitsSince"] or _LAST)[:_MOST_JOBS]
    return {
        "tiles": [
            *(list_job_tiles(scene, running, waiting, visit.now) if sees_jobs else ()),
            *(_recall_node_tiles(visit, scene.nodes, pods) if scene.nodes is not None else ()),
        ],
        "sees_jobs": sees_jobs,
        "troubles": [(one, find_link(one)) for one in find_troubles(scene)],
        "queues": sorted(queues, key=_rank_queue)[:_MOST_QUEUES],
        "all_queues": len(queues),
        "has_queues": scene.cluster_queues is not None,
        "resources": list_shared_resources(queues),
        "running": sorted(running, key=lambda row: row["started"] or _FIRST, reverse=True)[:_MOST_JOBS],
        "waiting": await update_missing(visit.copy, first, where, visit.copy.memo("")),
        "counts": {"running": len(running), "waiting": len(waiting)},
        "draw_share": draw_share,
        "color_of": color_of,
        "unseen": unseen,
    }


def _rank_queue(node: QuotaNode) -> tuple[int, float, str]:
    """Return the sort key that puts the queues with most waiting jobs first, then the most used queues."""
    share = max((one.used / one.nominal for one in node.shares if one.nominal), default=0.0)
    return -(node.row["pending"] if node.row is not None else 0), -share, node.name


def list_job_tiles(
    scene: Scene, running: Sequence[Mapping[str, Any]], waiting: Sequence[Mapping[str, Any]], now: datetime
) -> list[Tile]:
    """Return the tiles with the numbers of running and of waiting jobs; the first notes how many have ended."""
    ended = Counter(row["state"] for row in scene.jobs if row["state"] in ("Completed", "Failed"))
    since = min((row["waitsSince"] for row in waiting if row["waitsSince"] is not None), default=None)
    longest = f"the longest for {format_age(since, now)}" if since is not None else ""
    there = f"{ended['Completed']} completed, {ended['Failed']} failed are still listed" if ended else ""
    return [
        Tile("Jobs that run", str(len(running)), there, make_address("jobs", state="runs")),
        Tile("Jobs that wait", str(len(waiting)), longest, make_address("jobs", state="waits")),
    ]


def _recall_node_tiles(visit: Visit, nodes: Sequence[Node], pods: Sequence[Pod] | None) -> Sequence[Tile]:
    """Return the tiles about nodes, from the memo while no node and no pod has changed.

    pods: all pods; None if the viewer may not see all of them.
    """
    inputs = pods is None, *nodes, *(pods or ())
    return visit.copy.memo("").recall("node tiles", "", inputs, lambda: tuple(list_node_tiles(nodes, pods)))


def list_node_tiles(nodes: Sequence[Node], pods: Sequence[Pod] | None) -> Iterable[Tile]:
    """Yield the tiles with the number of nodes, and with what pods request of them.

    pods: all pods; None if the viewer may not see all of them.
    """
    link = make_address("nodes")
    cordoned = sum(node.spec.unschedulable for node in nodes)
    ready = sum(map(is_ready, nodes))
    yield Tile("Nodes ready", f"{ready} of {len(nodes)}", f"{cordoned} cordoned" if cordoned else "", link)
    amounts = sum_cluster(nodes, pods)
    for amount in amounts:
        title = {"cpu": "CPUs requested", "memory": "Memory requested"}.get(amount.resource)
        if title is not None:
            yield Tile(title, _format_share(amount), _describe_share(amount), link)
    used = None if pods is None else sum(one.used or 0 for one in amounts if is_gpu(one.resource))
    if (gpus := count_gpus(nodes, used)).total:
        yield Tile("GPUs", _format_gpus(gpus), _describe_gpus(gpus), link)


def _format_share(amount: NodeAmount) -> str:
    return "unknown" if amount.used is None else f"{amount.share:.0%}"


def _describe_share(amount: NodeAmount) -> str:
    has = format_quantity(amount.resource, amount.has)
    if amount.used is None:
        return f"of {has}; you may not see all pods"
    return f"{format_quantity(amount.resource, amount.used)} of {has}"


def _format_gpus(gpus: GpuCount) -> str:
    return str(gpus.total) if gpus.used is None else f"{gpus.used} of {gpus.total}"


def _describe_gpus(gpus: GpuCount) -> str:
    ill = f", {gpus.ill} ill" if gpus.ill else ""
    return f"{gpus.free} free{ill}" if gpus.used is not None else f"you may not see who uses them{ill}"


def find_link(trouble: Trouble) -> str:
    """Return the address of the page about the object that has a problem; "" if there is none."""
    match trouble.topic:
        case "nodes" | "gpus":
            return make_address("nodes", trouble.name) if trouble.name else make_address("nodes")
        case "clusterqueue":
            return make_address("queues", "cluster", trouble.name) if trouble.name else make_address("queues")
        case "localqueue":
            return make_address("queues", trouble.namespace, trouble.name) if trouble.name else make_address("queues")
        case "flavor":
            return make_address("queues")
        case "job":
            return make_address("jobs", trouble.namespace, trouble.name) if trouble.name else make_address("jobs")
        case "cluster":
            return make_address("clusters")
        case _:
            return ""


ROUTES = (Page("/", "overview/overview.html", view_overview, "overview"),)
