"""Field sets in their wire form, and the operations on them.

The path of a node below the root is in the set if the node is empty or has the key `.`. The other keys of a node lead
to longer paths. No operation changes a set. An operation returns its first operand itself if the result equals it.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

FieldSet: TypeAlias = dict[str, "FieldSet"]

SELF = "."  # marks the path of a node as part of the set, if the node also has paths below it
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def unite_sets(first: FieldSet, second: FieldSet) -> FieldSet:
    """Return the union of two nodes below the root, or of two non-empty roots."""
    if not second:
        return first if not first or SELF in first else {SELF: {}, **first}
    if not first:
        return second if SELF in second else {SELF: {}, **second}
    result = first
    for key, node in second.items():
        held = first.get(key)
        if held is node:
            continue
        both = node if held is None else unite_sets(held, node)
        if both is not held:
            if result is first:
                result = first.copy()
            result[key] = both
    return result


def subtract_set(first: FieldSet, second: FieldSet) -> FieldSet | None:
    """Return the paths of the first node without the paths of the second; None if no path is left.

    A leaf of the second node also removes all longer paths that begin with its path.
    """
    result = first
    for key, gone in second.items():
        held = first.get(key)
        if held is None:
            continue
        left = _subtract_node(held, gone)
        if left is held:
            continue
        if result is first:
            result = first.copy()
        if left is None:
            del result[key]
        else:
            result[key] = left
    if result is first:
        return first
    return _make_canonical_node(result)


def _subtract_node(node: FieldSet, removed: FieldSet) -> FieldSet | None:
    if not removed:
        return None
    if not node:
        return None if SELF in removed else node
    return subtract_set(node, removed)


def intersect_sets(first: FieldSet, second: FieldSet) -> FieldSet | None:
    """Return the paths of the first node that the second covers; None if there are none.

    These are the paths that `subtract_set` removes. Both nodes are below the root, or are non-empty roots.
    """
    if not second:
        return first
    if not first:
        return first if SELF in second else None
    common: FieldSet = {}
    for key, node in second.items():
        held = first.get(key)
        if held is None:
            continue
        shared = intersect_sets(held, node)
        if shared is not None:
            common[key] = shared
    return _make_canonical_node(common)


def _make_canonical_node(paths: FieldSet) -> FieldSet | None:
    """Return a node in canonical form: None without paths, {} with only its own path."""
    if not paths:
        return None
    return {} if len(paths) == 1 and SELF in paths else paths


def is_member(node: FieldSet) -> bool:
    """Return whether the path of a node below the root is itself in the set."""
    return not node or SELF in node


def make_canonical(value: Any) -> FieldSet:
    """Return a client's field set in canonical form. Raises `ValueError` if the value is no field set.

    The keys in a path element are sorted, and a node with only its own path is {}.
    """
    if type(value) is not dict:
        raise ValueError("a field set is an object")
    result: FieldSet = {}
    for key, below in value.items():
        result[_make_canonical_key(key)] = make_canonical(below)
    return {} if len(result) == 1 and SELF in result else result


def _make_canonical_key(key: str) -> str:
    """Return a path element in canonical form, with sorted keys. Raises `ValueError` if the text is no path element."""
    kind, colon, text = key.partition(":")
    if key == SELF or (colon and kind == "f" and text):
        return key
    if not colon or kind not in ("k", "v", "i"):
        raise ValueError(f"unknown path element {key[:100]!r}")
    value = _decode(text)
    if kind == "k":
        if type(value) is not dict or not value:
            raise ValueError(f"the keys of {key[:100]!r} are no object")
        value = dict(sorted(value.items()))
    return f"{kind}:{_encode(value).decode()}"


def list_paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yield the paths of a set in the spelling of messages, such as `.spec.containers[name="x"].image`.

    Below each path, the paths that are one element longer come before all longer paths.
    """
    steps = sorted((key, prefix + path_step(key), below) for key, below in fields.items() if key != SELF)
    for _, path, below in steps:
        if is_member(below):
            yield path
    for _, path, below in steps:
        yield from list_paths(below, path)


def path_step(key: str) -> str:
    """Return a path element (`f:image`, `k:{"name":"x"}`) in the spelling of messages: `.image`, `[name="x"]`."""
    kind, _, text = key.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        return f"[{','.join(f'{name}={_encode(value).decode()}' for name, value in _decode(text).items())}]"
    return f"[={text}]" if kind == "v" else f"[{text}]"
