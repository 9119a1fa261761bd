"""Decide for `muster apply` what to send concurrently, and which patch turns an object into its manifest. Pure."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from muster.api.values.manifests import Manifest

# kubectl's own annotation, so that kubectl and Muster can alternately apply the same manifest.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


# The kinds whose objects do not depend on each other: (apiVersion, kind).
_INDEPENDENT = frozenset({("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet")})


def split_independent(manifests: Iterable[Manifest]) -> Iterator[list[Manifest]]:
    """Yield the manifests in order, in groups whose members can be applied at the same time.

    Consecutive jobs form a group, unless two of them name the same object. Any other manifest is a group of its own,
    because later manifests may need it: a namespace, a queue, a CRD.
    """
    group: list[Manifest] = []
    names: set[tuple[object, ...]] = set()
    for one in manifests:
        document, metadata = one.document, one.document["metadata"]
        kind = document["apiVersion"], document["kind"]
        name = (*kind, metadata.get("namespace"), metadata["name"]) if metadata.get("name") else (len(group),)
        if group and (kind not in _INDEPENDENT or name in names):
            yield group
            group, names = [], set()
        group.append(one)
        names.add(name)
        if kind not in _INDEPENDENT:
            yield group
            group, names = [], set()
    if group:
        yield group


def annotate_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest with a copy of itself in an annotation.

    The next apply reads that copy to find the fields that were removed from the manifest.
    """
    metadata = manifest["metadata"]
    own = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    plain = manifest | {"metadata": metadata | ({"annotations": own} if own else {})}
    text = json.dumps(plain, separators=(",", ":"), sort_keys=True) + "\n"
    return manifest | {"metadata": metadata | {"annotations": own | {LAST_APPLIED: text}}}


def make_apply_patch(current: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch that turns the current object into its manifest.

    The patch removes fields that the last applied manifest had and this one does not have. Fields that other clients
    set stay.
    """
    text = (current.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(text) if text else {}
    except ValueError:  # the text of another program does not show which fields to remove
        last = {}
    patch: dict[str, Any] = _make_patch(last if isinstance(last, dict) else {}, current, annotate_manifest(manifest))
    for identity in ("apiVersion", "kind", "status"):
        patch.pop(identity, None)
    return patch


def _make_patch(last: dict[str, Any], current: dict[str, Any], desired: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in last if key not in desired and key in current}
    for key, value in desired.items():
        there = current.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            before = last.get(key)
            inner = _make_patch(before if isinstance(before, dict) else {}, there, value)
            if inner:
                patch[key] = inner
        elif value != there and not (value == last.get(key) and _matches(there, value)):
            patch[key] = value
    return patch


def _matches(there: Any, desired: Any) -> bool:
    """Return whether a live value contains all of the desired value.

    An element of a list may have more fields than the desired one, because the server adds fields.
    """
    if isinstance(desired, dict) and isinstance(there, dict):
        return all(key in there and _matches(there[key], value) for key, value in desired.items())
    if isinstance(desired, list) and isinstance(there, list) and any(isinstance(item, dict) for item in desired):
        return len(desired) == len(there) and all(map(_matches, there, desired))
    return bool(desired == there)
