"""Slices: Kueue makes a new Workload for each size of an elastic job; here the job keeps one, which changes its size.

Those that Kueue has left are left as they are: one that was replaced has nothing to say any more, and one that waits to
replace another that holds quota would ask a second time for what the job runs on.
"""

from collections.abc import Sequence

from muster.api.conditions import find_true, is_true
from muster.api.kueue import Workload
from muster.api.kueue.names import FINISHED, QUOTA_RESERVED, WORKLOAD_SLICE_REPLACED, WORKLOAD_SLICE_REPLACEMENT_FOR


def waits_to_replace(workload: Workload) -> bool:
    """Whether it is to take over from another one, and has no quota yet."""
    return WORKLOAD_SLICE_REPLACEMENT_FOR in workload.metadata.annotations and not _holds(workload)


def in_force(workloads: Sequence[Workload]) -> list[Workload]:
    """Of the Workloads of one job those that it may be paired with; one that has taken over comes first."""
    kept = [one for one in workloads if not _was_replaced(one)]
    there = {f"{one.metadata.namespace}/{one.metadata.name}": one for one in kept}

    def replaces(workload: Workload) -> Workload | None:
        return there.get(workload.metadata.annotations.get(WORKLOAD_SLICE_REPLACEMENT_FOR, ""))

    kept = [one for one in kept if _holds(one) or (old := replaces(one)) is None or not _holds(old)]
    return sorted(kept, key=lambda one: replaces(one) is None)


def _was_replaced(workload: Workload) -> bool:
    finished = find_true(workload.status.conditions, FINISHED)
    return finished is not None and finished.reason == WORKLOAD_SLICE_REPLACED


def _holds(workload: Workload) -> bool:
    return is_true(workload.status.conditions, QUOTA_RESERVED)
