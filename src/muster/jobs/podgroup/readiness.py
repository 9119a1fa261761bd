"""Decide when enough pods of a group exist to start (scheduler KEP-34)."""

from msgspec import Struct


class PodCounts(Struct, frozen=True):
    """The number of pods of a group, or of one of its tasks, by state.

    allocated: pods with a node that have not ended.
    pending: pods without a node.
    succeeded: pods that have succeeded.
    """

    allocated: int = 0
    pending: int = 0
    succeeded: int = 0


def still_needed(minimum: int, tally: PodCounts) -> int | None:
    """Return how many pending pods need a node to reach the minimum; None if the group has too few pods.

    Succeeded pods count only if there are not enough pods without them.
    """
    if minimum > tally.allocated + tally.pending:
        minimum -= tally.succeeded
    if minimum > tally.allocated + tally.pending:
        return None
    return max(minimum - tally.allocated, 0)
