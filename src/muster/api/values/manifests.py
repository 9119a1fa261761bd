"""Read manifests from a text in YAML or JSON: each document is an object, or an error that names the place. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from muster.api.values.yaml_decode import decode


class ManifestError(ValueError):
    """A manifest that cannot be read; the message names the file and the problem."""


# The fields that identify an object.
_NAMES = ("name", "generateName")
_IDENTITY = (*_NAMES, "namespace")


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object from a file, and its place there.

    lines_above: the number of lines of the file before the document.
    file: the file's name; "" if lines are unknown.
    """

    where: str
    document: dict[str, Any]
    lines_above: int = 0
    file: str = ""

    @property
    def title(self) -> str:
        """The kind and name of the object, and the file."""
        return f"{self.where}: {self._name_object()}"

    @property
    def title_with_line(self) -> str:
        """The kind and name of the object, and the file with the line where the document begins."""
        return f"{self.file}:{self.lines_above + 1}: {self._name_object()}" if self.file else self.title

    def _name_object(self) -> str:
        metadata = self.document["metadata"]
        return f"{self.document['kind']} {metadata.get('name') or metadata['generateName']}"


def parse_manifests(data: bytes, source: str) -> list[Manifest | ManifestError]:
    """Return the objects in a YAML or JSON text, with Lists unpacked; an error takes the place of each invalid one."""
    try:
        documents = list(_parse_documents(data.decode("utf-8-sig"), source))
    except UnicodeDecodeError:
        return [ManifestError(f"{source}: is not text in UTF-8")]
    return documents or [ManifestError(f"{source}: holds no object")]


def _parse_documents(text: str, source: str) -> Iterator[Manifest | ManifestError]:
    # Each line that starts with three dashes starts a document.
    parts, lines = re.split(r"^(?=---(?:\s|$))", text, flags=re.MULTILINE), 0
    if len(parts) > 1 and all(line.lstrip()[:1] in ("", "#") for line in parts[0].splitlines()):
        lines = parts.pop(0).count("\n")  # the text before the first document is empty or a licence
    for number, part in enumerate(parts, 1):
        where = f"{source}, document {number}" if len(parts) > 1 else source
        above, lines = lines, lines + part.count("\n")
        try:
            document, repeated = decode(part.encode())
        except ValueError as error:
            yield ManifestError(f"{where}: {_shift_lines(str(error), above)}")
            continue
        if repeated:
            line = above + repeated[0].line
            yield ManifestError(f"{where}: {repeated[0].path} is given more than once, at line {line}")
        elif document is not None:
            yield from _unpack_objects(document, where, above, source)


def _shift_lines(error: str, above: int) -> str:
    """Return the error message with line numbers of the file. above: how many lines are above the document."""
    return re.sub(r"\bat line (\d+), column ", lambda line: f"at line {int(line[1]) + above}, column ", error)


def _unpack_objects(document: Any, where: str, above: int, file: str) -> Iterator[Manifest | ManifestError]:
    if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _unpack_objects(item, where, above, file)
    elif problem := _find_problem(document):
        yield ManifestError(f"{where}: {problem}")
    else:
        yield Manifest(where, document, above, file)


def _find_problem(document: Any) -> str:
    """Return why a document is no manifest of an object, such as a missing kind; "" if it is one."""
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
    # Muster adds an annotation; the server checks everything else.
    return (
        "" if isinstance(metadata.get("annotations"), dict | None) else "metadata.annotations must be a map of strings"
    )
