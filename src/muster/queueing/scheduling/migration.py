"""Decide which variant of a parent may be admitted while another one is admitted (Kueue KEP-8691). Pure.

A better variant replaces the running variant, which is evicted first, so that no job counts twice. A variant whose
flavor has admission checks gets its quota while the running variant still runs, until the checks have passed.
"""

from muster.api.kueue.names import ADMISSION_GATED, PENDING_EVALUATION
from muster.queueing.model import PendingReason, QueueSpec, WorkloadInfo
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.preemption.candidates import Victim

GATED = PendingReason(ADMISSION_GATED, "Workload requires preemption, but it's gated")
_BETTER_ADMITTED = PendingReason(PENDING_EVALUATION, "A more favorable variant is already admitted")
_TOO_FAR = PendingReason(PENDING_EVALUATION, "Target flavor is below LastAcceptableFlavorName")
_RETAINED = PendingReason(PENDING_EVALUATION, "Another variant is already admitted")


def find_sibling(tree: Tree, workload: WorkloadInfo) -> WorkloadInfo | None:
    """Return the admitted variant that has the same parent as this variant; None if there is none."""
    if not workload.family or tree.queues[workload.queue].policy.migration is None:
        return None
    return next((one for one in tree.siblings(workload) if one.admitted), None)


def find_bar(queue: QueueSpec, workload: WorkloadInfo, sibling: WorkloadInfo) -> PendingReason | None:
    """Return why a variant may not replace its sibling; None if it may."""
    migration = queue.migration
    assert migration is not None, "only such queues have variants"
    mine, other = _find_position(queue, workload), _find_position(queue, sibling)
    if mine >= other:
        return _BETTER_ADMITTED
    if migration.retains:
        return _RETAINED
    if migration.last and mine > _find_index(queue, migration.last):
        return _TOO_FAR
    return None


def find_leaver(queue: QueueSpec, workload: WorkloadInfo, sibling: WorkloadInfo) -> tuple[Victim, ...]:
    """Return the sibling as the only victim if it must be evicted before the variant is admitted; else no victim."""
    return () if is_checked(queue, workload) else (Victim(sibling, "FlavorMigration"),)


def is_checked(queue: QueueSpec, workload: WorkloadInfo) -> bool:
    """Return whether admission checks apply to a variant after it got quota."""
    flavors = workload.podsets[0].allowed if workload.podsets else frozenset[str]()
    return any(not only or only & flavors for only in queue.checks.values())


def _find_position(queue: QueueSpec, workload: WorkloadInfo) -> int:
    allowed = workload.podsets[0].allowed if workload.podsets else frozenset[str]()
    return min((_find_index(queue, flavor) for flavor in allowed), default=len(_list_flavors(queue)))


def _find_index(queue: QueueSpec, flavor: str) -> int:
    flavors = _list_flavors(queue)
    return flavors.index(flavor) if flavor in flavors else len(flavors)


def _list_flavors(queue: QueueSpec) -> tuple[str, ...]:
    return queue.groups[0].flavors if queue.groups else ()
