"""Locate errors in the text of a scenario: file, line and field. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from muster.insight.nearest import find_nearest

# The file name in errors about a scenario that is not from a file.
UNFILED = "<scenario>"
# The maximum number of known names in an error.
_LISTED = 12
_INDEX = re.compile(r"\[(\d+)\]\.?")


class ScenarioError(Exception):
    """A scenario that cannot be simulated. The message names the file, the line and the field."""


class Source(Struct, frozen=True):
    """The text of a scenario, for finding the line of a field.

    lines_above: the number of lines before its document.
    folder: the folder to which the file names in the scenario are relative.
    spec: the path of the part that is read as the spec of a scenario, since a worker cluster has nodes of its own.
    locate_varied: returns where the user wrote a field of a variant; None if this is no variant.
    """

    file: str
    text: bytes
    lines_above: int
    folder: Path = Path()
    spec: str = "spec"
    locate_varied: Callable[[str], str] | None = None

    def error(self, path: str, why: str) -> ScenarioError:
        """Return an error about a field, with the file and line where the user wrote it."""
        path = re.sub("^spec", self.spec, path)
        return ScenarioError(f"{(self.locate_varied or self.locate)(path)}: {why}")

    def locate(self, path: str) -> str:
        """Return the file, the line and the path of a field, joined for the start of a message.

        A text without a file has no lines.
        """
        line = "" if self.file == UNFILED else f":{find_line(self.text, self.lines_above, path)}"
        return ": ".join(filter(None, (self.file + line, path)))


def find_line(text: bytes, lines_above: int, path: str) -> int:
    """Return the line, from 1, of a field in a document, or of the nearest field above it that exists.

    lines_above: the number of lines of the text before the document.
    """
    node = _compose(text, lines_above)
    line = node.start_mark.line
    while path:
        if isinstance(node, yaml.MappingNode):
            fields = {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}
            key, path = take_key(path, fields)
            if key not in fields:
                break
            line, node = fields[key][0].start_mark.line, fields[key][1]
            continue
        index, path = take_index(path)
        if not isinstance(node, yaml.SequenceNode) or index is None or index >= len(node.value):
            break
        node = node.value[index]
        line = node.start_mark.line
    return lines_above + int(line) + 1


@lru_cache(maxsize=1)  # thousands of variants are in one document
def _compose(text: bytes, lines_above: int) -> Any:
    document = b"".join(text.splitlines(keepends=True)[lines_above:])
    return next(yaml.compose_all(document, yaml.CSafeLoader))


def take_key(path: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the key with which a path starts, and the rest of the path.

    The key is the longest known one, because keys such as `nvidia.com/gpu` have dots; else it ends at a dot or bracket.
    """
    matching = (
        key for key in known if key and path.startswith(key) and path[len(key) : len(key) + 1] in ("", ".", "[")
    )
    key = max(matching, key=len, default=None) or re.split(r"[.\[]", path, maxsplit=1)[0]
    return key, path[len(key) :].removeprefix(".")


def take_index(path: str) -> tuple[int | None, str]:
    """Return the index of a list with which a path starts, such as `[2]`, and the rest; None if it is no index."""
    found = _INDEX.match(path)
    return (None, path) if found is None else (int(found[1]), path[found.end() :])


def suggest(word: str, known: Iterable[str], lead: str = ", but ") -> str:
    """Return the end of an error about an unknown name: the name that was probably meant, or all known names.

    known: the known names; if there are none, the result is "".
    lead: the text before all names.
    """
    names = list(dict.fromkeys(known))
    if not names:
        return ""
    nearest = find_nearest(word, names)
    return f": do you mean {nearest}?" if nearest else f"{lead}{list_names(names)}"


def list_names(names: Sequence[str]) -> str:
    """Return names joined by commas; only the first ones if there are many."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
