"""What a node writes: API objects as plain JSON values, and what has changed between two of them.

Structs leave defaults out, but clients insist on fields that the API calls required (`ready`, `restartCount`,
`exitCode`): those are always written.
"""

import typing
from functools import cache
from typing import Any

import msgspec

from muster.api.core import Pod, PodStatus
from muster.api.markers import RequiredField
from muster.api.meta import Struct


def to_wire(value: Any) -> Any:
    """The value as JSON would hold it, times aside; required fields are there whatever their value."""
    if isinstance(value, Struct):
        found = {}
        for name, wire, default, required in _fields(type(value)):
            item = getattr(value, name)
            if required or item != default:
                found[wire] = to_wire(item)
        return found
    if isinstance(value, tuple | list):
        return [to_wire(item) for item in value]
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items()}
    return value


def pod_status_patch(pod: Pod, status: PodStatus) -> dict[str, Any] | None:
    """The strategic merge patch that makes a pod's status this one; None if it is.

    Only what differs is written, and conditions of others stay as they are.
    """
    before, after = to_wire(pod.status), to_wire(status)
    known = {condition["type"]: condition for condition in before.pop("conditions", [])}
    conditions = [
        _emptied(known.get(condition["type"], {}), condition)
        for condition in after.pop("conditions", [])
        if known.get(condition["type"]) != condition
    ]
    changes: dict[str, Any] = {name: value for name, value in after.items() if before.get(name) != value}
    changes |= {name: None for name in _OWNED if name in before and name not in after}
    if conditions:
        changes["conditions"] = conditions
    return {"status": changes} if changes else None


def _emptied(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """A condition with nulls for what it no longer says: entries of the list are merged, not replaced."""
    return {name: None for name in ("reason", "message") if name in before and name not in after} | after


# Fields of the status that a node takes away again; it never had a say in others.
_OWNED = ("reason", "message", "podIP", "podIPs")


@cache
def _fields(type_: type[Struct]) -> list[tuple[str, str, Any, bool]]:
    """Name, wire name, default, whether required."""
    hints = typing.get_type_hints(type_, include_extras=True)
    found = []
    for field in msgspec.structs.fields(type_):
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        metadata = getattr(hints[field.name], "__metadata__", ())
        required = any(isinstance(marker, RequiredField) for marker in metadata)
        found.append((field.name, field.encode_name, default, required))
    return found
