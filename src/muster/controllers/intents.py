"""Which pods of a gang a scheduler was binding together, as those pods say. Pure.

Each binding of a start puts the intent on its pod, where it outlives the carrier of the gang. Pods cannot say that
others of their age were not meant, as the surplus of a PodGroup: such an intent holds as long as the carrier says it
too, and the scheduler takes it off the carrier once the start is over.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.api.ours.elastic import BINDING_ANNOTATION
from muster.controllers.gangs import created

# The suffix of the UID if pods are left behind.
_LEAVES = "/leaves"


class Intent(Struct, frozen=True):
    """The start of a gang: all its members that have no node and are no younger are bound together.

    since: when the newest of them was made.
    leaves: members that are no younger stay behind.
    """

    since: datetime
    leaves: bool = False


def note_intent(meta: ObjectMeta, intent: Intent) -> dict[str, str]:
    """Return the annotation that `read_intent` reads. meta: of the pod, or of the carrier, that says it of itself."""
    since = intent.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {BINDING_ANNOTATION: f"{since}/{meta.uid}{_LEAVES if intent.leaves else ''}"}


def read_intent(meta: ObjectMeta) -> Intent | None:
    """Return what a pod or a carrier says; None if it says nothing, or has it from a template or a manifest."""
    text, _, said_by = meta.annotations.get(BINDING_ANNOTATION, "").partition("/")
    if said_by.removesuffix(_LEAVES) != meta.uid:
        return None
    try:
        since = datetime.fromisoformat(text)
    except ValueError:  # another program wrote there
        return None
    return Intent(since, said_by.endswith(_LEAVES)) if since.tzinfo else None


def find_unfinished_start(carrier: ObjectMeta | None, bound: Iterable[Pod], unbound: Iterable[Pod]) -> list[Pod]:
    """Return the bound members of a gang that were meant to be bound together with some of the unbound members.

    An unbound member was meant to be bound with the first start after it was made. It is younger than the start if it
    replaces a member, or is of a later stage.
    """
    oldest = min((created(pod.metadata) for pod in unbound), default=None)
    if oldest is None:
        return []
    under_way = read_intent(carrier) if carrier is not None else None
    starts = [(intent, pod) for pod in bound if (intent := read_intent(pod.metadata)) is not None]
    starts = [(intent, pod) for intent, pod in starts if not intent.leaves or intent == under_way]
    meant = min((intent.since for intent, _ in starts if oldest <= intent.since), default=None)
    return [pod for intent, pod in starts if intent.since == meant]
