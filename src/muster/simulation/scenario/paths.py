"""Set a value of a scenario or of its manifests by its path, such as `clusterQueues.team-a.nominalQuota.cpu`. Pure.

The first step of a path is a field of the scenario's spec, or the plural of a kind of manifests. After a plural, the
name of a manifest follows, such as `main`, or `team-a/main` if several namespaces have a `main`. After `nodes`, the
name of a pool or of a Node follows. Further steps are fields, or names or indexes of items of a list. The name of a
step may contain dots, as `nvidia.com/gpu` does. If several existing names match, the longest counts.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, inspect

from muster.api.kueue import KUEUE_KINDS
from muster.insight.nearest import find_nearest
from muster.simulation.scenario.fieldnames import describe_part, enter_part, name_fields
from muster.simulation.scenario.model import Spec
from muster.simulation.scenario.source import list_names, suggest

# The fields of a quota. A path names the resource alone after the field, or the flavor before it.
_QUOTAS = ("nominalQuota", "borrowingLimit", "lendingLimit")
# Fields that a path cannot set, because all variants share them, or because they have been read before.
_FIXED = ("seed", "variants", "manifests")
_NODES = "nodes"
# The fields of manifests with labels or resources as keys.
_OPEN_FIELDS = frozenset(
    (
        "allocatable",
        "annotations",
        "capacity",
        "labels",
        "limits",
        "matchLabels",
        "nodeLabels",
        "nodeSelector",
        "overhead",
        "requests",
    )
)
_SPAN = re.compile(r"([0-9.]+(ms|[smhd]))+")
_TYPES: Mapping[str, type[Struct]] = {kind.kind: kind.type for kind in KUEUE_KINDS}
_FIELDS = tuple(sorted({*Spec.__struct_encode_fields__} - {*_FIXED}))


class PathError(ValueError):
    """A path that matches no field. The message names the unknown step, and the known names."""


def begins_with_field(path: str, scenario: Mapping[str, Any]) -> bool:
    """Return whether a path matches a field of the scenario's document, rather than of one of its manifests."""
    field = _find_step(path, _FIELDS)
    of_pool = field != _NODES or path == _NODES or _find_step(path[len(f"{_NODES}.") :], list_pools(scenario))
    return field is not None and bool(of_pool)


def list_pools(scenario: Mapping[str, Any]) -> Collection[str]:
    """Return the names and numbers that a path may use for the pools of nodes of a scenario."""
    spec = scenario.get("spec")
    pools = spec.get(_NODES) if isinstance(spec, dict) else None
    return _number_items(pools) if isinstance(pools, list | tuple) else ()


def set_field(scenario: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a scenario's document with one value set.

    path: a path that starts with a field.

    Raises `PathError` if the path matches nothing.
    """
    spec = scenario.get("spec")
    return scenario | {"spec": _set(spec if isinstance(spec, dict) else {}, path, value, path, describe_part(Spec))}


def set_in_manifest(
    manifests: Sequence[dict[str, Any]], path: str, value: Any, pools: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return manifests with one value set in one of them. The others are the same objects.

    pools: the names of pools, which the error suggests if the path names no Node.

    Raises `PathError` if the path matches nothing.
    """
    documents = list(manifests)
    plurals = sorted({_pluralize(one["kind"]) for one in documents})
    # fields are listed only for the suggestion, because `set_field` handles paths that start with one
    root, rest = _take_step(path, (*_FIELDS, *plurals), path, "neither a field of the scenario nor a kind of manifests")
    at, rest = _take_manifest(documents, root, rest, path, pools if root == _NODES else ())
    documents[at] = _set_field(documents[at], rest, value, path)
    return documents


def _take_manifest(
    documents: Sequence[dict[str, Any]], plural: str, rest: str, path: str, others: Iterable[str]
) -> tuple[int, str]:
    """Return the index of the manifest that a path names after the plural of its kind, and the path inside it.

    others: further names that the error suggests.

    Raises `PathError` if no manifest or several have the name, or if no field follows.
    """
    places: dict[str, list[int]] = {}
    shown = [one for one in others if not one.isdigit()]
    for at, one in enumerate(documents):
        if _pluralize(one["kind"]) == plural:
            full, name = _name_manifest(one)
            shown += [full, name] if one["metadata"].get("namespace") else [name]
            places.setdefault(full, []).append(at)
            places.setdefault(name, []).append(at)
    name, rest = _take_step(rest, places, path, f"the name of none of {plural}", shown=shown)
    if len(places[name]) > 1:
        names = list_names(sorted(_name_manifest(documents[at])[0] for at in places[name]))
        raise PathError(f"{path}: several of {plural} are called {name}: name one of {names}")
    if not rest:
        raise PathError(f"{path}: the field of {name} is missing")
    return places[name][0], rest


def _pluralize(kind: str) -> str:
    """Return the plural of a kind as spelled in paths: `clusterQueues`, `topologies`."""
    name = kind[:1].lower() + kind[1:]
    if name.endswith("y"):
        return name[:-1] + "ies"
    return name + ("es" if name.endswith(("s", "x", "ch")) else "s")


def _name_manifest(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return `NAMESPACE/NAME` of a manifest, and its name alone."""
    metadata = document["metadata"]
    name = metadata.get("name") or ""
    return f"{metadata.get('namespace') or 'default'}/{name}", name


def _set_field(document: dict[str, Any], rest: str, value: Any, path: str) -> Any:
    """Return a manifest with a field set. Fields of its spec need no `spec` in the path, and quotas have short forms.

    rest: the path inside the manifest.
    path: the complete path that the user wrote, for errors.

    Raises `PathError`.
    """
    if isinstance(value, float) and not {*_QUOTAS}.isdisjoint(rest.split(".")):
        value = str(value)  # the API takes whole numbers and texts
    part = describe_part(_TYPES[document["kind"]]) if document["kind"] in _TYPES else None
    spec = document.get("spec")
    if not isinstance(spec, dict) or rest.partition(".")[0] in document:
        return _set(document, rest, value, path, part)
    field, _, resource = rest.partition(".")
    if field in _QUOTAS and field not in spec:
        rest = _find_quota(spec, field, resource, path)
    elif resource and "resourceGroups" in spec and _find_step(rest, spec) is None and find_nearest(field, _QUOTAS):
        raise _refuse_step(rest, (*spec, *_QUOTAS), path, "no field there")
    return document | {"spec": _set(spec, rest, value, path, enter_part(part, "spec"))}


def _find_quota(spec: Mapping[str, Any], field: str, quota: str, path: str) -> str:
    """Return the path, inside a ClusterQueue's or Cohort's spec, of the quota that a short path names.

    For `nominalQuota.cpu`, an example is `resourceGroups.0.flavors.0.resources.0.nominalQuota`.

    field: the field of the quota, such as `nominalQuota`.
    quota: the resource, or `FLAVOR.RESOURCE` to choose between several flavors that have the resource.
    path: what the user wrote, for errors.

    Raises `PathError` if no flavor has the resource, or if several have it.
    """
    places = {
        (str(flavor.get("name")), str(resource.get("name"))): f"resourceGroups.{group}.flavors.{at}.resources.{number}"
        for group, one in enumerate(_list_maps(spec.get("resourceGroups")))
        for at, flavor in enumerate(_list_maps(one.get("flavors")))
        for number, resource in enumerate(_list_maps(flavor.get("resources")))
    }
    matching = [place for (flavor, resource), place in places.items() if quota in (resource, f"{flavor}.{resource}")]
    if len(matching) == 1:
        return f"{matching[0]}.{field}"
    if matching:
        flavors = list_names(sorted(f"{field}.{flavor}.{resource}" for flavor, resource in places if resource == quota))
        raise PathError(f"{path}: several flavors have {quota}: name one of {flavors}")
    known = list_names(sorted({resource for _, resource in places})) or "none"
    raise PathError(f"{path}: {quota} is none of {known}" if quota else f"{path}: a resource has to follow: {known}")


def _list_maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _set(node: Any, rest: str, value: Any, path: str, part: inspect.Type | None) -> Any:
    """Return a node of a document with the value set at the path below it. New fields are added to maps.

    rest: the path below the node.
    path: the complete path that the user wrote, for errors.
    part: the fields that the node may have; None if that is unknown.

    A new field is refused if a similar field exists, unless the node's kind has the new field. Raises `PathError`.
    """
    if isinstance(node, dict):
        key = _find_step(rest, node)
        if key is None:
            first = _take_new_step(rest)
            below = rest[len(first) + 1 :]
            if not first or (below and first not in name_fields(part) and find_nearest(first, node)):
                raise _refuse_step(rest, node, path, "no field there")
            return node | {first: _set({}, below, value, path, enter_part(part, first)) if below else value}
        below = rest[len(key) + 1 :]
        item = _set(node[key], below, value, path, enter_part(part, key)) if below else _convert_like(node[key], value)
        return node | {key: item}
    if isinstance(node, list | tuple):
        known = _number_items(node)
        names = [one for one in known if not one.isdigit()] or list(known)
        key, below = _take_step(rest, known, path, "no item of the list", shown=names)
        at = known[key]
        item = _set(node[at], below, value, path, enter_part(part, key)) if below else _convert_like(node[at], value)
        return [*node[:at], item, *node[at + 1 :]]
    raise PathError(f"{path}: {rest} leads on from a value that has no fields")


def _take_new_step(rest: str) -> str:
    """Return the first step of a path to fields that do not exist yet.

    The name of a step with a domain, such as `nvidia.com/gpu`, contains dots, unless it follows a field with
    user-defined keys.
    """
    first = rest.partition(".")[0]
    domain, slash, name = rest.partition("/")
    if not slash or not _OPEN_FIELDS.isdisjoint(domain.split(".")):
        return first
    return f"{domain}/{name.partition('.')[0]}"


def _number_items(items: Sequence[Any]) -> dict[str, int]:
    """Return the index of each item of a list, by its index as text, and by its name if it has one."""
    names = {str(item["name"]): at for at, item in enumerate(items) if isinstance(item, dict) and "name" in item}
    return {str(at): at for at in range(len(items))} | names


def _convert_like(before: Any, value: Any) -> Any:
    """Return a new value; as text if it is a number that replaces text, because many quantities are text.

    A number that replaces a time span, such as `1h30m`, stays a number of seconds. The quantity `500m` looks like a
    time span, too.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if isinstance(before, str) and is_number and not _SPAN.fullmatch(before) else value


def _find_step(rest: str, known: Iterable[str]) -> str | None:
    """Return the longest of the known names that a path starts with; None if it starts with none."""
    return max((name for name in known if name and f"{rest}.".startswith(f"{name}.")), key=len, default=None)


def _take_step(
    rest: str, known: Iterable[str], path: str, kind: str, *, shown: Iterable[str] | None = None
) -> tuple[str, str]:
    """Return the first step of a path, and the rest of the path. Raises `PathError` if the step is unknown.

    kind: the kind of the step, for the error.
    shown: the steps that the error suggests; None for `known`.
    """
    names = list(known)
    step = _find_step(rest, names)
    if step is None:
        raise _refuse_step(rest, names if shown is None else shown, path, kind)
    return step, rest[len(step) + 1 :]


def _refuse_step(rest: str, known: Iterable[str], path: str, kind: str) -> PathError:
    first = rest.partition(".")[0]
    return PathError(f"{path}: {first or 'an empty step'} is {kind}{suggest(first, sorted({*known}), ': there is ')}")
