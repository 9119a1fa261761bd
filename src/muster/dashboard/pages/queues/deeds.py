"""The deeds about queues: stop, resume, and edit the quota of a ClusterQueue, as `muster queue` does."""

from collections.abc import Awaitable, Callable, Mapping

from muster.actions.errors import UserError
from muster.actions.jobs.holding import set_stop_policy
from muster.actions.parsing.quantities import check_quota
from muster.actions.quota.editedqueue import describe_excess, patch_quotas
from muster.actions.quota.queues import edit
from muster.actions.server.session import Session
from muster.api.kueue import HOLD, HOLD_AND_DRAIN, STOP_NONE, ClusterQueue
from muster.api.ours.teams import FOLLOWS_NODES
from muster.dashboard.pages.deeds import Question, Subject, Will, make_deed
from muster.dashboard.pages.queues.one import Queue, find_queue, read_queue
from muster.dashboard.rights import require_right
from muster.dashboard.visits import Deed, PageError, Visit
from muster.insight.quota.queues import make_quota_rows
from muster.insight.text import count_things, format_quantity, make_sentence

_CONTINUE, _STOP_TOO = "continue", "stop, and wait in the queue again"
# The separator of flavor and resource in a field name; neither can contain it.
_BETWEEN = "|"


def _make_deed(
    pattern: str,
    choice: str,
    title: str,
    button: str,
    ask: Callable[[Queue], Will],
    act: Callable[[Visit, Queue, Mapping[str, str]], Awaitable[str]],
    *,
    danger: bool = False,
) -> Deed:
    """Return a deed about a queue: a page that asks for confirmation, and the change.

    pattern: the path of the queue's page.
    choice: the last segment of the deed's address.
    title: the title, with `{}` for the queue.
    button: the label of the button.
    ask: returns sentences about the effect.
    act: makes the change, and returns a sentence.
    danger: whether something ends.

    The deed raises `PageError` if the viewer lacks the right.
    """

    async def ask_about(visit: Visit) -> Question:
        queue = await find_queue(visit)
        await require_right(visit, queue.rights, queue.name.name, queue.name.namespace)
        return Question(_find_uid(queue), _get_name(queue), *ask(queue))

    return make_deed(
        Subject(pattern, "queues", read_queue, _find_uid), choice, title, button, ask_about, act, danger=danger
    )


def _find_uid(queue: Queue) -> str:
    return queue.own.metadata.uid


def _get_name(queue: Queue) -> str:
    if queue.local is None:
        return f"ClusterQueue {queue.name.name}"
    return f"LocalQueue {queue.name.name} of namespace {queue.name.namespace}"


# Stop and resume.


def _ask_stop(queue: Queue) -> Will:
    running = queue.own.status.admitted_workloads or 0
    will = [
        "Nothing starts from it any more, until it is started again.",
        f"{count_things(running, 'job runs', 'jobs run')} from it now.",
    ]
    field = {
        "name": "running",
        "label": "Jobs that run",
        "value": _CONTINUE,
        "choices": (_CONTINUE, _STOP_TOO),
        "note": "A job that is stopped loses what it has not saved, and starts again later.",
    }
    return will, [field]


async def _stop(visit: Visit, queue: Queue, form: Mapping[str, str]) -> str:
    return await _set_policy(visit, queue, HOLD_AND_DRAIN if form.get("running") == _STOP_TOO else HOLD)


def _ask_resume(queue: Queue) -> Will:
    waiting = queue.own.status.pending_workloads or 0
    return [f"{count_things(waiting, 'job that waits', 'jobs that wait')} in it may start, as its quota allows."], []


async def _resume(visit: Visit, queue: Queue, _form: Mapping[str, str]) -> str:
    return await _set_policy(visit, queue, STOP_NONE)


async def _set_policy(visit: Visit, queue: Queue, policy: str) -> str:
    session = Session(visit.viewer.client, queue.name.namespace or visit.viewer.namespace)
    is_cluster = queue.local is None
    return await set_stop_policy(session, queue.name.name, policy, cluster=is_cluster, uid=_find_uid(queue))


# Quota.


def _ask_quota(queue: Queue) -> Will:
    cluster_queue = _get_cluster_queue(queue)
    will = ["Running jobs continue. If they use more than the new quota, no further job starts until they use less."]
    if FOLLOWS_NODES in cluster_queue.metadata.annotations:
        will.append("The quota follows the nodes now. A quota that you write stays as it is when nodes come and go.")
    if cluster_queue.spec.cohort_name:
        will.append(f"Other queues of cohort {cluster_queue.spec.cohort_name} may use what this queue does not use.")
    fields = [
        {
            "name": f"{row['flavor']}{_BETWEEN}{row['resource']}",
            "label": f"{row['resource']} of flavor {row['flavor']}",
            "value": format_quantity(row["resource"], row["nominal"]),
            "type": "text",
            "choices": (),
            "note": f"{format_quantity(row['resource'], row['used'])} in use",
        }
        for row in make_quota_rows(cluster_queue)
    ]
    if not fields:
        raise PageError(
            f"ClusterQueue {queue.name.name} has no quota yet",
            f"Give it some: muster queue edit {queue.name.name} --cpus 8 --memory 32Gi --flavor NAME",
        )
    return will, fields


async def _edit_quota(visit: Visit, queue: Queue, form: Mapping[str, str]) -> str:
    name = queue.name.name
    try:
        quotas = _read_quotas(_get_cluster_queue(queue), form)
        session = Session(visit.viewer.client, visit.viewer.namespace)
        after = await edit(
            session, name, lambda spec: patch_quotas(spec, quotas), lambda _: {}, dry_run=False, uid=_find_uid(queue)
        )
    except (ValueError, UserError) as error:
        raise PageError("The quota was not changed", make_sentence(str(error)), 422) from error
    if after is None:
        return f"The quota of ClusterQueue {name} is unchanged"
    return ". ".join([f"The quota of ClusterQueue {name} has changed", *describe_excess(after)])


def _read_quotas(queue: ClusterQueue, form: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return the quotas that the viewer changed in a form, by flavor and resource.

    Raises `ValueError` with a sentence for the viewer if a quota is invalid.
    """
    quotas = {}
    for row in make_quota_rows(queue):
        flavor, resource = row["flavor"], row["resource"]
        written = form.get(f"{flavor}{_BETWEEN}{resource}", "").strip()
        if written and written != format_quantity(resource, row["nominal"]):
            quotas[flavor, resource] = check_quota(resource, written)
    return quotas


def _get_cluster_queue(queue: Queue) -> ClusterQueue:
    """Return the ClusterQueue of a page. Raises `PageError` if the page is about a LocalQueue."""
    if queue.local is not None or queue.cluster is None:
        raise PageError(f"There is no ClusterQueue {queue.name.name}", "A LocalQueue has no quota of its own.")
    return queue.cluster


_CLUSTER_QUEUES, _LOCAL_QUEUES = "/queues/cluster/{name}", "/queues/{namespace}/{name}"

ROUTES = (
    _make_deed(_CLUSTER_QUEUES, "quota", "Quota of {}", "Change the quota", _ask_quota, _edit_quota),
    *(
        _make_deed(one, "stop", "Stop {}?", "Stop the queue", _ask_stop, _stop, danger=True)
        for one in (_CLUSTER_QUEUES, _LOCAL_QUEUES)
    ),
    *(
        _make_deed(one, "resume", "Start {} again?", "Start it again", _ask_resume, _resume)
        for one in (_CLUSTER_QUEUES, _LOCAL_QUEUES)
    ),
)
