"""Puts a new job that names no queue into the queue of its submitter, as `muster user add --queue` set it."""

from muster.api.batch import JOB
from muster.api.core import SERVICE_ACCOUNT
from muster.api.jobset import JOB_SET
from muster.api.kueue import LOCAL_QUEUE
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.ours.users import USER_QUEUE_ANNOTATION, USERS_NAMESPACE
from muster.cluster.apiserver.admission.chain import Attempt
from muster.cluster.apiserver.identity.users import account_of
from muster.cluster.store import Key, Store

_JOBS = frozenset({JOB.resource, JOB_SET.resource})


def set_queue_of_submitter(attempt: Attempt, store: Store) -> None:
    """Label a new job with its submitter's queue, if the namespace has that queue. In place.

    It runs after `note_submitter`, whose annotation parts of other objects do not have. A job of a CronJob has it.
    """
    if attempt.resource.key not in _JOBS or attempt.operation != "CREATE" or attempt.subresource:
        return
    meta = attempt.document.get("metadata") or {}
    labels = meta.get("labels") or {}
    submitter = (meta.get("annotations") or {}).get(SUBMITTER_ANNOTATION, "")
    if labels.get(QUEUE_NAME_LABEL) or not (queue := _find_queue(store, submitter)):
        return
    if store.latest(Key(LOCAL_QUEUE.resource, attempt.namespace, queue)) is not None:
        meta["labels"] = {**labels, QUEUE_NAME_LABEL: queue}


def _find_queue(store: Store, user_name: str) -> str:
    """Return the queue of a user, or "" if the user has none."""
    namespace, name = account_of(user_name) or ("", "")
    if namespace != USERS_NAMESPACE:
        return ""
    entry = store.latest(Key(SERVICE_ACCOUNT.resource, namespace, name))
    if entry is None:
        return ""
    return SERVICE_ACCOUNT.decode(entry.body).metadata.annotations.get(USER_QUEUE_ANNOTATION, "")
