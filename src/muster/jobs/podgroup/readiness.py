"""When the pods of a group are enough to start (KEP-34)."""

from msgspec import Struct


class Tally(Struct, frozen=True):
    """Pods of a group, or of one of its tasks.

    allocated: those with a node that have not ended. pending: those without one. succeeded: those that have succeeded.
    """

    allocated: int = 0
    pending: int = 0
    succeeded: int = 0


def still_needed(minimum: int, tally: Tally) -> int | None:
    """How many of the pending pods have to get a node for the group to be ready; None if there are too few.

    While enough pods can still live, those that have succeeded do not count; once they cannot, they do.
    """
    if minimum > tally.allocated + tally.pending:
        minimum -= tally.succeeded
    if minimum > tally.allocated + tally.pending:
        return None
    return max(minimum - tally.allocated, 0)
