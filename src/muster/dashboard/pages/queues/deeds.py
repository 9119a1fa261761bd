"""Changes of queues: stop, resume, and edit the quota of a ClusterQueue, as `muster queue` does."""

from collections.abc import Mapping
from typing import Any

from muster.actions.errors import UserError
from muster.actions.jobs.holding import set_stop_policy
from muster.actions.parsing.quantities import check_quota
from muster.actions.quota.editedqueue import describe_excess, patch_quotas
from muster.actions.quota.queues import edit
from muster.actions.server.session import Session
from muster.api.kueue import HOLD, HOLD_AND_DRAIN, STOP_NONE
from muster.api.ours.teams import FOLLOWS_NODES
from muster.dashboard.pages.queues.one import Queue, find_queue
from muster.dashboard.rights import require_right
from muster.dashboard.visits import Deed, PageError, Visit, make_address
from muster.insight.quota.queues import make_quota_rows
from muster.insight.text import count_things, format_quantity, make_sentence

_GO_ON, _STOP_TOO = "go on", "stop, and queue again"
# Between the flavor and the resource in the name of a field; neither can have it.
_BETWEEN = "|"


async def view_stop(visit: Visit) -> Mapping[str, Any]:
    """Return the values of the page that asks before a queue is stopped. Raises `PageError`, `ApiError`."""
    queue = await find_queue(visit)
    await _require_right(visit, queue)
    running = queue.own.status.admitted_workloads or 0
    return {
        "title": f"Stop {_get_name(queue)}?",
        "will": [
            "Nothing starts from it any more, until it is started again.",
            f"{count_things(running, 'job runs', 'jobs run')} from it now.",
        ],
        "fields": [
            {
                "name": "running",
                "label": "Jobs that run",
                "value": _GO_ON,
                "choices": (_GO_ON, _STOP_TOO),
                "note": "A job that is stopped loses what it has not saved, and starts again later.",
            }
        ],
        "button": "Stop the queue",
        "danger": True,
        "back": queue.address,
    }


async def stop(visit: Visit, form: Mapping[str, str]) -> str:
    """Stop the queue that the address names, with its running jobs if the form says so; return a sentence.

    Raises `ApiError`, `PageError`.
    """
    return await _set_policy(visit, HOLD_AND_DRAIN if form.get("running") == _STOP_TOO else HOLD)


async def view_resume(visit: Visit) -> Mapping[str, Any]:
    """Return the values of the page that asks before a stopped queue is resumed. Raises `PageError`, `ApiError`."""
    queue = await find_queue(visit)
    await _require_right(visit, queue)
    waiting = queue.own.status.pending_workloads or 0
    return {
        "title": f"Start {_get_name(queue)} again?",
        "will": [f"{count_things(waiting, 'job that waits', 'jobs that wait')} in it may start, as its quota allows."],
        "fields": [],
        "button": "Start it again",
        "danger": False,
        "back": queue.address,
    }


async def resume(visit: Visit, _: Mapping[str, str]) -> str:
    """Resume the queue that the address names; return the outcome as a sentence. Raises `ApiError`, `PageError`."""
    return await _set_policy(visit, STOP_NONE)


async def _set_policy(visit: Visit, policy: str) -> str:
    queue = await find_queue(visit)
    session = Session(visit.viewer.client, queue.name.namespace or visit.viewer.namespace)
    try:
        return await set_stop_policy(session, queue.name.name, policy, cluster=queue.local is None)
    except UserError as error:
        raise PageError("The queue was not changed", make_sentence(str(error)), 409) from error


async def view_quota(visit: Visit) -> Mapping[str, Any]:
    """Return the values of the page with a form for the quotas of a ClusterQueue. Raises `PageError`, `ApiError`."""
    queue = await _find_cluster_queue(visit)
    await _require_right(visit, queue)
    assert queue.cluster is not None, "it was found"
    will = ["Jobs that run go on. If they use more than the new quota, none starts until they use less."]
    if FOLLOWS_NODES in queue.cluster.metadata.annotations:
        will.append("The quota follows the nodes now. A quota that you write stays as it is when nodes come and go.")
    if queue.cluster.spec.cohort_name:
        will.append(f"Other queues of cohort {queue.cluster.spec.cohort_name} may use what this queue does not use.")
    fields = [
        {
            "name": f"{row['flavor']}{_BETWEEN}{row['resource']}",
            "label": f"{row['resource']} of flavor {row['flavor']}",
            "value": format_quantity(row["resource"], row["nominal"]),
            "type": "text",
            "choices": (),
            "note": f"{format_quantity(row['resource'], row['used'])} in use",
        }
        for row in make_quota_rows(queue.cluster)
    ]
    if not fields:
        raise PageError(
            f"ClusterQueue {queue.name.name} has no quota yet",
            f"Give it some: muster queue edit {queue.name.name} --cpus 8 --memory 32Gi --flavor NAME",
        )
    return {
        "title": f"Quota of ClusterQueue {queue.name.name}",
        "will": will,
        "fields": fields,
        "button": "Change the quota",
        "danger": False,
        "back": queue.address,
    }


async def edit_quota(visit: Visit, form: Mapping[str, str]) -> str:
    """Change the quotas of a ClusterQueue to those in the form; return a sentence. Raises `ApiError`, `PageError`."""
    queue = await _find_cluster_queue(visit)
    name = queue.name.name
    try:
        quotas = _read_quotas(queue, form)
        session = Session(visit.viewer.client, visit.viewer.namespace)
        after = await edit(session, name, lambda spec: patch_quotas(spec, quotas), lambda _: {}, dry_run=False)
    except (ValueError, UserError) as error:
        raise PageError("The quota was not changed", make_sentence(str(error)), 422) from error
    if after is None:
        return f"The quota of ClusterQueue {name} is unchanged"
    return ". ".join([f"The quota of ClusterQueue {name} has changed", *describe_excess(after)])


def _read_quotas(queue: Queue, form: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return the quotas that the viewer changed in a form, by flavor and resource.

    Raises `ValueError` with a sentence for the viewer if one is invalid.
    """
    assert queue.cluster is not None, "it was found"
    quotas = {}
    for row in make_quota_rows(queue.cluster):
        flavor, resource = row["flavor"], row["resource"]
        written = form.get(f"{flavor}{_BETWEEN}{resource}", "").strip()
        if written and written != format_quantity(resource, row["nominal"]):
            quotas[flavor, resource] = check_quota(resource, written)
    return quotas


async def _find_cluster_queue(visit: Visit) -> Queue:
    queue = await find_queue(visit)
    if queue.local is not None or queue.cluster is None:
        raise PageError(f"There is no ClusterQueue {queue.name.name}", "A LocalQueue has no quota of its own.")
    return queue


async def _require_right(visit: Visit, queue: Queue) -> None:
    """Raise `PageError` (403) for a viewer who may not change the queue, and `ApiError`."""
    await require_right(visit, queue.rights, queue.name.name, queue.name.namespace)


def _get_name(queue: Queue) -> str:
    if queue.local is None:
        return f"ClusterQueue {queue.name.name}"
    return f"LocalQueue {queue.name.name} of namespace {queue.name.namespace}"


def find_page(visit: Visit, _: Mapping[str, str]) -> str:
    """Return the address of the page of the queue that a deed is about."""
    return make_address(*visit.path.strip("/").split("/")[:-1])


ROUTES = (
    Deed("/queues/cluster/{name}/quota", view_quota, edit_quota, find_page, "queues"),
    *(
        Deed(f"{pattern}/{name}", view, act, find_page, "queues")
        for pattern in ("/queues/cluster/{name}", "/queues/{namespace}/{name}")
        for name, view, act in (("stop", view_stop, stop), ("resume", view_resume, resume))
    ),
)
