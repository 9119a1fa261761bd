"""Put a new job that names no queue into its submitter's queue, and refuse jobs that may not run there.

A user's queue is the queue that `muster user add --queue` set, or else the queue of the oldest team with this user.
"""

from collections.abc import Iterable, Iterator

from muster.api.batch import CRON_JOB
from muster.api.core import NAMESPACE, POD, SERVICE_ACCOUNT
from muster.api.kueue import LOCAL_QUEUE, WORKLOAD
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.managed.surroundings import Settings
from muster.api.managed.teams import list_queues_of, refuse_work
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.ours.unixusers import UNIX_PREFIX, UNIX_USER
from muster.api.ours.users import USER_QUEUE_ANNOTATION, USERS_NAMESPACE, short_user
from muster.cluster.apiserver.admission.chain import Plugin, WriteAttempt
from muster.cluster.apiserver.admission.plugins.storedqueues import find_cluster_queue, read_queues
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import MASTERS, account_of
from muster.cluster.store import Key, Store


def give_queues(kinds: Iterable[str]) -> Plugin:
    """Return the plugin that gives a new job of these kinds the queue of its submitter, if the namespace has it.

    The plugin runs after the plugin that records the submitter. Parts of other objects have no submitter, but a job of
    a CronJob has one.
    """
    jobs = frozenset(kinds)

    def give_queue(attempt: WriteAttempt, store: Store) -> None:
        if attempt.resource.key not in jobs or attempt.operation != "CREATE" or attempt.subresource:
            return
        meta = attempt.document.get("metadata") or {}
        labels = meta.get("labels") or {}
        submitter = (meta.get("annotations") or {}).get(SUBMITTER_ANNOTATION, "")
        if submitter and not labels.get(QUEUE_NAME_LABEL) and (queue := _find_queue(store, submitter, attempt)):
            meta["labels"] = {**labels, QUEUE_NAME_LABEL: queue}

    return give_queue


def require_team(kinds: Iterable[str], settings: Settings) -> Plugin:
    """Return the plugin that refuses jobs of these kinds, and pods, if their submitter may not run them in their queue.

    A team's queue is for members of the team. The settings may require that all jobs belong to a team; then any other
    queue is refused. Members of `system:masters`, such as controllers, may run everything. Parts of other objects are
    checked as well, because a submitter could claim that an object is a part.
    """
    concerned = frozenset({*kinds, CRON_JOB.resource, POD.resource, WORKLOAD.resource})

    def judge(attempt: WriteAttempt, store: Store) -> None:
        if attempt.resource.key not in concerned or attempt.subresource or attempt.operation == "DELETE":
            return
        if MASTERS in attempt.user.groups:
            return
        named = _read_queue(attempt.document)
        if attempt.old is not None and _read_queue(attempt.old) == named:
            return
        if not named and (
            settings.without_queue or not settings.selects.matches(_find_namespace_labels(store, attempt.namespace))
        ):
            return  # the object waits until it names a queue, or nothing in this namespace queues
        if not named and attempt.resource.key == CRON_JOB.resource:
            named = _find_queue(store, attempt.user.name, attempt)
        target = find_cluster_queue(store, attempt.namespace, named) if named else None
        if named and target is None:
            return  # the object waits until the queue exists
        stored = read_queues(store)
        if why := refuse_work(short_user(attempt.user.name), target, stored.queues, stored.teams):
            raise attempt.make_refusal(why)

    return judge


def _find_queue(store: Store, user_name: str, attempt: WriteAttempt) -> str:
    """Return the first of a user's queues that exists in the namespace; "" if there is none."""
    wanted = _list_wanted_queues(store, user_name, attempt.namespace)
    return next((name for name in wanted if _has_queue(store, attempt.namespace, name)), "")


def _list_wanted_queues(store: Store, user_name: str, namespace: str) -> Iterator[str]:
    if own := _find_chosen(store, user_name, namespace):
        yield own
    yield from list_queues_of(short_user(user_name), read_queues(store).teams)


def _find_chosen(store: Store, user_name: str, namespace: str) -> str:
    """Return the queue that an administrator chose for a user in this namespace; "" if there is none."""
    account_namespace, name = account_of(user_name) or ("", "")
    if account_namespace == USERS_NAMESPACE:
        entry = store.latest(Key(SERVICE_ACCOUNT.resource, account_namespace, name))
        annotations = SERVICE_ACCOUNT.decode(entry.body).metadata.annotations if entry is not None else {}
        return annotations.get(USER_QUEUE_ANNOTATION, "")
    entry = store.latest(Key(NAMESPACE.resource, "", namespace)) if user_name.startswith(UNIX_PREFIX) else None
    annotations = NAMESPACE.decode(entry.body).metadata.annotations if entry is not None else {}
    is_own = annotations.get(UNIX_USER) == user_name.removeprefix(UNIX_PREFIX)
    return annotations.get(USER_QUEUE_ANNOTATION, "") if is_own else ""


def _has_queue(store: Store, namespace: str, name: str) -> bool:
    return store.latest(Key(LOCAL_QUEUE.resource, namespace, name)) is not None


def _find_namespace_labels(store: Store, namespace: str) -> dict[str, str]:
    entry = store.latest(Key(NAMESPACE.resource, "", namespace))
    return entry.header.labels if entry is not None else {}


def _read_queue(document: Document) -> str:
    """Return the queue that an object names. For a CronJob, it is the queue of the jobs that it starts."""
    spec = document.get("spec") or {}
    template = spec.get("jobTemplate") if isinstance(spec, dict) else None
    meta = (template or document).get("metadata") or {}
    name = (meta.get("labels") or {}).get(QUEUE_NAME_LABEL) or (spec.get("queueName") if isinstance(spec, dict) else "")
    return name if isinstance(name, str) else ""
