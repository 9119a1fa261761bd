"""Decide whether a ClusterQueue or LocalQueue is active, and name everything that prevents it (condition Active)."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from muster.api.conditions import is_true
from muster.api.kueue import AdmissionCheck
from muster.api.kueue.names import (
    ACTIVE,
    ADMISSION_CHECK_INACTIVE,
    ADMISSION_CHECK_NOT_FOUND,
    CLUSTER_QUEUE_DOES_NOT_EXIST,
    CLUSTER_QUEUE_IS_INACTIVE,
    FLAVOR_NOT_FOUND,
    MULTI_KUEUE_APPLIED_PER_FLAVOR,
    MULTI_KUEUE_CONTROLLER,
    MULTI_KUEUE_WITH_PROVISIONING_REQUEST,
    MULTIPLE_MULTI_KUEUE_ADMISSION_CHECKS,
    PROVISIONING_REQUEST_CONTROLLER,
    READY,
    STOPPED,
    TERMINATING,
    TOPOLOGY_NOT_FOUND,
    UNKNOWN,
)
from muster.queueing.model import FlavorSpec, QueueSpec, StopPolicy


class Activity(Struct, frozen=True):
    """The activity of a queue.

    active: whether the queue admits new workloads, which is the status of its condition Active.
    reason, message: the reason and message of that condition.
    """

    active: bool
    reason: str
    message: str


_READY = Activity(True, READY, "Can admit new workloads")
_TERMINATING = Activity(False, TERMINATING, "Can't admit new workloads; clusterQueue is terminating")
_LOCAL_READY = Activity(True, READY, "Can submit new workloads to localQueue")
_LOCAL_STOPPED = Activity(False, STOPPED, "LocalQueue is stopped")
_NO_SUBMISSION = "Can't submit new workloads to clusterQueue"


def judge_activity(
    spec: QueueSpec,
    flavors: Mapping[str, FlavorSpec],
    checks: Mapping[str, AdmissionCheck],
    *,
    terminating: bool = False,
    in_circle: bool = False,
) -> Activity:
    """Return whether a ClusterQueue is active.

    The first obstacle determines the reason of the condition; its message names all obstacles.

    terminating: whether the queue is being deleted.
    in_circle: whether its Cohorts name each other as parents in a circle.
    """
    if terminating:
        return _TERMINATING
    obstacles = _find_obstacles(spec, flavors, checks)
    if in_circle:
        obstacles.append((UNKNOWN, "its cohorts name each other in a circle"))
    if not obstacles:
        return _READY
    message = ", ".join(message for _, message in obstacles)
    return Activity(False, obstacles[0][0], f"Can't admit new workloads: {message}.")


def local_activity(stop: StopPolicy, queue: Activity | None) -> Activity:
    """Return whether a LocalQueue is active, by its stop policy and the activity of its ClusterQueue.

    queue: the activity of the ClusterQueue; None if that does not exist.
    """
    if stop != "None":
        return _LOCAL_STOPPED
    if queue is None:
        return Activity(False, CLUSTER_QUEUE_DOES_NOT_EXIST, _NO_SUBMISSION)
    return _LOCAL_READY if queue.active else Activity(False, CLUSTER_QUEUE_IS_INACTIVE, _NO_SUBMISSION)


def _find_obstacles(
    spec: QueueSpec, flavors: Mapping[str, FlavorSpec], checks: Mapping[str, AdmissionCheck]
) -> list[tuple[str, str]]:
    """Return the reasons why a ClusterQueue is inactive, each with a message; empty if it is active."""
    used = dict.fromkeys(name for group in spec.groups for name in group.flavors)
    existing = {name: checks[name] for name in sorted(spec.checks) if name in checks}
    multi = _filter_by_controller(existing, MULTI_KUEUE_CONTROLLER)
    provisioning = _filter_by_controller(existing, PROVISIONING_REQUEST_CONTROLLER)
    inactive = [name for name, check in existing.items() if not is_true(check.status.conditions, ACTIVE)]
    several = multi if len(multi) > 1 else []
    candidates = (
        (STOPPED, "is stopped", ["-"] if spec.stop != "None" else []),
        (FLAVOR_NOT_FOUND, "references missing ResourceFlavor(s): {}", [name for name in used if name not in flavors]),
        (
            ADMISSION_CHECK_NOT_FOUND,
            "references missing AdmissionCheck(s): {}",
            [name for name in sorted(spec.checks) if name not in existing],
        ),
        (ADMISSION_CHECK_INACTIVE, "references inactive AdmissionCheck(s): {}", inactive),
        (
            MULTIPLE_MULTI_KUEUE_ADMISSION_CHECKS,
            "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: {}",
            several,
        ),
        (
            MULTI_KUEUE_APPLIED_PER_FLAVOR,
            "Cannot specify MultiKueue AdmissionCheck per flavor, found: {}",
            [name for name in multi if spec.checks[name]],
        ),
        (
            MULTI_KUEUE_WITH_PROVISIONING_REQUEST,
            "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: {}",
            [f"{','.join(multi)}, {','.join(provisioning)}"] if multi and provisioning else [],
        ),
    )
    obstacles = [(reason, message.format(",".join(names))) for reason, message, names in candidates if names]
    return [*obstacles, *_find_missing_topologies([flavors[name] for name in used if name in flavors])]


def _find_missing_topologies(flavors: Iterable[FlavorSpec]) -> list[tuple[str, str]]:
    return [
        (TOPOLOGY_NOT_FOUND, f'there is no Topology "{flavor.topology}" for TAS flavor "{flavor.name}"')
        for flavor in flavors
        if flavor.topology and flavor.levels == ()
    ]


def _filter_by_controller(checks: Mapping[str, AdmissionCheck], controller: str) -> list[str]:
    return [name for name, check in checks.items() if check.spec.controller_name == controller]
