"""Set a value of a scenario or of its manifests by its path, such as `clusterQueues.team-a.nominalQuota.cpu`. Pure.

The first step is a field of the scenario's spec, or the plural of a kind of manifests; then the name of one of them
follows, such as `main`, or `team-a/main` if several namespaces have one. Further steps are fields, the names of items
of a list, or their numbers. A step may have dots in its name, as `nvidia.com/gpu` has: of the names that are there, the
longest that fits is meant.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.insight.nearest import find_nearest
from muster.simulation.scenario.model import Spec

# What a quota says of a resource: the path names the resource alone, or its flavor before it.
_QUOTAS = ("nominalQuota", "borrowingLimit", "lendingLimit")
# What a path cannot set: all variants share it, or it has been read before.
_FIXED = ("seed", "variants", "manifests")
_FIELDS = tuple(sorted({*Spec.__struct_encode_fields__} - {*_FIXED}))
# How many known names an error lists.
_LISTED = 12


class PathError(ValueError):
    """The error of a path that leads to no field; the text says which step is unknown, and what is known."""


def begins_with_field(path: str) -> bool:
    """Return whether a path leads into the scenario itself, and not into one of its manifests."""
    return _find_step(path, _FIELDS) is not None


def set_field(scenario: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a scenario's document with one value set, whose path begins with a field.

    Raises `PathError` if the path leads nowhere.
    """
    spec = scenario.get("spec")
    return scenario | {"spec": _set(spec if isinstance(spec, dict) else {}, path, value, path)}


def set_in_manifest(manifests: Sequence[dict[str, Any]], path: str, value: Any) -> list[dict[str, Any]]:
    """Return manifests with one value set in one of them; the others are the same objects.

    Raises `PathError` if the path leads nowhere.
    """
    documents = list(manifests)
    plurals = sorted({_pluralize(one["kind"]) for one in documents})
    # Fields are named for the suggestion alone: `set_field` takes paths that begin with one.
    root, rest = _take_step(path, (*_FIELDS, *plurals), path, "neither a field of the scenario nor a kind of manifests")
    at, rest = _take_manifest(documents, root, rest, path)
    documents[at] = _set_field(documents[at], rest, value, path)
    return documents


def _take_manifest(documents: Sequence[dict[str, Any]], plural: str, rest: str, path: str) -> tuple[int, str]:
    """Return the number of the manifest that a path names after the plural of its kind, and the path in the manifest.

    Raises `PathError` if no manifest has the name, or several of different namespaces have it.
    """
    places: dict[str, list[int]] = {}
    shown: list[str] = []
    for at, one in enumerate(documents):
        if _pluralize(one["kind"]) == plural:
            full, name = _name_manifest(one)
            shown += [full, name] if one["metadata"].get("namespace") else [name]
            places.setdefault(full, []).append(at)
            places.setdefault(name, []).append(at)
    name, rest = _take_step(rest, places, path, f"the name of none of {plural}", shown=shown)
    if len(places[name]) > 1:
        names = _list(_name_manifest(documents[at])[0] for at in places[name])
        raise PathError(f"{path}: several of {plural} are called {name}: name one of {names}")
    if not rest:
        raise PathError(f"{path}: the field of {name} is missing")
    return places[name][0], rest


def _pluralize(kind: str) -> str:
    """Return the plural of a kind as paths spell it: `clusterQueues`, `topologies`."""
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
    """Return a manifest with a field set. Fields of its spec may be named without `spec`, and quotas in short.

    rest: the path in the manifest. path: all that the user wrote, for errors. Raises `PathError`.
    """
    spec = document.get("spec")
    if not isinstance(spec, dict) or rest.partition(".")[0] in document:
        return _set(document, rest, value, path)
    field, _, resource = rest.partition(".")
    if field in _QUOTAS and field not in spec:
        rest = _find_quota(spec, field, resource, path)
    elif resource and "resourceGroups" in spec and _find_step(rest, spec) is None:
        raise _refuse_step(rest, (*spec, *_QUOTAS), path, "no field there")
    return document | {"spec": _set(spec, rest, value, path)}


def _find_quota(spec: Mapping[str, Any], field: str, quota: str, path: str) -> str:
    """Return the path, inside a ClusterQueue's or Cohort's spec, of the quota that a short path names.

    For `nominalQuota.cpu`, an example is `resourceGroups.0.flavors.0.resources.0.nominalQuota`.

    field: the field of the quota, such as `nominalQuota`.
    quota: the resource, or `FLAVOR.RESOURCE` to choose between several flavors that have the resource.
    path: what the user wrote, for errors.

    Raises:
        PathError: no flavor has the resource, or several have it.
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
        flavors = _list(f"{field}.{flavor}.{resource}" for flavor, resource in places if resource == quota)
        raise PathError(f"{path}: several flavors have {quota}: name one of {flavors}")
    known = _list({resource for _, resource in places})
    raise PathError(f"{path}: {quota} is none of {known}" if quota else f"{path}: a resource has to follow: {known}")


def _list_maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _set(node: Any, rest: str, value: Any, path: str) -> Any:
    """Return a node with the value at the path below it. Only the last step may be new, and only in a map.

    rest: the path below the node. path: all that the user wrote, for errors. Raises `PathError`.
    """
    if isinstance(node, dict):
        key = _find_step(rest, node)
        if key is None:
            if not rest or "." in rest:
                raise _refuse_step(rest, node, path, "no field there")
            return node | {rest: value}
        below = rest[len(key) + 1 :]
        return node | {key: _set(node[key], below, value, path) if below else _convert_like(node[key], value)}
    if isinstance(node, list | tuple):
        names = {}
        for at, item in enumerate(node):
            name = item.get("name") if isinstance(item, dict) else None
            names[name if isinstance(name, str) else str(at)] = at
        known = {str(at): at for at in range(len(node))} | names
        key, below = _take_step(rest, known, path, "no item of the list", shown=names)
        at = known[key]
        item = _set(node[at], below, value, path) if below else _convert_like(node[at], value)
        return [*node[:at], item, *node[at + 1 :]]
    raise PathError(f"{path}: {rest} leads on from a value that has no fields")


def _convert_like(before: Any, value: Any) -> Any:
    """Return a number as text if the value before it is text, as quantities often are; any other value as it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if isinstance(before, str) and is_number else value


def _find_step(rest: str, known: Iterable[str]) -> str | None:
    """Return the longest of the known names with which a path begins; None if it begins with none."""
    return max((name for name in known if name and f"{rest}.".startswith(f"{name}.")), key=len, default=None)


def _take_step(
    rest: str, known: Iterable[str], path: str, what: str, *, shown: Iterable[str] | None = None
) -> tuple[str, str]:
    """Return the first step of a path, and the rest of the path. Raises `PathError` if the step is unknown.

    what: what kind of step it is, for the error. shown: the steps that the error suggests; by default, `known`.
    """
    names = list(known)
    step = _find_step(rest, names)
    if step is None:
        raise _refuse_step(rest, names if shown is None else shown, path, what)
    return step, rest[len(step) + 1 :]


def _refuse_step(rest: str, known: Iterable[str], path: str, what: str) -> PathError:
    names, first = list(known), rest.partition(".")[0]
    nearest = find_nearest(first, names)
    hint = f"do you mean {nearest}?" if nearest else f"there is {_list(names)}"
    return PathError(f"{path}: {first or 'an empty step'} is {what}: {hint}")


def _list(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return (", ".join(listed[:_LISTED]) or "none") + more
