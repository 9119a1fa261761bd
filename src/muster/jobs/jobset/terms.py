"""What a JobSet asks for, once what it leaves out is filled in."""

from collections.abc import Mapping

from muster.api.conditions import find_true
from muster.api.jobset import JobSet, ReplicatedJob, names
from muster.api.meta import Condition

# A JobSet's fields may hold more roles and replicas than an index is long: what is longer is no index of ours.
_LONGEST_INDEX = 10


def managed_by(jobset: JobSet) -> str:
    """Which controller runs it."""
    return jobset.spec.managed_by or names.CONTROLLER_NAME


def is_suspended(jobset: JobSet) -> bool:
    """Whether no pods are to run."""
    return bool(jobset.spec.suspend)


def finish(jobset: JobSet) -> Condition | None:
    """The terminal condition of a JobSet that has ended."""
    conditions = jobset.status.conditions
    return find_true(conditions, names.COMPLETED) or find_true(conditions, names.FAILED)


def has_dns_names(jobset: JobSet) -> bool:
    """Whether its pods have host names."""
    network = jobset.spec.network
    return network is None or network.enable_dns_hostnames is not False


def is_in_order(jobset: JobSet) -> bool:
    """Whether roles start one after the other."""
    policy = jobset.spec.startup_policy
    return policy is not None and policy.startup_policy_order == names.IN_ORDER


def restart_strategy(jobset: JobSet) -> str:
    """How Jobs are made anew."""
    policy = jobset.spec.failure_policy
    return policy.restart_strategy if policy is not None else names.RECREATE


def place(jobset: JobSet, roles: Mapping[str, ReplicatedJob], name: str) -> tuple[ReplicatedJob, int] | None:
    """The role and the index that a Job of that name has; None if the JobSet makes none of such a name."""
    prefix = f"{jobset.metadata.name}-"
    role, _, index = name.removeprefix(prefix).rpartition("-")
    if not name.startswith(prefix) or role not in roles or not _is_index(index):
        return None
    return roles[role], int(index)


def _is_index(text: str) -> bool:
    return text == "0" or (text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= _LONGEST_INDEX)
