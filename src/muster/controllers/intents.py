"""Record on pods which pods of a gang the scheduler binds together, and read such records after a crash. Pure.

Each binding of a gang's start writes this *intent* as an annotation of its pod. There it survives the deletion of the
gang's carrier (the Job or PodGroup). An intent may exclude pods of the same age, such as the surplus of a PodGroup
(`leaves`). Such an intent counts only while the carrier has the same annotation. The scheduler removes it from the
carrier when all bindings are made.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.api.ours.elastic import BINDING_ANNOTATION
from muster.controllers.gangs import read_creation_time

# The suffix of the UID if members are left out of the start.
_LEAVES = "/leaves"


class Intent(Struct, frozen=True):
    """A record, on a pod, of the unbound members of a gang that are to be bound together with it.

    since: the creation time of the newest of these members.
    leaves: whether some members of that age are left out of the start.
    """

    since: datetime
    leaves: bool = False


def note_intent(meta: ObjectMeta, intent: Intent) -> dict[str, str]:
    """Return the annotation that records an intent, as `read_intent` reads it.

    meta: the metadata of the pod or carrier to annotate.
    """
    since = intent.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {BINDING_ANNOTATION: f"{since}/{meta.uid}{_LEAVES if intent.leaves else ''}"}


def read_intent(meta: ObjectMeta) -> Intent | None:
    """Return the intent on a pod or a carrier; None without an intent, or if it was copied from another object."""
    text, _, said_by = meta.annotations.get(BINDING_ANNOTATION, "").partition("/")
    if said_by.removesuffix(_LEAVES) != meta.uid:
        return None
    try:
        since = datetime.fromisoformat(text)
    except ValueError:  # another program wrote the annotation
        return None
    return Intent(since, said_by.endswith(_LEAVES)) if since.tzinfo else None


def find_unfinished_start(carrier: ObjectMeta | None, bound: Iterable[Pod], unbound: Iterable[Pod]) -> list[Pod]:
    """Return the bound members of a gang that were meant to be bound together with some of the unbound members.

    An unbound member belongs to the first start whose `since` is not before its creation. A member that is younger than
    every start replaces a lost member, or belongs to a later stage.
    """
    oldest = min((read_creation_time(pod.metadata) for pod in unbound), default=None)
    if oldest is None:
        return []
    under_way = read_intent(carrier) if carrier is not None else None
    starts = [(intent, pod) for pod in bound if (intent := read_intent(pod.metadata)) is not None]
    starts = [(intent, pod) for intent, pod in starts if not intent.leaves or intent == under_way]
    first_since = min((intent.since for intent, _ in starts if oldest <= intent.since), default=None)
    return [pod for intent, pod in starts if intent.since == first_since]
