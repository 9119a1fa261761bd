"""Decode untrusted YAML to the JSON document that it means.

JSON is decoded as JSON, because YAML reads some texts differently (`1e5`, escapes of characters above U+FFFF).
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import yaml
from yaml.constructor import SafeConstructor
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

# Deeper than any real manifest (a Pod has some 12 levels, a CRD with nested schemas some 60).
MAX_DEPTH = 200

_TOO_DEEP = f"yaml: it nests deeper than {MAX_DEPTH} levels"

MAX_VALUES = 500_000  # the most values after the expansion of aliases; 3 MiB without aliases have about as many

# The most characters that aliases may add. Memory has a text once however often aliases repeat it, until it is written.
MAX_ALIASED = 3 * 1024 * 1024

MAX_DIGITS = 100

# The name that PyYAML gives a text without a name.
_UNNAMED = 'in "<byte string>", '

_TAG = "tag:yaml.org,2002:"
_SHORT = 64  # characters of a scalar whose kind is remembered
_END = object()
_resolver, _constructor = Resolver(), SafeConstructor()


class Repeated(NamedTuple):
    """A key that occurs more than once: its path, the key, and the line (from 1) of the repetition."""

    path: str
    key: str
    line: int


def decode(text: bytes) -> tuple[Any, tuple[Repeated, ...]]:
    """Decode the only document of a text. Return its value, which is None without a document, and the repeated keys.

    Raises:
        ValueError: the text is no valid document, or has several documents.
    """
    # A text that is no JSON may be YAML. The YAML decoder also reports the error and its position.
    with suppress(ValueError, msgspec.DecodeError, RecursionError):
        return _decode_json(text), ()
    try:
        # The parser's own iterator: `yaml.parse` is a generator around it, which costs as much again.
        events: Iterator[Event] = iter(yaml.CSafeLoader(text).get_event, None)
        if not any(isinstance(event, DocumentStartEvent) for event in events):  # stops at the first document
            return None, ()
        reader = _Reader(events)
        value = reader.value(next(events), "", 0)
        if any(isinstance(event, DocumentStartEvent) for event in events):
            raise ValueError("yaml: more than one document")
        return value, tuple(reader.duplicates)
    except yaml.YAMLError as error:
        if is_nesting_error(error):
            raise ValueError(_TOO_DEEP) from None
        said = " ".join(str(error).split())
        raise ValueError(f"yaml: {said.replace(_UNNAMED, 'at ')}") from None


def is_nesting_error(error: yaml.YAMLError) -> bool:
    """Return whether PyYAML refused a text because of its nesting.

    PyYAML 6.0.4 and later refuse 1,000 levels, up to 1,024 characters ahead of the current event.
    """
    return isinstance(error, yaml.MarkedYAMLError) and error.problem == "exceeded maximum nesting depth"


def _decode_json(text: bytes) -> Any:
    """Return the object or list in a JSON text. Raises if the text has neither or breaks a rule of YAML."""
    if text.lstrip()[:1] not in (b"{", b"["):
        raise ValueError("a text without a bracket is left to YAML")
    value = msgspec.json.decode(text)
    json.loads(text, object_pairs_hook=_require_unique_members, parse_int=_refuse_number, parse_float=_refuse_number)
    if not _is_shallow(value, MAX_DEPTH):
        raise ValueError("it nests too deep")
    return value


def _require_unique_members(members: list[tuple[str, Any]]) -> None:
    if len(dict(members)) < len(members):
        raise ValueError("a key is given more than once")


def _refuse_number(text: str) -> None:
    if len(text) > MAX_DIGITS:
        raise ValueError("a number is too long")


def _is_shallow(value: Any, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_shallow(one, depth - 1) for one in inner)


class _Reader:
    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        # The value, the number of values in it, and the number of its characters.
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._count = 0
        self._length = 0
        self._aliased = 0
        self.duplicates: list[Repeated] = []

    def value(self, event: Event, path: str, depth: int) -> Any:
        """Return the value that begins with an event; `_END` for the end of a list or mapping."""
        before, length = self._count, self._length
        self._add(1)
        match event:
            case ScalarEvent():
                self._length += len(event.value)
                value = _read_scalar(event, path)
            case AliasEvent(anchor=anchor):
                if anchor not in self._anchors:
                    raise ValueError(f"yaml: unknown anchor {anchor!r}")
                value, count, characters = self._anchors[anchor]
                self._add(count, characters)
                self._aliased += characters
                if self._aliased > MAX_ALIASED:
                    raise ValueError(f"yaml: its aliases add more than {MAX_ALIASED} characters")
                return value
            case SequenceStartEvent() | MappingStartEvent():
                if depth >= MAX_DEPTH:
                    raise ValueError(_TOO_DEEP)
                mapping = isinstance(event, MappingStartEvent)
                value = self._read_mapping(path, depth + 1) if mapping else self._read_sequence(path, depth + 1)
            case SequenceEndEvent() | MappingEndEvent():
                return _END
            case _:
                raise ValueError("yaml: unexpected end")
        if event.anchor:
            self._anchors[event.anchor] = value, self._count - before, self._length - length
        return value

    def _read_sequence(self, path: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while (item := self.value(next(self._events), f"{path}[{len(items)}]", depth)) is not _END:
            items.append(item)
        return items

    def _read_mapping(self, path: str, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            if not isinstance(event, ScalarEvent):
                raise ValueError(  # noqa: TRY004  (it is the text that is wrong)
                    f"yaml: a key of {path or 'the document'} is no string"
                )
            self._add(1, len(event.value))
            inside = f"{path}.{event.value}" if path else event.value
            if event.value in members:
                line = event.start_mark.line + 1 if event.start_mark else 0
                self.duplicates.append(Repeated(inside, event.value, line))
            members[event.value] = self.value(next(self._events), inside, depth)
        return members

    def _add(self, count: int, characters: int = 0) -> None:
        self._count += count
        self._length += characters
        if self._count > MAX_VALUES:
            raise ValueError(f"yaml: with its aliases it holds more than {MAX_VALUES} values")


def _read_scalar(event: ScalarEvent, path: str) -> Any:
    """Return the value of a scalar. Raises `ValueError`."""
    text: str = event.value
    if event.tag in ("!", f"{_TAG}str"):
        return text
    if event.tag:
        raise _refuse(event, path, f"the tag {event.tag} has no meaning here")
    if not event.implicit[0]:  # a quoted scalar
        return text
    kind = _find_kind(text) if len(text) <= _SHORT else _resolve_kind(text)
    if kind == "str":
        return text
    if kind in ("int", "float") and len(text) > MAX_DIGITS:
        raise _refuse(event, path, f"a number has more than {MAX_DIGITS} digits")
    node = ScalarNode(f"{_TAG}{kind}", text)
    match kind:
        case "null":
            return None
        case "bool":
            return _constructor.construct_yaml_bool(node)
        case "int":
            return _constructor.construct_yaml_int(node)
        case "float":
            number = _constructor.construct_yaml_float(node)
            if not isfinite(number):
                raise _refuse(event, path, f"{text} is no JSON number")
            return number
        case _:
            return text


def _resolve_kind(text: str) -> str:
    """Return the kind of a plain scalar, such as "int", by the rules of YAML 1.1 without base-60 numbers.

    To go-yaml, and so to kubectl, `12:30` is a text.
    """
    kind = str(_resolver.resolve(ScalarNode, text, (True, False))).removeprefix(_TAG)  # type: ignore[no-untyped-call]
    return "str" if ":" in text and kind in ("int", "float") else kind


# Manifests repeat a few short words, such as names of kinds.
_find_kind = lru_cache(maxsize=1024)(_resolve_kind)


def _refuse(event: ScalarEvent, path: str, why: str) -> ValueError:
    """Return the error about a scalar value, with its path and its line and column."""
    mark = event.start_mark
    place = f", at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return ValueError(f"yaml: {f'{path}: ' if path else ''}{why}{place}")
