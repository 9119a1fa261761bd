"""Write an admission, and a preemption, into a Workload's status."""

from datetime import datetime

import msgspec

from muster.api.kueue import Admission, PodSetAssignment, WorkloadStatus
from muster.api.kueue.names import (
    ADMITTED,
    BLOCKED_ON_PREEMPTION_GATES,
    EVICTED,
    PREEMPTED,
    PREEMPTION_GATED,
    QUOTA_RESERVED,
    UNSATISFIED_ADMISSION_CHECKS,
)
from muster.api.values.quantity import format_amount
from muster.queueing.conditions import put, reset
from muster.queueing.model import Assignment, QueueSpec
from muster.queueing.topology.conversion import assignment_of
from muster.queueing.workload import checks
from muster.queueing.workload.eviction import evict


def reserve_quota(status: WorkloadStatus, queue: QueueSpec, assignment: Assignment, now: datetime) -> WorkloadStatus:
    """Return the status of a workload that got quota. It is admitted at once if all checks that apply are ready."""
    conditions = status.conditions
    for old in (EVICTED, PREEMPTED, BLOCKED_ON_PREEMPTION_GATES):
        conditions = reset(conditions, old, QUOTA_RESERVED, now)
    message = f"Quota reserved in ClusterQueue {queue.name}"
    conditions = put(conditions, QUOTA_RESERVED, True, QUOTA_RESERVED, message, now)
    flavors = {choice.flavor for podset in assignment.podsets for choice in podset.flavors.values()}
    states = checks.match_required_checks(
        status.admission_checks, checks.list_required_checks(queue.checks, flavors), now
    )
    if checks.all_ready(states):
        conditions = put(conditions, ADMITTED, True, ADMITTED, "The workload is admitted", now)
    else:
        message = "The workload has not all checks ready"
        conditions = put(conditions, ADMITTED, False, UNSATISFIED_ADMISSION_CHECKS, message, now)
    return msgspec.structs.replace(
        status,
        conditions=conditions,
        admission=make_admission(queue.name, assignment),
        admission_checks=states,
        resource_requests=(),
    )


def make_admission(queue: str, assignment: Assignment) -> Admission:
    """Return the assignment in the form of a Workload's status."""
    podsets = tuple(
        PodSetAssignment(
            name=podset.name,
            flavors={resource: choice.flavor for resource, choice in podset.flavors.items()},
            resource_usage={
                resource: format_amount(resource, amount)
                for resource, amount in podset.requests.items()
                if resource in podset.flavors
            },
            count=podset.count,
            topology_assignment=assignment_of(podset.places) if podset.places is not None else None,
        )
        for podset in assignment.podsets
    )
    return Admission(cluster_queue=queue, pod_set_assignments=podsets)


def mark_preempted(status: WorkloadStatus, reason: str, message: str, now: datetime) -> WorkloadStatus:
    """Return the status of a preempted workload, with the conditions Preempted and Evicted.

    reason: the reason of the condition Preempted.
    """
    status = evict(status, PREEMPTED, message, now)
    return msgspec.structs.replace(status, conditions=put(status.conditions, PREEMPTED, True, reason, message, now))


def mark_blocked(status: WorkloadStatus, message: str, now: datetime) -> WorkloadStatus:
    """Return the status of a workload that needs preemption while its preemption gate is closed."""
    conditions = put(status.conditions, BLOCKED_ON_PREEMPTION_GATES, True, PREEMPTION_GATED, message, now)
    return msgspec.structs.replace(status, conditions=conditions)
