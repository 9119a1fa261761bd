"""How a node keeps the limits of containers, as its object and people say it."""

from collections.abc import Collection
from typing import Final

# The annotation of a Node with a sentence of `describe_enforcement`.
LIMITS_ANNOTATION: Final = "muster.dev/limits"


def describe_enforcement(version: int, controllers: Collection[str], no_cgroups_because: str) -> str:
    """Return how a process node keeps limits.

    version: of the cgroups that it has, 1 or 2; 0 for none. controllers: those of `memory` and `cpu` that they have.
    no_cgroups_because: why it has none; "" if it has.
    """
    if len(controllers) > 1:
        return f"memory and CPU by cgroup v{version}"
    memory = f"memory by cgroup v{version}" if "memory" in controllers else "memory by a sample a second"
    cpu = f"CPU by cgroup v{version}" if "cpu" in controllers else "CPU by affinity masks"
    return f"{memory}, {cpu}" + (f": {no_cgroups_because}" if no_cgroups_because else "")
