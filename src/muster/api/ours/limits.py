"""Describe by which means a process node enforces the CPU and memory limits of containers."""

from collections.abc import Collection
from typing import Final

# The annotation of a Node with a sentence of `describe_enforcement`.
LIMITS_ANNOTATION: Final = "muster.dev/limits"


def describe_enforcement(version: int, controllers: Collection[str], no_cgroups_because: str) -> str:
    """Return the phrase on how a process node enforces limits, such as `memory and CPU by cgroup v2`.

    version: the version of the cgroups, 1 or 2; 0 for no cgroups.
    controllers: the usable ones of `memory` and `cpu`.
    no_cgroups_because: why cgroups cannot be used; "" if they can.
    """
    if len(controllers) > 1:
        return f"memory and CPU by cgroup v{version}"
    memory = f"memory by cgroup v{version}" if "memory" in controllers else "memory by a sample a second"
    cpu = f"CPU by cgroup v{version}" if "cpu" in controllers else "CPU by affinity masks"
    return f"{memory}, {cpu}" + (f": {no_cgroups_because}" if no_cgroups_because else "")
