"""What gives way to what on a cluster that has programs of its own. Pure.

One replica of Muster leads at a time, and none while Kueue's own manager does. Pods are left to the scheduler that they
name, and only those that name Muster's are placed by it.
"""

from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.config.types import SCHEDULER_NAMES

# How the identities of Muster's replicas begin. Kueue's begin with the name of its pod.
OURS = "muster_"

SCHEDULER = "muster"


def identity(host: str, uid: str) -> str:
    """Of a replica, as client-go makes it: where it runs, and what no other has."""
    return f"{OURS}{host}_{uid}"


def place(configuration: Configuration) -> tuple[str, str]:
    """The namespace and the name of the Lease of engines, Kueue's and Muster's."""
    election = configuration.leader_election
    return election.resource_namespace or configuration.namespace, election.resource_name


def is_ours(identity: str) -> bool:
    """Whether it is a replica's of Muster, or free."""
    return not identity or identity.startswith(OURS)


def beside_others(configuration: Configuration) -> Configuration:
    """The settings, with the names of schedulers that other programs have here, unless the file names its own."""
    ours = configuration.muster
    if ours.scheduling.scheduler_names != SCHEDULER_NAMES:
        return configuration
    scheduling = replace(ours.scheduling, scheduler_names=(SCHEDULER,))
    return replace(configuration, muster=replace(ours, scheduling=scheduling))
