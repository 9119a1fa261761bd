"""Locate errors in the text of a scenario: file, line and field. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml
from msgspec import Struct

from muster.insight.nearest import find_nearest

# The file name in errors about a scenario that is not from a file.
UNFILED = "<scenario>"
# The maximum number of known names in an error.
_LISTED = 12
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class ScenarioError(Exception):
    """A scenario that cannot be simulated. The message names the file, the line and the field."""


class Source(Struct, frozen=True):
    """The text of a scenario, for finding the line of a field.

    lines_above: the number of lines before its document.
    spec: the path of the part that is read as the spec of a scenario, since a worker cluster has nodes of its own.
    variant: where the user wrote the variant, as the start of its errors, because the field may have no line.
    """

    file: str
    text: bytes
    lines_above: int
    spec: str = "spec"
    variant: str = ""

    def error(self, path: str, why: str) -> ScenarioError:
        """Return an error about a field, with its file and line, or with where the user wrote the variant.

        The error for a text without a file has no line.
        """
        path = re.sub("^spec", self.spec, path)
        if self.variant or self.file == UNFILED:
            return ScenarioError(": ".join(filter(None, (self.variant or self.file, path, why))))
        return ScenarioError(f"{self.locate(path)}: {why}")

    def locate(self, path: str) -> str:
        """Return the file, the line and the path of a field, joined for the start of a message."""
        line = find_line(self.text, self.lines_above, path)
        return ": ".join(filter(None, (f"{self.file}:{line}", path)))


def find_line(text: bytes, lines_above: int, path: str) -> int:
    """Return the line, from 1, of a field in a document, or of the nearest field above it that exists.

    lines_above: the number of lines of the text before the document.
    """
    document = b"".join(text.splitlines(keepends=True)[lines_above:])
    node: Any = next(yaml.compose_all(document, yaml.CSafeLoader))
    line = node.start_mark.line
    for name, index in _STEP.findall(path):
        if isinstance(node, yaml.MappingNode):
            step = next(((key, value) for key, value in node.value if key.value == name), None)
            if step is None:
                break
            line, node = step[0].start_mark.line, step[1]
        elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line
        else:
            break
    return lines_above + int(line) + 1


def suggest(word: str, known: Iterable[str], lead: str = ", but ") -> str:
    """Return the end of an error about an unknown name: the name that was probably meant, or all known names.

    known: the known names; if there are none, the result is "".
    lead: the text before all names.
    """
    names = list(known)
    if not names:
        return ""
    nearest = find_nearest(word, names)
    return f": do you mean {nearest}?" if nearest else f"{lead}{list_names(names)}"


def list_names(names: Sequence[str]) -> str:
    """Return names joined by commas; only the first ones if there are many."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
