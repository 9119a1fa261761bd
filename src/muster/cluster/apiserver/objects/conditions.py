"""Conditions in the statuses of objects in their JSON form. Pure."""

from muster.cluster.apiserver.decode import Document


def holds(status: Document, type_: str) -> bool:
    """Whether a condition of a status is true."""
    return any(c.get("type") == type_ and c.get("status") == "True" for c in status.get("conditions") or ())


def set_condition(status: Document, type_: str, value: str, now: str, *, reason: str = "", message: str = "") -> None:
    """Put a condition into a status, in place; its time is that at which its value last changed."""
    conditions: list[Document] = list(status.get("conditions") or ())
    place = next((i for i, other in enumerate(conditions) if other.get("type") == type_), len(conditions))
    before = conditions[place] if place < len(conditions) else {}
    since = before.get("lastTransitionTime", now) if before.get("status") == value else now
    made = {"type": type_, "status": value, "lastTransitionTime": since}
    made |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
    conditions[place : place + 1] = [made]
    status["conditions"] = conditions
