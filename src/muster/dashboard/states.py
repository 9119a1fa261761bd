"""The display of jobs' states: in words, and in colours that are never the only sign. Pure."""

from muster.insight.jobs.state import WAITING

STATES = (
    "Queued", "Checking", "Held", "Suspended", "Pending", "Starting", "Running", "Retrying", "Evicting",
    "Finishing", "Cancelling", "Completed", "Failed", "Cancelled", "Deleting",
)  # fmt: skip

GROUPS = {
    "waits": WAITING,
    "runs": ("Running", "Starting", "Retrying", "Finishing"),
}
"""States that the overview counts together. A filter takes the name of a group as it takes a state."""

_COLORS = {
    "waiting": ("Queued", "Checking", "Held", "Suspended", "Pending"),
    "running": ("Starting", "Running", "Finishing"),
    "bad": ("Failed", "Retrying", "Evicting"),
    "good": ("Completed",),
}
_COLOR_BY_STATE = {state: color for color, states in _COLORS.items() for state in states}


def is_in_state(state: str, state_filter: str) -> bool:
    """Return whether a job's state matches a filter, which is a state or a group of states; "" matches all."""
    return not state_filter or state == state_filter or state in GROUPS.get(state_filter, ())


def color_of(state: str) -> str:
    """Return the style sheet's class for a job's state; "" for a state without a colour."""
    return _COLOR_BY_STATE.get(state, "")
