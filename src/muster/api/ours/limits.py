"""How a node keeps the limits of containers, as its object and people say it."""

from typing import Final

# The annotation of a Node with a sentence of `describe_enforcement`.
LIMITS_ANNOTATION: Final = "muster.dev/limits"


def describe_enforcement(no_cgroups_because: str) -> str:
    """Return how a process node keeps limits. no_cgroups_because: why it has no cgroups; "" if it has."""
    if not no_cgroups_because:
        return "memory and CPU by cgroup v2"
    return f"memory by a sample a second, CPU not at all: {no_cgroups_because}"
