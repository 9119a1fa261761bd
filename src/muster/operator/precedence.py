"""Decide which of several programs on a cluster acts: which manager leads, and which scheduler binds a pod. Pure.

One replica of Muster leads at a time, and none while Kueue's own manager leads. Each pod is bound by the scheduler that
it names, and Muster binds only pods that name Muster's scheduler.
"""

from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.config.types import SCHEDULER_NAMES

# The prefix of the identities of Muster's replicas; Kueue's identities begin with the name of its pod.
OURS = "muster_"

SCHEDULER = "muster"


def make_identity(host: str, uid: str) -> str:
    """Return a replica's identity, as client-go makes it: its host, and a unique ID."""
    return f"{OURS}{host}_{uid}"


def place(configuration: Configuration) -> tuple[str, str]:
    """Return the namespace and name of the leader Lease, for which replicas of Kueue and Muster compete."""
    election = configuration.leader_election
    return election.resource_namespace or configuration.namespace, election.resource_name


def is_ours(identity: str) -> bool:
    """Return whether a Lease's holder identity is empty, or names a replica of Muster."""
    return not identity or identity.startswith(OURS)


def beside_others(configuration: Configuration) -> Configuration:
    """Return the settings with scheduler names that no other scheduler uses, unless the Configuration sets names."""
    ours = configuration.muster
    if ours.scheduling.scheduler_names != SCHEDULER_NAMES:
        return configuration
    scheduling = replace(ours.scheduling, scheduler_names=(SCHEDULER,))
    return replace(configuration, muster=replace(ours, scheduling=scheduling))
