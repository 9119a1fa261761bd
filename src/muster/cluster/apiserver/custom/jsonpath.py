"""JSONPath for printer columns, the scale subresource and selectable fields.

`compile_path` takes a path and returns a function that yields the matching values of a JSON value. The supported steps
of kubectl's JSONPath are names, quoted names, indexes, slices, wildcards, recursive descent, and filters that test
whether a path exists or compare it with a literal. A path that matches no value yields nothing.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Find: TypeAlias = Callable[[Any], Iterator[Any]]

MAX_CHARACTERS = 1024
MAX_STEPS = 64

_STEP = re.compile(
    r"""(?P<descent>\.\.)
      | \.(?P<name>(?:\\.|[^.\[\]\\*])+)
      | (?P<any>\.\*|\[\*\])
      | \[(?P<quoted>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\]
      | \[(?P<index>-?\d{1,9})\]
      | \[(?P<slice>-?\d{0,9}:-?\d{0,9})\]
      | \[\?\((?P<filter>(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^'")])*)\)\]
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*@(?P<path>[^\s=!<>]*)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<literal>.+?))?\s*", re.DOTALL)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class JsonPathError(ValueError):
    """A text that is no supported JSONPath."""


def compile_path(text: str) -> Find:
    """Compile a path to a function that yields the matching values of a JSON value, in order.

    Raises `JsonPathError` if the path is invalid, too long or not supported.
    """
    if len(text) > MAX_CHARACTERS:
        raise JsonPathError(f"path is longer than {MAX_CHARACTERS} characters")
    path = text.removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Find] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None or len(steps) == MAX_STEPS:
            raise JsonPathError(f"cannot be read from {path[position : position + 20]!r} on")
        steps.append(_make_step(match))
        # `..name` is a descent and then a name. The second dot belongs to the name.
        position = match.end() - 1 if match.lastgroup == "descent" and path[match.end() :][:1] != "[" else match.end()

    def find(value: Any) -> Iterator[Any]:
        return _follow(value, steps)

    return find


def find_first(find: Find, value: Any) -> Any:
    """Return the first matching value; None if there is none."""
    return next(find(value), None)


def simple_names(path: str) -> tuple[str, ...]:
    """Split a path that consists of names only, such as `.spec.replicas`."""
    return tuple(path.removeprefix(".").split("."))


def _follow(value: Any, steps: list[Find]) -> Iterator[Any]:
    matches: Iterator[Any] = iter((value,))
    for step in steps:
        matches = _apply_to_each(matches, step)
    return matches


def _apply_to_each(values: Iterator[Any], step: Find) -> Iterator[Any]:
    for value in values:
        yield from step(value)


def _make_step(match: re.Match[str]) -> Find:
    text = match[match.lastgroup or 0]
    match match.lastgroup:
        case "name":
            return _make_member_step(_unescape_text(text))
        case "quoted":
            return _make_member_step(_unescape_text(text[1:-1]))
        case "any":
            return _list_children
        case "descent":
            return _walk_descendants
        case "index":
            return _make_index_step(int(text))
        case "slice":
            start, end = (int(part) if part else None for part in text.split(":"))
            return lambda value: iter(value[start:end]) if isinstance(value, list) else iter(())
        case _:
            return _make_filter_step(text)


def _unescape_text(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _make_member_step(name: str) -> Find:
    return lambda value: iter((value[name],)) if isinstance(value, dict) and name in value else iter(())


def _make_index_step(index: int) -> Find:
    return lambda value: (
        iter((value[index],)) if isinstance(value, list) and -len(value) <= index < len(value) else iter(())
    )


def _list_children(value: Any) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _walk_descendants(value: Any) -> Iterator[Any]:
    yield value
    for child in _list_children(value):
        yield from _walk_descendants(child)


def _make_filter_step(text: str) -> Find:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise JsonPathError(f"cannot read the filter {text[:50]!r}")
    find = compile_path(match["path"])
    if match["op"] is None:
        return lambda value: (item for item in _list_items(value) if any(True for _ in find(item)))
    compare, literal = _COMPARE[match["op"]], _parse_literal(match["literal"])

    def holds(item: Any) -> bool:
        return any(_is_comparable(match, literal) and compare(match, literal) for match in find(item))

    return lambda value: (item for item in _list_items(value) if holds(item))


def _list_items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_comparable(left: Any, right: Any) -> bool:
    numbers = (int, float)
    return type(left) is type(right) or (type(left) in numbers and type(right) in numbers)


def _parse_literal(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return _unescape_text(text[1:-1])
    try:
        return json.loads(text)
    except ValueError:
        raise JsonPathError(f"cannot compare with {text[:50]!r}") from None
