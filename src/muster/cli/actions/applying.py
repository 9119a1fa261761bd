"""What `muster apply` sends: manifests as documents, and the change that makes an object as its manifest says. Pure."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from muster.api.values.yaml_decode import decode

# kubectl's own annotation: both can apply the same manifests in turn.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ManifestError(ValueError):
    """A manifest cannot be read: which file, and what is wrong."""


# What an object is looked for by.
_NAMES = ("name", "generateName")
_IDENTITY = (*_NAMES, "namespace")


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as it is written, and where."""

    where: str
    document: dict[str, Any]

    @property
    def title(self) -> str:
        """Which object of which file it is."""
        metadata = self.document["metadata"]
        return f"{self.where}: {self.document['kind']} {metadata.get('name') or metadata['generateName']}"


def manifests(data: bytes, source: str) -> list[Manifest | ManifestError]:
    """The objects in a YAML or JSON text, with Lists taken apart; in the place of what is none, why not."""
    try:
        found = list(_documents(data.decode("utf-8-sig"), source))
    except UnicodeDecodeError:
        return [ManifestError(f"{source}: is not text in UTF-8")]
    return found or [ManifestError(f"{source}: holds no object")]


def _documents(text: str, source: str) -> Iterator[Manifest | ManifestError]:
    # A line that begins with three dashes begins a document, wherever it stands.
    parts, lines = re.split(r"^(?=---(?:\s|$))", text, flags=re.MULTILINE), 0
    for number, part in enumerate(parts, 1):
        where = f"{source}, document {number}" if len(parts) > 1 else source
        above, lines = lines, lines + part.count("\n")
        try:
            document, repeated = decode(part.encode())
        except ValueError as error:
            yield ManifestError(f"{where}: {_of_file(str(error), above)}")
            continue
        if repeated:
            yield ManifestError(f"{where}: {repeated[0].path} is given more than once")
        elif document is not None:
            yield from _objects(document, where)


def _of_file(error: str, above: int) -> str:
    """What is wrong with a document below so many lines: its lines are those of the file."""
    return re.sub(r"\bat line (\d+), column ", lambda line: f"at line {int(line[1]) + above}, column ", error)


def _objects(document: Any, where: str) -> Iterator[Manifest | ManifestError]:
    if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _objects(item, where)
    elif problem := _problem(document):
        yield ManifestError(f"{where}: {problem}")
    else:
        yield Manifest(where, document)


def _problem(document: Any) -> str:
    """Why a document is no object; "" if it is one."""
    if not isinstance(document, dict):
        return "expected an object with apiVersion and kind"
    metadata = document.get("metadata")
    if not isinstance(document.get("apiVersion"), str) or not isinstance(document.get("kind"), str):
        return "apiVersion and kind must be given"
    if not isinstance(metadata, dict) or all(metadata.get(name) in (None, "") for name in _NAMES):
        return "metadata.name must be given"
    for name in _IDENTITY:
        if not isinstance(metadata.get(name), str | None):
            return f"metadata.{name} must be a string: what looks like a number or a truth value wants quotes"
    # One is added to these; all else is the server's to refuse.
    return (
        "" if isinstance(metadata.get("annotations"), dict | None) else "metadata.annotations must be a map of strings"
    )


def annotated(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with itself recorded in the annotation, so that the next apply knows what to take away."""
    metadata = manifest["metadata"]
    own = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    plain = manifest | {"metadata": metadata | ({"annotations": own} if own else {})}
    text = json.dumps(plain, separators=(",", ":"), sort_keys=True) + "\n"
    return manifest | {"metadata": metadata | {"annotations": own | {LAST_APPLIED: text}}}


def change(current: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from the object that there is to the manifest.

    What the last manifest said and this one no longer says is removed; what others set is left alone.
    """
    text = (current.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(text) if text else {}
    except ValueError:  # another program's text: then nothing is known to be ours to remove
        last = {}
    patch: dict[str, Any] = _patch(last if isinstance(last, dict) else {}, current, annotated(manifest))
    for identity in ("apiVersion", "kind", "status"):
        patch.pop(identity, None)
    return patch


def _patch(last: dict[str, Any], current: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in last if key not in wanted and key in current}
    for key, value in wanted.items():
        there = current.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            before = last.get(key)
            inner = _patch(before if isinstance(before, dict) else {}, there, value)
            if inner:
                patch[key] = inner
        elif value != there and not (value == last.get(key) and _says(there, value)):
            patch[key] = value
    return patch


def _says(there: Any, wanted: Any) -> bool:
    """Whether what there is says all that is wanted, perhaps with what the server added inside of a list."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        return all(key in there and _says(there[key], value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(there, list) and any(isinstance(item, dict) for item in wanted):
        return len(wanted) == len(there) and all(map(_says, there, wanted))
    return bool(wanted == there)
