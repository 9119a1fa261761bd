"""Change the documents of a scenario for one of its variants. Pure: the given documents are not modified.

An overlay is merged: maps are merged by key, `null` removes a field, lists in which all items have names are merged by
name, and any other value replaces the existing one. `$patch: delete` in a named item or a manifest removes it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from msgspec import Struct, structs

from muster.api.values.manifests import Manifest
from muster.simulation.scenario.paths import PathError, begins_with_field, set_field, set_in_manifest

_DIRECTIVE = "$patch"
_DELETE = "delete"
_NAMES = ("apiVersion", "kind")
# The fields that make all variants use the same random draws, and fields that a variant cannot have itself.
_FIXED = ("seed", "variants")


class OverlayError(ValueError):
    """An overlay that does not match the scenario. The message starts with where the user wrote the overlay."""


class Overlay(Struct, frozen=True):
    """The differences of a variant.

    context: where the user wrote it, as the start of error messages.
    spec: merged into the spec of the scenario.
    manifests: merged into the manifests of the same kind and name.
    settings: values by path.
    """

    context: str
    spec: Mapping[str, Any] = {}
    manifests: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = {}


def join_contexts(overlays: Iterable[Overlay]) -> str:
    """Return where the user wrote these overlays, joined by commas; "" if there are none."""
    return ", ".join(one.context for one in overlays)


def vary_scenario(document: Mapping[str, Any], overlays: Iterable[Overlay]) -> dict[str, Any]:
    """Return the document of a scenario with the specs of overlays merged into it.

    Raises `OverlayError` if an overlay sets a field that all variants share.
    """
    varied = dict(document)
    for one in overlays:
        if fixed := next((name for name in _FIXED if name in one.spec), None):
            raise OverlayError(f"{one.context}.spec.{fixed}: is the same for all variants")
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
            where = f"{one.context}.manifests[{number}]"
            _require_identity(patch, where)
            at = next((at for at, each in enumerate(varied) if _identify(each.document) == _identify(patch)), None)
            if patch.get(_DIRECTIVE) == _DELETE:
                if at is None:
                    raise OverlayError(f"{where}: no manifest is a {patch['kind']} {patch['metadata']['name']}")
                del varied[at]
            elif at is None:
                varied.append(Manifest(where, dict(patch)))
            else:
                varied[at] = replace(varied[at], where=where, document=merge(varied[at].document, patch))
    return varied


def set_fields(document: Mapping[str, Any], overlays: Iterable[Overlay]) -> tuple[dict[str, Any], list[Overlay]]:
    """Return a scenario's document after applying overlays' settings of its fields, and the overlays without them.

    The remaining settings apply to manifests. Raises `OverlayError` if a path matches nothing.
    """
    scenario = dict(document)
    remaining = []
    for one in overlays:
        others = {}
        with _name_overlay_in_errors(one):
            for path, value in one.settings.items():
                if begins_with_field(path, scenario):
                    scenario = set_field(scenario, path, value)
                else:
                    others[path] = value
        remaining.append(structs.replace(one, settings=others))
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
        with _name_overlay_in_errors(one):
            for path, value in one.settings.items():
                documents = set_in_manifest([each.document for each in varied], path, value, pools)
                varied = [
                    each if each.document is changed else replace(each, where=one.context, document=changed)
                    for each, changed in zip(varied, documents, strict=True)
                ]
    return varied


@contextmanager
def _name_overlay_in_errors(overlay: Overlay) -> Iterator[None]:
    """Prefix errors about paths with where the user wrote the overlay. Raises `OverlayError`."""
    try:
        yield
    except PathError as error:
        raise OverlayError(f"{overlay.context}: {error}") from None


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
    """Return whether a value is a list in which all items have distinct names."""
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
