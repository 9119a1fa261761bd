"""The ancestry of jobs that belong to other jobs: only the topmost job that queues has a Workload."""

from collections.abc import Callable

from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.meta import ObjectMeta, OwnerReference, controller_of

# Upstream's limit of the depth of a chain of owners.
MOST_LEVELS = 10

# Takes the namespace and the reference of an owner, and returns the owner. It returns None for a kind that does not
# queue and for an owner that no longer exists.
OwnerOf = Callable[[str, OwnerReference], ObjectMeta | None]


class NestingTooDeepError(Exception):
    """A chain of owner references that is too long or circular. The message is upstream's."""

    def __init__(self) -> None:
        limit = f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {MOST_LEVELS}"
        super().__init__(limit)


def managed_ancestor(
    meta: ObjectMeta, owner_of: OwnerOf, *, without_queue: bool = False
) -> tuple[OwnerReference, ObjectMeta] | None:
    """Return the topmost owner that queues, with the reference to it; None if no owner queues.

    without_queue: whether jobs that name no queue are managed too.

    Raises:
        NestingTooDeepError: the chain of owners is too long or circular.
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
