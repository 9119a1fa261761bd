"""Change the documents of a scenario for one of its variants. Pure: the given documents are not modified.

An overlay is merged: maps are merged by key, `null` removes a field, lists in which all items have names are merged by
name, and any other value replaces the existing one. `$patch: delete` in a named item or a manifest removes it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from muster.api.values.manifests import Manifest
from muster.simulation.scenario.paths import PathError, begins_with_field, set_field, set_in_manifest
from muster.simulation.scenario.source import Source, take_index, take_key

_DIRECTIVE = "$patch"
_DELETE = "delete"
_NAMES = ("apiVersion", "kind")
# The fields that make all variants use the same random draws, and fields that a variant cannot have itself.
_FIXED = ("seed", "variants")


class OverlayError(ValueError):
    """An overlay that does not match the scenario. The message starts with where the user wrote the overlay."""


class Overlay(Struct, frozen=True):
    """The differences of a variant.

    path: where the user wrote it: the path of the variant in its scenario, or the option of the command.
    spec: merged into the spec of the scenario.
    manifests: merged into the manifests of the same kind and name.
    settings: values by path.
    source: the text of the scenario; None for an option.
    """

    path: str
    spec: Mapping[str, Any] = {}
    manifests: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = {}
    source: Source | None = None

    def locate(self, field: str = "") -> str:
        """Return where the user wrote a part of the overlay, as the start of error messages."""
        return self.path + field if self.source is None else self.source.locate(self.path + field)

    def locate_setting(self, path: str) -> str:
        """Return where the user wrote the value of a path."""
        return self.locate("" if self.source is None else f".set.{path}")


def locate_field(overlays: Sequence[Overlay], document: Mapping[str, Any], path: str) -> str:
    """Return where the user wrote a field of a varied scenario: in an overlay that sets it, or else the overlays.

    document: the document with the overlays merged into it.
    path: the path of the field in the document.
    """
    steps = _list_steps(document, path)
    for one in reversed(overlays):
        if setting := next((name for name in one.settings if _leads_to(name, steps[1:])), None):
            return one.locate_setting(setting)
        if len(steps) > 1 and (own := _find_own(one.spec, steps[1:])) is not None:
            return one.locate(f".spec{own}")
    return ": ".join(filter(None, (", ".join(one.locate() for one in overlays), path)))


def _list_steps(document: Any, path: str) -> list[AbstractSet[str]]:
    """Return the steps of a path through a document. Each step has the names of a part: an item has a number, too."""
    steps: list[AbstractSet[str]] = []
    node = document
    while path:
        index, path = take_index(path)
        if index is None:
            key, path = take_key(path, node if isinstance(node, dict) else ())
            if not key:  # any value of a map, as in `queues[...]`
                break
            steps.append({key})
            node = node.get(key) if isinstance(node, dict) else None
        else:
            node = node[index] if isinstance(node, list | tuple) and index < len(node) else None
            steps.append({str(index), str(node.get("name"))} if isinstance(node, dict) else {str(index)})
    return steps


def _leads_to(setting: str, steps: Iterable[AbstractSet[str]]) -> bool:
    """Return whether the path of a setting leads to a part, or to another part that contains it."""
    rest = setting
    for names in steps:
        if not rest:
            return True
        name = next((name for name in names if f"{rest}.".startswith(f"{name}.")), None)
        if name is None:
            return False
        rest = rest[len(name) + 1 :]
    return not rest


def _find_own(spec: Any, steps: Iterable[AbstractSet[str]]) -> str | None:
    """Return the path of a part in the spec of an overlay; None if the overlay does not have it."""
    path, node = "", spec
    for names in steps:
        if isinstance(node, Mapping):
            key = next((key for key in node if key in names), None)
            if key is None:
                return None
            path, node = f"{path}.{key}", node[key]
        elif isinstance(node, list | tuple):
            items = enumerate(node)
            at = next((at for at, item in items if (item["name"] if _are_named(node) else str(at)) in names), None)
            if at is None:
                return None
            path, node = f"{path}[{at}]", node[at]
        else:
            return None
    return path


def vary_scenario(document: Mapping[str, Any], overlays: Iterable[Overlay]) -> dict[str, Any]:
    """Return the document of a scenario with the specs of overlays merged into it, and without its variants.

    Raises `OverlayError` if an overlay sets a field that all variants share.
    """
    varied = dict(document)
    spec = varied.get("spec")
    if isinstance(spec, dict):  # of thousands of variants, each would read all others
        varied["spec"] = {name: value for name, value in spec.items() if name != "variants"}
    for one in overlays:
        if fixed := next((name for name in _FIXED if name in one.spec), None):
            raise OverlayError(f"{one.locate(f'.spec.{fixed}')}: is the same for all variants")
        if one.spec:
            varied["spec"] = merge(varied.get("spec"), one.spec)
    return varied


def vary_manifests(manifests: Iterable[Manifest], overlays: Iterable[Overlay]) -> list[Manifest]:
    """Return the manifests after merging the manifests of overlays: changed, added or deleted.

    Raises `OverlayError` if a manifest of an overlay does not identify an object, or deletes one that does not exist.
    """
    varied = list(manifests)
    for one in overlays:
        for number, patch in enumerate(one.manifests):
            where = one.locate(f".manifests[{number}]")
            _require_identity(patch, where)
            at = next((at for at, each in enumerate(varied) if _identify(each.document) == _identify(patch)), None)
            if patch.get(_DIRECTIVE) == _DELETE:
                if at is None:
                    raise OverlayError(f"{where}: no manifest is a {patch['kind']} {patch['metadata']['name']}")
                del varied[at]
            elif at is None:
                varied.append(Manifest(where, dict(patch)))
            else:
                varied[at] = Manifest(where, merge(varied[at].document, patch))
    return varied


def set_fields(document: Mapping[str, Any], overlays: Iterable[Overlay]) -> tuple[dict[str, Any], list[Overlay]]:
    """Return a scenario's document after applying overlays' settings of its fields, and the overlays without them.

    The remaining settings apply to manifests. Raises `OverlayError` if a path matches nothing.
    """
    scenario = dict(document)
    remaining = []
    for one in overlays:
        others = {}
        for path, value in one.settings.items():
            with _name_overlay_in_errors(one, path):
                if begins_with_field(path, scenario):
                    scenario = set_field(scenario, path, value)
                else:
                    others[path] = value
        remaining.append(replace(one, settings=others))
    return scenario, remaining


def set_in_manifests(
    manifests: Iterable[Manifest], overlays: Iterable[Overlay], pools: Collection[str]
) -> list[Manifest]:
    """Return the manifests after applying the settings of overlays. Unchanged manifests are the same objects.

    pools: the names that a path may use for pools of nodes, for the error.

    Raises `OverlayError` if a path matches nothing.
    """
    varied = list(manifests)
    for one in overlays:
        for path, value in one.settings.items():
            with _name_overlay_in_errors(one, path):
                documents = set_in_manifest([each.document for each in varied], path, value, pools)
            varied = [
                each if each.document is changed else Manifest(one.locate_setting(path), changed)
                for each, changed in zip(varied, documents, strict=True)
            ]
    return varied


@contextmanager
def _name_overlay_in_errors(overlay: Overlay, path: str) -> Iterator[None]:
    """Prefix errors about a path with where the user wrote the path. Raises `OverlayError`."""
    try:
        yield
    except PathError as error:
        where = overlay.locate_setting(path)
        why = str(error).removeprefix(f"{path}: ") if where.endswith(path) else str(error)
        raise OverlayError(f"{where}: {why}") from None


def merge(value: Any, patch: Any) -> Any:
    """Return a value with a patch merged into it: maps by key, and lists of named items by name.

    A null, or an item with `$patch: delete`, deletes. Any other patch replaces the value.
    """
    if isinstance(value, dict) and isinstance(patch, Mapping):
        merged = dict(value)
        for key, change in patch.items():
            if change is None:
                merged.pop(key, None)
            elif key != _DIRECTIVE:
                merged[key] = merge(value.get(key), change)
        return merged
    if _are_named(value) and _are_named(patch):
        items = {item["name"]: item for item in value}
        for change in patch:
            if change.get(_DIRECTIVE) == _DELETE:
                items.pop(change["name"], None)
            else:
                items[change["name"]] = merge(items.get(change["name"]), change)
        return list(items.values())
    return patch


def _are_named(value: Any) -> bool:
    """Return whether a value is a list of at least one item in which all items have distinct names."""
    if not isinstance(value, list | tuple) or not value:
        return False
    names = [item.get("name") if isinstance(item, dict) else None for item in value]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _require_identity(patch: Mapping[str, Any], where: str) -> None:
    metadata = patch.get("metadata")
    if not all(isinstance(patch.get(field), str) for field in _NAMES):
        raise OverlayError(f"{where}: apiVersion and kind are needed")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise OverlayError(f"{where}: metadata.name is needed")


def _identify(document: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return the group, kind, namespace and name of a manifest, which together identify its object."""
    group = document["apiVersion"].rpartition("/")[0]
    metadata = document["metadata"]
    return group, document["kind"], metadata.get("namespace") or "default", metadata.get("name") or ""
