"""Jobs that belong to other jobs: only the topmost that queues has a Workload; the others follow it."""

from collections.abc import Callable

from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.meta import ObjectMeta, OwnerReference, controller_of

# Upstream's limit: a deeper chain is a mistake.
MOST_LEVELS = 10

# An owner, by the namespace and the reference; None for kinds that do not queue, and for owners that are gone.
OwnerOf = Callable[[str, OwnerReference], ObjectMeta | None]


class NestingTooDeepError(Exception):
    """The chain of owners is longer than any that is meant; the text is upstream's."""

    def __init__(self) -> None:
        limit = f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {MOST_LEVELS}"
        super().__init__(limit)


def managed_ancestor(
    meta: ObjectMeta, owner_of: OwnerOf, *, without_queue: bool = False
) -> tuple[OwnerReference, ObjectMeta] | None:
    """Return the topmost owner that queues, with the reference to it; None if there is none.

    without_queue: jobs without a queue's name are managed too. A circle of owners ends like a chain that is too long:
    raises `NestingTooDeepError`.
    """
    top: tuple[OwnerReference, ObjectMeta] | None = None
    namespace = meta.namespace
    for _ in range(MOST_LEVELS + 1):
        reference = controller_of(meta)
        owner = owner_of(namespace, reference) if reference is not None else None
        if reference is None or owner is None or owner.uid != reference.uid:
            return top
        if without_queue or owner.labels.get(QUEUE_NAME_LABEL):
            top = reference, owner
        meta = owner
    raise NestingTooDeepError
