"""Whether a ClusterQueue admits, and if not, everything that is in the way (its condition Active)."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.api.kueue import AdmissionCheck
from muster.api.kueue.names import (
    ACTIVE,
    ADMISSION_CHECK_INACTIVE,
    ADMISSION_CHECK_NOT_FOUND,
    FLAVOR_NOT_FOUND,
    MULTI_KUEUE_APPLIED_PER_FLAVOR,
    MULTI_KUEUE_CONTROLLER,
    MULTI_KUEUE_WITH_PROVISIONING_REQUEST,
    MULTIPLE_MULTI_KUEUE_ADMISSION_CHECKS,
    PROVISIONING_REQUEST_CONTROLLER,
    READY,
    STOPPED,
    TERMINATING,
    UNKNOWN,
)
from muster.queueing.conditions import is_true
from muster.queueing.model import FlavorSpec, QueueSpec


@dataclass(frozen=True, slots=True)
class Activity:
    """active: the ClusterQueue admits. reason, message: of its condition Active."""

    active: bool
    reason: str
    message: str


_READY = Activity(True, READY, "Can admit new workloads")
_TERMINATING = Activity(False, TERMINATING, "Can't admit new workloads; clusterQueue is terminating")


def activity(
    spec: QueueSpec,
    flavors: Mapping[str, FlavorSpec],
    checks: Mapping[str, AdmissionCheck],
    *,
    terminating: bool = False,
    in_circle: bool = False,
) -> Activity:
    """The first obstacle gives the reason; the message names all of them."""
    if terminating:
        return _TERMINATING
    obstacles = _obstacles(spec, flavors, checks)
    if in_circle:
        obstacles.append((UNKNOWN, "its cohorts name each other in a circle"))
    if not obstacles:
        return _READY
    message = ", ".join(message for _, message in obstacles)
    return Activity(False, obstacles[0][0], f"Can't admit new workloads: {message}.")


def _obstacles(
    spec: QueueSpec, flavors: Mapping[str, FlavorSpec], checks: Mapping[str, AdmissionCheck]
) -> list[tuple[str, str]]:
    used = dict.fromkeys(name for group in spec.groups for name in group.flavors)
    found = {name: checks[name] for name in spec.checks if name in checks}
    multi = [name for name, check in found.items() if check.spec.controller_name == MULTI_KUEUE_CONTROLLER]
    provisioning = [
        name for name, check in found.items() if check.spec.controller_name == PROVISIONING_REQUEST_CONTROLLER
    ]
    inactive = [name for name, check in found.items() if not is_true(check.status.conditions, ACTIVE)]
    several = multi if len(multi) > 1 else []
    candidates = (
        (STOPPED, "is stopped", ["-"] if spec.stop != "None" else []),
        (FLAVOR_NOT_FOUND, "references missing ResourceFlavor(s): {}", [name for name in used if name not in flavors]),
        (
            ADMISSION_CHECK_NOT_FOUND,
            "references missing AdmissionCheck(s): {}",
            [name for name in spec.checks if name not in found],
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
            "Cannot use ProvisioningRequest AdmissionCheck(s) {} together with a MultiKueue AdmissionCheck",
            provisioning if multi else [],
        ),
    )
    return [(reason, message.format(",".join(sorted(names)))) for reason, message, names in candidates if names]
