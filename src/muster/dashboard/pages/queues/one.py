"""The page of one ClusterQueue or LocalQueue: the waiting jobs in order, the running jobs, and the use over time."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from muster.actions.rights import Right
from muster.api.kinds import Kind
from muster.api.kueue import (
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    STOP_NONE,
    STRICT_FIFO,
    ClusterQueue,
    LocalQueue,
    Workload,
)
from muster.api.validation.names import dns_label, dns_subdomain
from muster.dashboard.listing import PER_PAGE, Listing, find_first, make_listing, read_list_query
from muster.dashboard.meters import draw_share
from muster.dashboard.pages.queues.chart import SPANS, draw_use
from muster.dashboard.pages.queues.tree import list_local_queues
from muster.dashboard.rights import find_refusal
from muster.dashboard.states import color_of
from muster.dashboard.visits import Page, PageError, Visit, make_address, require_name
from muster.insight.history.runs import Run, RunQuery
from muster.insight.history.use import spans_of_holders, spans_of_runs, sum_use
from muster.insight.jobs.state import tells_never
from muster.insight.quota.queues import make_cluster_queue_row, make_local_queue_row
from muster.insight.quota.shares import QuotaNode, list_quota_nodes
from muster.insight.quota.state import is_owned_by, owner_uids
from muster.insight.reader.history.recorded import read_history
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.insight.reader.listing.missing import update_missing
from muster.insight.reader.listing.views import WORKLOAD_LINES
from muster.insight.reader.quota.queue import PendingRow, QueueName, forecast_starts, list_holders, read_pending
from muster.insight.reader.quota.workloads import workloads_of
from muster.insight.reader.visible import visible_job_rows_of
from muster.insight.text import format_owner, format_quantity
from muster.insight.why.sentences import describe_estimate
from muster.queueing.scheduling.estimate import StartEstimate

# The seconds for which a forecast, and data from the history, are cached.
_FORECAST_SECONDS, _HISTORY_SECONDS = 10.0, 30.0
# The maximum number of running jobs that are listed, of jobs with a forecast, and of past runs in totals.
_MOST_HOLDERS, _MOST_FORECAST, _MOST_RUNS = 50, 100, 5_000

# The address segment of a ClusterQueue, in place of a LocalQueue's namespace.
_CLUSTER = "cluster"

T = TypeVar("T")


class Queue(Struct, frozen=True):
    """A queue as a viewer sees it: a LocalQueue or, if `local` is None, a ClusterQueue.

    cluster: the ClusterQueue, or the one that the LocalQueue points to; None if the viewer may not see it.
    """

    name: QueueName
    cluster: ClusterQueue | None
    local: LocalQueue | None = None

    @property
    def address(self) -> str:
        """The address of the queue's page."""
        return make_address("queues", self.name.namespace or _CLUSTER, self.name.name)

    @property
    def own(self) -> ClusterQueue | LocalQueue:
        """The LocalQueue or ClusterQueue that the page is about."""
        queue = self.local or self.cluster
        assert queue is not None, "one of both is there"
        return queue

    @property
    def rights(self) -> tuple[Right, ...]:
        """The right that a change of the queue needs: to patch its object."""
        return (Right("patch", CLUSTER_QUEUE if self.local is None else LOCAL_QUEUE),)

    @property
    def is_stopped(self) -> bool:
        """Whether the queue itself is stopped. The ClusterQueue of a LocalQueue does not count."""
        return self.own.spec.stop_policy != STOP_NONE


async def find_queue(visit: Visit) -> Queue:
    """Return the queue that the address names, from the viewer's lists.

    Raises `PageError` if it does not exist, and `ApiError`.
    """
    return await _find_queue(visit, partial(_find, visit))


async def read_queue(visit: Visit) -> Queue:
    """Return the current queue that the address names, from the server.

    Raises `PageError` if it does not exist, and `ApiError`.
    """
    return await _find_queue(visit, partial(get_or_none, visit.viewer.client))


async def _find_queue(visit: Visit, find: Callable[..., Awaitable[Any]]) -> Queue:
    """Return the queue that the address names.

    find: returns the queue with a kind, a name and a namespace; None if it does not exist.

    Raises `PageError` if there is no such queue, and `ApiError`.
    """
    namespace, name = visit.names.get("namespace", ""), visit.names["name"]
    require_name("queue", name, dns_subdomain)
    if namespace:
        require_name("namespace", namespace, dns_label)
    if not namespace:
        if (queue := await find(CLUSTER_QUEUE, name)) is not None:
            return Queue(QueueName("", name), queue)
        namespace = _CLUSTER  # a namespace may have this name, too
    local = await find(LOCAL_QUEUE, name, namespace)
    if local is None:
        kind = "ClusterQueue" if namespace == _CLUSTER else "LocalQueue"
        where = "" if namespace == _CLUSTER else f" in namespace {namespace}"
        text = "It may have been deleted, or you may not see it. The menu leads to the queues that you may see."
        raise PageError(f"There is no {kind} {name}{where}", text)
    target = local.spec.cluster_queue
    behind = None
    if target:
        behind = await find(CLUSTER_QUEUE, target)
    return Queue(QueueName(namespace, name), behind, local)


async def _find(visit: Visit, kind: Kind[T], name: str, namespace: str = "") -> T | None:
    """Return a queue from the viewer's lists, or from the server if the viewer may not list queues.

    Returns None if the queue does not exist, or if the viewer may not see it.
    """
    listed: Sequence[Any] | None = await list_or_none(visit.copy, kind, namespace)
    if listed is not None:
        return next((one for one in listed if one.metadata.name == name), None)
    return await get_or_none(visit.copy, kind, name, namespace)


async def view_queue(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the page of one queue. Raises `PageError` if it does not exist, and `ApiError`."""
    unseen: list[str] = []
    queue = await find_queue(visit)
    row = make_local_queue_row(queue.local) if queue.local is not None else _make_row(queue)
    workloads = await workloads_of(visit.copy, queue.name.namespace, unseen.append, WORKLOAD_LINES)
    listing, is_ordered = await _list_pending(visit, queue, row["pending"], workloads)
    holders = list_holders(queue.name, workloads)
    shown_holders = holders[:_MOST_HOLDERS]
    starts = await _ask_starts(visit, queue, listing.items)
    positions = {row.uid: row.position for row in listing.items} | dict.fromkeys(row.uid for row in shown_holders)
    lines = await _find_lines(visit, queue.name.namespace, workloads, positions)
    return {
        "queue": queue,
        "refusal": await _find_refusal(visit, queue),
        "row": row,
        "behind": make_cluster_queue_row(queue.cluster) if queue.local is not None and queue.cluster else None,
        "node": await _find_quota_node(visit, queue),
        "is_strict": queue.cluster is not None and queue.cluster.spec.queueing_strategy == STRICT_FIFO,
        "fronts": await _list_fronts(visit, queue, unseen),
        "listing": listing,
        "is_ordered": is_ordered,
        "lines": lines,
        "starts": starts or {},
        "shared_doubt": find_shared_doubt((starts or {}).values()),
        "describe_estimate": partial(describe_estimate, now=visit.now, with_clock=False),
        "tells_never": tells_never,
        "holders": shown_holders,
        "all_holders": len(holders),
        "use": await _view_use(visit, queue, workloads),
        "draw_share": draw_share,
        "format_quantity": format_quantity,
        "format_owner": format_owner,
        "color_of": color_of,
        "unseen": unseen,
    }


async def _find_refusal(visit: Visit, queue: Queue) -> str:
    """Return why the viewer may not change the queue; "" if the viewer may, or if that is not known yet."""
    return await find_refusal(visit, queue.rights, queue.name.name, queue.name.namespace)


def _make_row(queue: Queue) -> dict[str, Any]:
    assert queue.cluster is not None, "a queue that is no LocalQueue is a ClusterQueue"
    return make_cluster_queue_row(queue.cluster)


async def _list_pending(visit: Visit, queue: Queue, count: int, workloads: Sequence[Workload]) -> tuple[Listing, bool]:
    """Return the page of the list of waiting Workloads that the address names, and whether the queue's order is known.

    count: the number of waiting Workloads.

    Not every server serves the order of a queue.
    """
    query = read_list_query(visit)
    first = find_first(count, query)
    rows, is_ordered = await read_pending(visit.copy, queue.name, queue.cluster, workloads, first, PER_PAGE)
    return make_listing(rows, max(count, first + len(rows)), query), is_ordered


async def _ask_starts(visit: Visit, queue: Queue, rows: Sequence[PendingRow]) -> Mapping[str, StartEstimate] | None:
    """Return forecasts of when these Workloads start, by key; None if none has been computed yet.

    The computation continues in the background. Also returns None without Workloads, or if the viewer may not see the
    ClusterQueue.
    """
    if queue.cluster is None or not rows:
        return None
    keys = tuple(row.key for row in rows[:_MOST_FORECAST])
    name, namespace = queue.cluster.metadata.name, queue.name.namespace or visit.viewer.namespace
    find = partial(forecast_starts, visit.copy, name, namespace, keys, visit.now)
    answer: Mapping[str, StartEstimate] | None = await visit.copy.answers.ask(
        ("starts", name, keys), _FORECAST_SECONDS, find
    )
    return answer


def find_shared_doubt(starts: Iterable[StartEstimate]) -> str:
    """Return the common reason why none of several starts can be estimated; "" without a common reason."""
    listed = [*starts]
    reasons = {one.because if one.at is None else "" for one in listed}
    return reasons.pop() if len(listed) > 1 and len(reasons) == 1 else ""


async def _find_lines(
    visit: Visit, namespace: str, workloads: Sequence[Workload], positions: Mapping[str, int | None]
) -> dict[str, Mapping[str, Any]]:
    """Return the row in the job list for the job of each shown Workload, by the Workload's UID.

    positions: the queue positions of the shown Workloads, by UID.

    A job thus has the same state and reason on all pages. The result is empty if the viewer may not see jobs.
    """
    shown = [one for one in workloads if one.metadata.uid in positions]
    jobs = frozenset[str]().union(*map(owner_uids, shown))
    family = [one for one in workloads if one.metadata.uid in positions or is_owned_by(one, jobs)]
    own = visit.viewer.namespace
    listed = await visible_job_rows_of(visit.copy, namespace, own, visit.now, family, positions)
    updated = await update_missing(visit.copy, listed, namespace, visit.copy.memo(""))
    rows = {row["uid"]: row for row in updated}
    uids = ((one.metadata.uid, (*owner_uids(one), one.metadata.uid)) for one in shown)
    return {own_uid: rows[uid] for own_uid, candidates in uids for uid in candidates if uid in rows}


async def _find_quota_node(visit: Visit, queue: Queue) -> QuotaNode | None:
    """Return a ClusterQueue's node in the tree of quotas; None for a LocalQueue, or if it is not visible."""
    if queue.local is not None:
        return None
    queues = await list_or_none(visit.copy, CLUSTER_QUEUE)
    cohorts = await list_or_none(visit.copy, COHORT)
    nodes = list_quota_nodes(queues or ([queue.cluster] if queue.cluster else ()), cohorts or ())
    return next((one for one in nodes if one.row is not None and one.name == queue.name.name), None)


async def _list_fronts(visit: Visit, queue: Queue, unseen: list[str]) -> list[tuple[str, str]] | None:
    """Return the namespace and name of each visible LocalQueue that points to a ClusterQueue; [] for a LocalQueue.

    Returns None, with a sentence added to `unseen`, if the viewer may not see LocalQueues.
    """
    if queue.local is not None:
        return []
    local_queues = await list_local_queues(visit, unseen)
    if local_queues is None:
        return None
    fronts = [one.metadata for one in local_queues if one.spec.cluster_queue == queue.name.name]
    return sorted((one.namespace, one.name) for one in fronts)


async def _view_use(visit: Visit, queue: Queue, workloads: Sequence[Workload]) -> dict[str, Any]:
    """Return the template values of the chart of a queue's use over time.

    Past runs are missing until the history has responded. The quota is missing for a LocalQueue.
    """
    row = make_cluster_queue_row(queue.cluster) if queue.cluster is not None else None
    resources = list(dict.fromkeys(one["resource"] for one in row["quotas"])) if row is not None else []
    resources = resources or ["cpu"]
    span_name = visit.query.get("span", "day")
    span_name = span_name if span_name in SPANS else "day"
    resource = visit.query.get("resource", "")
    resource = resource if resource in resources else _prefer(resources)
    span = SPANS[span_name]
    fronts = (
        [(queue.name.namespace, queue.name.name)]
        if queue.local is not None
        else await _list_fronts(visit, queue, []) or []
    )
    find = partial(_read_runs, visit, fronts, span.length)
    answer: tuple[Sequence[Run], bool] | None = await visit.copy.answers.ask(
        ("runs", queue.name, span_name, tuple(fronts)), _HISTORY_SECONDS, find, lambda answer: len(answer[0])
    )
    runs, is_cut = answer or ((), False)
    holders = [one for one in workloads if queue.name.holds(one)]
    spans = [*spans_of_runs(runs, resource), *spans_of_holders(holders, resource)]
    steps = sum_use(spans, visit.now, span.length, span.steps)
    limit = None
    if row is not None and queue.local is None:
        limit = sum(one["nominal"] for one in row["quotas"] if one["resource"] == resource)
    return {
        "figure": draw_use(steps, span, resource, limit),
        "spans": [(name, one.title) for name, one in SPANS.items()],
        "span": span_name,
        "resources": resources,
        "resource": resource,
        "is_known": answer is not None,
        "is_cut": is_cut,
    }


def _prefer(resources: Sequence[str]) -> str:
    """Return the resource whose chart is shown first: GPUs, else CPUs, else the first resource.

    resources: the resources; not empty.
    """
    gpus = [one for one in resources if one.endswith("/gpu")]
    return gpus[0] if gpus else "cpu" if "cpu" in resources else resources[0]


async def _read_runs(visit: Visit, fronts: Sequence[tuple[str, str]], length: timedelta) -> tuple[list[Run], bool]:
    """Return the runs of LocalQueues that ended within the last `length`, newest first, and whether some are missing.

    fronts: the namespace and name of each LocalQueue.

    If there are several LocalQueues, only runs among the newest `_MOST_RUNS` of the whole cluster are returned. Raises
    `ApiError`.
    """
    since = visit.now - length
    wanted = set(fronts)
    if len(wanted) == 1:
        [(namespace, name)] = wanted
        query = RunQuery(namespace=namespace, queue=name, since=since)
    else:
        query = RunQuery(since=since)
    runs, is_cut = await read_history(visit.copy, query, _MOST_RUNS, lambda _: None)
    return [run for run in runs if (run.namespace, run.queue) in wanted], is_cut


ROUTES = (
    Page("/queues/cluster/{name}", "queues/one.html", view_queue, "queues"),
    Page("/queues/{namespace}/{name}", "queues/one.html", view_queue, "queues"),
)
