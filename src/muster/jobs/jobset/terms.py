"""Read a JobSet's spec, with defaults for missing fields."""

from collections.abc import Mapping

from muster.api.conditions import find_true
from muster.api.jobset import JobSet, ReplicatedJob, names
from muster.api.meta import Condition
from muster.jobs.interruption import count_suspensions

# The maximum number of digits of an index in a name.
_LONGEST_INDEX = 10


def managed_by(jobset: JobSet) -> str:
    """Return the name of the controller that reconciles the JobSet."""
    return jobset.spec.managed_by or names.CONTROLLER_NAME


def is_suspended(jobset: JobSet) -> bool:
    """Return whether the JobSet is suspended."""
    return bool(jobset.spec.suspend)


def finish(jobset: JobSet) -> Condition | None:
    """Return the terminal condition of a JobSet; None if it has not ended."""
    conditions = jobset.status.conditions
    return find_true(conditions, names.COMPLETED) or find_true(conditions, names.FAILED)


def attempt_of(jobset: JobSet) -> int:
    """Return how many times all pods of the JobSet were started again.

    Either all Jobs were recreated, or a suspension ended the pods and kept the Jobs.
    """
    return jobset.status.restarts + count_suspensions(jobset.status.conditions)


def has_dns_names(jobset: JobSet) -> bool:
    """Return whether the JobSet's pods have host names."""
    network = jobset.spec.network
    return network is None or network.enable_dns_hostnames is not False


def is_in_order(jobset: JobSet) -> bool:
    """Return whether roles start one after the other."""
    policy = jobset.spec.startup_policy
    return policy is not None and policy.startup_policy_order == names.IN_ORDER


def restart_strategy(jobset: JobSet) -> str:
    """Return the restart strategy of the failure policy."""
    policy = jobset.spec.failure_policy
    return policy.restart_strategy if policy is not None else names.RECREATE


def find_place(jobset: JobSet, roles: Mapping[str, ReplicatedJob], name: str) -> tuple[ReplicatedJob, int] | None:
    """Return the role and index of a Job by its name; None if the JobSet has no Job of that name."""
    prefix = f"{jobset.metadata.name}-"
    role, _, index = name.removeprefix(prefix).rpartition("-")
    if not name.startswith(prefix) or role not in roles or not _is_index(index):
        return None
    return roles[role], int(index)


def _is_index(text: str) -> bool:
    return text == "0" or (text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= _LONGEST_INDEX)
