"""The topology annotations of pods: their conversion to a Workload's request, and their rules.

The order and the messages of errors are Kueue's (jobframework/tas_validation.go).
"""

from collections.abc import Mapping, Sequence

import msgspec

from muster.api.kueue import PodSet, PodsetSliceRequiredTopologyConstraint, PodSetTopologyRequest
from muster.api.kueue.names import (
    POD_SET_GROUP_NAME,
    POD_SET_PREFERRED_TOPOLOGY,
    POD_SET_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
    POD_SET_SLICE_SIZE,
    POD_SET_UNCONSTRAINED_TOPOLOGY,
    TOPOLOGY_ANNOTATIONS,
)
from muster.api.managed.jobs import parse_integer
from muster.api.status import NO_VALUE
from muster.api.validation import names
from muster.api.validation.fields import Errors, forbidden, invalid, make_errors, required
from muster.api.values.booleans import parse_boolean

_MOST_LAYERS = 3
_WAYS = (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY, POD_SET_UNCONSTRAINED_TOPOLOGY)


def topology_request(
    annotations: Mapping[str, str], index_label: str | None = None, groups: tuple[str, int] | None = None
) -> PodSetTopologyRequest | None:
    """Return the topology request of pods with these annotations; None if none of them is about topology.

    Numbers, booleans and lists of layers that cannot be read are left out of the request.

    index_label: the label with the rank of a pod.
    groups: for pods in groups with ranks of their own, the label with the index of the group, and the number of groups.
    """
    if TOPOLOGY_ANNOTATIONS.isdisjoint(annotations):
        return None
    required_at, preferred_at = (annotations.get(key) for key in _WAYS[:2])
    one = required_at if required_at is not None else preferred_at
    layers = _read_layers(annotations)
    size = parse_integer(annotations.get(POD_SET_SLICE_SIZE, ""))
    return PodSetTopologyRequest(
        required=required_at,
        preferred=preferred_at if required_at is None else None,
        unconstrained=parse_boolean(annotations.get(POD_SET_UNCONSTRAINED_TOPOLOGY, "")) if one is None else None,
        pod_index_label=index_label,
        sub_group_index_label=groups[0] if groups is not None else None,
        sub_group_count=groups[1] if groups is not None else None,
        pod_set_group_name=annotations.get(POD_SET_GROUP_NAME) if one is not None else None,
        pod_set_slice_required_topology=annotations.get(POD_SET_SLICE_REQUIRED_TOPOLOGY) if size else None,
        pod_set_slice_size=size if POD_SET_SLICE_REQUIRED_TOPOLOGY in annotations and size else None,
        podset_slice_required_topology_constraints=layers or (),
    )


def validate_annotations(path: str, annotations: Mapping[str, str], count: int | None = None) -> Errors:
    """Yield the errors in the topology annotations of pods.

    path: the path of the annotations.
    count: the number of pods; None if it is unknown.
    """
    said = [annotations[way] for way in _WAYS if way in annotations]
    if len(said) > 1:
        listed = ", ".join(f'"{way}"' for way in _WAYS)
        yield invalid(path, said[0], f"must not contain more than one topology annotation: [{listed}]")
    for key in (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY, POD_SET_SLICE_REQUIRED_TOPOLOGY):
        if (value := annotations.get(key)) is not None:
            yield from make_errors(_join_path(path, key), value, names.label_key(value))
    yield from _validate_group(path, annotations)
    anywhere = annotations.get(POD_SET_UNCONSTRAINED_TOPOLOGY)
    if anywhere is not None and parse_boolean(anywhere) is None:
        yield invalid(_join_path(path, POD_SET_UNCONSTRAINED_TOPOLOGY), anywhere, "must be a boolean value")
    yield from _validate_slices(path, annotations, count)
    yield from _validate_several_slices(path, annotations)


def validate_grouping(podsets: Sequence[tuple[str, PodSet]]) -> Errors:
    """Yield the errors in podsets to place together, each given with the path of its annotations."""
    groups: dict[str, list[tuple[str, PodSet, PodSetTopologyRequest]]] = {}
    for path, podset in podsets:
        request = podset.topology_request
        if request is not None and request.pod_set_group_name is not None:
            groups.setdefault(request.pod_set_group_name, []).append((path, podset, request))
    for name, members in groups.items():
        if len(members) != 2:
            told = f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
            yield from (invalid(_join_path(path, POD_SET_GROUP_NAME), name, told) for path, *_ in members)
            continue
        (path, podset, request), (other_path, other_podset, other) = members
        if 1 not in (podset.count, other_podset.count):
            sizes = f"got: {podset.count} replica(s) and {other_podset.count} replica(s) in the group"
            told = f"can only define groups where at least one pod set has only 1 replica, {sizes}"
            yield from (invalid(_join_path(each_path, POD_SET_GROUP_NAME), name, told) for each_path, *_ in members)
        if (request.required, request.preferred) != (other.required, other.preferred):
            either = f"'{POD_SET_REQUIRED_TOPOLOGY}' or '{POD_SET_PREFERRED_TOPOLOGY}'"
            for mine, theirs in ((path, other_path), (other_path, path)):
                told = f"must specify {either} topology consistent with '{theirs}' in group '{name}'"
                yield invalid(mine, NO_VALUE, told)


def _validate_group(path: str, annotations: Mapping[str, str]) -> Errors:
    name = annotations.get(POD_SET_GROUP_NAME)
    if name is None:
        return
    at = _join_path(path, POD_SET_GROUP_NAME)
    if name.isascii() and name.isdigit():
        yield invalid(at, name, "must not be a number")
    for other in (POD_SET_SLICE_SIZE, POD_SET_SLICE_REQUIRED_TOPOLOGY):
        if other in annotations:
            yield forbidden(at, f"may not be set when '{other}' is specified")
    if POD_SET_PREFERRED_TOPOLOGY not in annotations and POD_SET_REQUIRED_TOPOLOGY not in annotations:
        neither = f"'{POD_SET_PREFERRED_TOPOLOGY}' nor '{POD_SET_REQUIRED_TOPOLOGY}'"
        yield forbidden(at, f"may not be set when neither {neither} is specified")


def _validate_slices(path: str, annotations: Mapping[str, str], count: int | None) -> Errors:
    text, at = annotations.get(POD_SET_SLICE_SIZE), _join_path(path, POD_SET_SLICE_SIZE)
    level = POD_SET_SLICE_REQUIRED_TOPOLOGY
    if text is None:
        if level in annotations:
            yield required(at, f"must be set when '{level}' is specified")
        return
    size = parse_integer(text)
    if size is None:
        yield invalid(at, text, "must be a numeric value")
    elif size < 1:
        yield invalid(at, text, "must be greater than or equal to 1")
    elif count is not None and size > count:
        yield invalid(at, text, f"must not be greater than pod set count {count}")
    if level not in annotations:
        yield forbidden(at, f"may not be set when '{level}' is not specified")


def _validate_several_slices(path: str, annotations: Mapping[str, str]) -> Errors:
    text, at = annotations.get(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS), ""
    if text is None:
        return
    at = _join_path(path, POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS)
    for other in (POD_SET_SLICE_REQUIRED_TOPOLOGY, POD_SET_SLICE_SIZE, POD_SET_GROUP_NAME):
        if other in annotations:
            yield forbidden(at, f"may not be set when '{other}' is specified")
    layers = _read_layers(annotations)
    if layers is None:
        yield invalid(at, text, "must be a list of slice sizes and the levels that they keep to, in JSON")
    elif not 0 < len(layers) <= _MOST_LAYERS:
        yield invalid(at, text, f"must contain between 1 and {_MOST_LAYERS} entries")


def _read_layers(annotations: Mapping[str, str]) -> tuple[PodsetSliceRequiredTopologyConstraint, ...] | None:
    """Return the constraints of slices of several sizes; () without the annotation, None if it is invalid."""
    text = annotations.get(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS)
    if text is None:
        return ()
    try:
        layers = msgspec.json.decode(text, type=tuple[PodsetSliceRequiredTopologyConstraint, ...])
    except msgspec.MsgspecError:
        return None
    return layers if _are_complete(layers) else None


def _are_complete(layers: Sequence[PodsetSliceRequiredTopologyConstraint]) -> bool:
    return all(layer.size > 0 and layer.topology for layer in layers)


def _join_path(path: str, key: str) -> str:
    return f"{path}[{key}]"
