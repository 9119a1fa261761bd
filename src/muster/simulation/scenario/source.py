"""Name the file, line and field of an error in the text of a scenario. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml
from msgspec import Struct

from muster.insight.nearest import find_nearest

# What stands for the file of a scenario that comes from no file.
UNFILED = "<scenario>"
# How many known names an error lists.
_LISTED = 12
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class ScenarioError(Exception):
    """The error of a scenario that cannot be simulated; the message names the file, the line and the field."""


class Source(Struct, frozen=True):
    """The text of a scenario, to find the line of a field.

    lines_above: how many lines come before its document. spec: the path of the part that is read as the body of a
    scenario: a worker cluster has nodes of its own. variant: where the user wrote what is different in this variant,
    with which its errors begin, because the field may have no line.
    """

    file: str
    text: bytes
    lines_above: int
    spec: str = "spec"
    variant: str = ""

    def error(self, path: str, why: str) -> ScenarioError:
        """Return an error about a field that names its file and line; in a variant, where the user wrote that.

        A text without a file has no line either.
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
    """Return the line, from 1, of a field of a document; of the nearest field above it that the document has.

    lines_above: how many lines of the text come before the document.
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
    """Return how an error about an unknown name ends: with the name that the user may have meant, or with all of them.

    known: the names that there are; without any, the error ends with nothing. lead: what comes before all of them.
    """
    names = list(known)
    if not names:
        return ""
    nearest = find_nearest(word, names)
    return f": do you mean {nearest}?" if nearest else f"{lead}{list_names(names)}"


def list_names(names: Sequence[str]) -> str:
    """Return names joined by commas: the first ones of many."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
