"""Make patches of pod templates that inject the values of an admission, and that remove them. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from muster.api.core import PodSchedulingGate, PodTemplateSpec
from muster.controllers.integrations.injection import merge_tolerations
from muster.queueing.jobframework.observedjob import PodSetInfo


def make_injecting_patch(template: PodTemplateSpec, info: PodSetInfo) -> dict[str, Any]:
    """Return a merge patch of a template that injects values into its pods."""
    borne = merge_tolerations(template.spec.tolerations, info.tolerations)
    patch = _make_template_patch(info.labels, info.annotations, info.node_selector, list(borne))
    if info.gates:
        patch["spec"]["schedulingGates"] = _join_gates(template, info.gates)
    return patch


def make_restoring_patch(now: PodTemplateSpec, before: PodTemplateSpec, keep: Collection[str] = ()) -> dict[str, Any]:
    """Return a merge patch of a pod template that removes what admission added: labels, node selectors and the like.

    before: the template before admission.
    keep: names of labels that stay.
    """
    kept = {key: value for key, value in now.metadata.labels.items() if key in keep}
    patch = _make_template_patch(
        _make_map_patch(now.metadata.labels, before.metadata.labels | kept),
        _make_map_patch(now.metadata.annotations, before.metadata.annotations),
        _make_map_patch(now.spec.node_selector, before.spec.node_selector),
        list(before.spec.tolerations) or None,
    )
    if now.spec.scheduling_gates != before.spec.scheduling_gates:
        patch["spec"]["schedulingGates"] = list(before.spec.scheduling_gates) or None
    return patch


def equals_where_injected(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Return whether two templates are equal in all fields that may be injected."""
    return make_restoring_patch(one, other) == make_restoring_patch(other, other)


def make_operations(path: str, now: PodTemplateSpec, patch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the operations of a JSON patch that changes the template at a path as a merge patch of this module would.

    now: the template to change.
    patch: the merge patch.
    """
    if metadata := patch["metadata"]:
        written = {field: _merge_maps(getattr(now.metadata, field), change) for field, change in metadata.items()}
        yield _put(f"{path}/metadata", msgspec.structs.replace(now.metadata, **written))
    have = msgspec.to_builtins(now.spec)
    for field, change in patch["spec"].items():
        value = _merge_maps(now.spec.node_selector, change) if isinstance(change, Mapping) else change
        if value:
            yield _put(f"{path}/spec/{field}", value)
        elif field in have:
            yield {"op": "remove", "path": f"{path}/spec/{field}"}


def _put(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _merge_maps(now: Mapping[str, str], change: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**now, **change}.items() if value is not None}


def _join_gates(template: PodTemplateSpec, more: tuple[str, ...]) -> list[PodSchedulingGate]:
    """Return the template's gates and the additional ones, without duplicates."""
    names = dict.fromkeys((*(gate.name for gate in template.spec.scheduling_gates), *more))
    return [PodSchedulingGate(name=name) for name in names]


def _make_template_patch(
    labels: Mapping[str, Any], annotations: Mapping[str, Any], node_selector: Mapping[str, Any], borne: Any
) -> dict[str, Any]:
    """Return the patch of a template with these changes.

    It changes only fields that may change while a job is suspended.

    borne: the tolerations.
    """
    metadata = {"labels": labels, "annotations": annotations}
    patch: dict[str, Any] = {"metadata": {part: change for part, change in metadata.items() if change}}
    patch["spec"] = {"tolerations": borne} | ({"nodeSelector": node_selector} if node_selector else {})
    return patch


def _make_map_patch(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch that turns the map `now` back into the map `before`."""
    removals: dict[str, str | None] = {key: None for key in now if key not in before}
    return removals | {key: value for key, value in before.items() if now.get(key) != value}
