"""Read and set conditions in the status of objects in their JSON form."""

from muster.cluster.apiserver.decode import Document


def holds(status: Document, type_: str) -> bool:
    """Return whether a status has a condition of this type whose status is "True"."""
    return any(c.get("type") == type_ and c.get("status") == "True" for c in status.get("conditions") or ())


def set_condition(status: Document, type_: str, value: str, now: str, *, reason: str = "", message: str = "") -> None:
    """Set a condition of a status in place. Its transition time changes only if its value changes.

    value: "True", "False" or "Unknown".
    now: the current time as RFC 3339.
    reason, message: not set if empty.
    """
    conditions: list[Document] = list(status.get("conditions") or ())
    place = next((i for i, other in enumerate(conditions) if other.get("type") == type_), len(conditions))
    before = conditions[place] if place < len(conditions) else {}
    since = before.get("lastTransitionTime", now) if before.get("status") == value else now
    condition = {"type": type_, "status": value, "lastTransitionTime": since}
    condition |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
    conditions[place : place + 1] = [condition]
    status["conditions"] = conditions
