"""The bounds of a pod on Muster's nodes, where each part of a pod costs the node time and memory."""

from typing import Final

MOST_CONTAINERS: Final = 64
MOST_INIT_CONTAINERS: Final = 64
MOST_VOLUMES: Final = 256


def explain_excess(*, containers: int, init_containers: int, volumes: int) -> str:
    """Return the message for a pod that exceeds a bound; "" for a pod within the bounds."""
    for count, most, what in (
        (containers, MOST_CONTAINERS, "containers"),
        (init_containers, MOST_INIT_CONTAINERS, "init containers"),
        (volumes, MOST_VOLUMES, "volumes"),
    ):
        if count > most:
            return f"a pod may have at most {most} {what} here, and this one has {count}"
    return ""
