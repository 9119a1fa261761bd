"""Sort the Workloads of an elastic job that Kueue has resized. Kueue makes a Workload (slice) for each size.

Muster keeps one Workload for a job and resizes it. So slices that Kueue made are sorted:

- The newest slice with quota becomes the job's Workload.
- A slice that another slice has replaced no longer counts.
- A slice that waits to replace a slice with quota does not queue: the Workload with quota grows to that size instead.
  After the Workload has grown, the waiting slice is deleted.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from muster.api.conditions import find_true, is_true
from muster.api.kueue import Workload
from muster.api.kueue.names import (
    FINISHED,
    QUOTA_RESERVED,
    WORKLOAD_SLICE_NAME,
    WORKLOAD_SLICE_REPLACED,
    WORKLOAD_SLICE_REPLACEMENT_FOR,
)

REPLACED_MESSAGE = "Replaced to accommodate a new workload slice"


class Slices(Struct, frozen=True):
    """The Workloads of one job.

    current: the Workloads that may be paired with the job. Workloads that replaced another one come first.
    replaced: the Workloads that another one has replaced, and that are not marked as finished yet.
    waiting: the Workloads that wait to replace a Workload that holds quota.
    """

    current: tuple[Workload, ...]
    replaced: tuple[Workload, ...] = ()
    waiting: tuple[Workload, ...] = ()


def sort_slices(workloads: Sequence[Workload]) -> Slices:
    """Return the Workloads of one job, sorted by their role (Kueue `normalizeActiveSlices`).

    workloads: the job's Workloads, the oldest first.
    """
    live = {_make_key(one): one for one in workloads if not _is_marked_as_replaced(one)}
    waiting = tuple(one for one in live.values() if _waits_behind_holder(one, live))
    others = [one for one in live.values() if one not in waiting]
    successors = {_read_predecessor(one) for one in others} & live.keys()
    replaced = tuple(
        one for one in others if _make_key(one) in successors and not is_true(one.status.conditions, FINISHED)
    )
    current = [one for one in others if one not in replaced]
    return Slices(tuple(sorted(current, key=lambda one: _read_predecessor(one) not in live)), replaced, waiting)


def waits_to_replace(workload: Workload) -> bool:
    """Return whether the Workload should replace another Workload of its job and has no quota yet."""
    return WORKLOAD_SLICE_REPLACEMENT_FOR in workload.metadata.annotations and not _has_quota(workload)


def is_growing(workload: Workload) -> bool:
    """Return whether the Workload has quota and replaces another Workload, whose pods still run during the checks."""
    return WORKLOAD_SLICE_REPLACEMENT_FOR in workload.metadata.annotations and _has_quota(workload)


def slice_name(workload: Workload) -> str:
    """Return the name that all pods of an elastic job have in a label: the name of the job's first Workload."""
    return workload.metadata.annotations.get(WORKLOAD_SLICE_NAME) or workload.metadata.name


def _waits_behind_holder(workload: Workload, live: Mapping[str, Workload]) -> bool:
    old = live.get(_read_predecessor(workload))
    return old is not None and _has_quota(old) and not _has_quota(workload)


def _read_predecessor(workload: Workload) -> str:
    return workload.metadata.annotations.get(WORKLOAD_SLICE_REPLACEMENT_FOR, "")


def _make_key(workload: Workload) -> str:
    return f"{workload.metadata.namespace}/{workload.metadata.name}"


def _is_marked_as_replaced(workload: Workload) -> bool:
    finished = find_true(workload.status.conditions, FINISHED)
    return finished is not None and finished.reason == WORKLOAD_SLICE_REPLACED


def _has_quota(workload: Workload) -> bool:
    return is_true(workload.status.conditions, QUOTA_RESERVED)
