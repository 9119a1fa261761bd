"""Encode the node's writes as plain JSON values: API objects, and patches with the changes between two of them.

Structs omit default values. But clients need the fields that the API calls required (`ready`, `restartCount`,
`exitCode`), so those are always written.
"""

import typing
from functools import cache
from typing import Any

import msgspec

from muster.api.core import NodeStatus, Pod, PodStatus
from muster.api.markers import RequiredField
from muster.api.meta import Struct
from muster.api.ours.gpus import GPU_PROBLEM


def to_wire(value: Any) -> Any:
    """Return the value as plain JSON values, except for times. Required fields are always present."""
    if isinstance(value, Struct):
        fields = {}
        for name, wire, default, required in _list_fields(type(value)):
            item = getattr(value, name)
            if required or item != default:
                fields[wire] = to_wire(item)
        return fields
    if isinstance(value, tuple | list):
        return [to_wire(item) for item in value]
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items()}
    return value


def pod_status_patch(pod: Pod, status: PodStatus) -> dict[str, Any] | None:
    """Return the strategic merge patch that gives a pod this status; None if the pod already has it.

    The patch contains only differences, and keeps conditions of other writers.
    """
    before, after = to_wire(pod.status), to_wire(status)
    conditions_before = {condition["type"]: condition for condition in before.pop("conditions", [])}
    conditions = [
        _add_nulls(conditions_before.get(condition["type"], {}), condition)
        for condition in after.pop("conditions", [])
        if conditions_before.get(condition["type"]) != condition
    ]
    changes: dict[str, Any] = {name: value for name, value in after.items() if before.get(name) != value}
    changes |= {name: _replace_list(changes[name]) for name in _ADDRESSES if name in before and name in changes}
    changes |= {name: None for name in _OWNED if name in before and name not in after}
    if conditions:
        changes["conditions"] = conditions
    return {"status": changes} if changes else None


def node_status_patch(before: NodeStatus, after: NodeStatus) -> dict[str, Any]:
    """Return the strategic merge patch that changes a node's status from `before` to `after`.

    Conditions of other writers stay as they are.
    """
    status: dict[str, Any] = to_wire(after)
    for part, resources in (("capacity", before.capacity), ("allocatable", before.allocatable)):
        status[part] = {name: None for name in resources if name not in status[part]} | status[part]
    if before.addresses:
        status["addresses"] = _replace_list(status.get("addresses", []))
    present = {condition.type for condition in after.conditions}
    ended = [{"$patch": "delete", "type": each.type} for each in before.conditions if each.type in _PASSING - present]
    status["conditions"] = [*status.get("conditions", []), *ended]
    return {"status": status}


def _replace_list(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a patch that replaces a list by exactly these items.

    Without it, the server would merge the lists by key.
    """
    return [{"$patch": "replace"}, *items]


def _add_nulls(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the condition `after`, with null for each field that only `before` has.

    A patch merges the entries of the list of conditions, so only null removes a field.
    """
    return {name: None for name in ("reason", "message") if name in before and name not in after} | after


# Fields of the status that a node may remove. Other fields belong to other writers.
_OWNED = ("reason", "message", "podIP", "podIPs", "containerStatuses", "initContainerStatuses")
# Lists whose items are their own keys: a merge would leave an old address next to the new one.
_ADDRESSES = ("podIPs", "hostIPs")
# Conditions that a node has only at times.
_PASSING = frozenset((GPU_PROBLEM,))


@cache
def _list_fields(type_: type[Struct]) -> list[tuple[str, str, Any, bool]]:
    """Return each field's name, wire name, default, and whether it is required."""
    hints = typing.get_type_hints(type_, include_extras=True)
    fields = []
    for field in msgspec.structs.fields(type_):
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        metadata = getattr(hints[field.name], "__metadata__", ())
        required = any(isinstance(marker, RequiredField) for marker in metadata)
        fields.append((field.name, field.encode_name, default, required))
    return fields
