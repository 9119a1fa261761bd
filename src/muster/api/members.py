"""Helpers that read members of JSON objects, and copy objects with changed members."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def value_at(document: Any, path: Sequence[str | int]) -> Any:
    """Return the value at the path of names and indexes; None if there is none."""
    for step in path:
        if isinstance(step, int):
            document = document[step] if isinstance(document, list) and step < len(document) else None
        else:
            document = document.get(step) if isinstance(document, dict) else None
    return document


def mapping_at(document: Any, *path: str | int) -> Json:
    """Return the object at the path; an empty one if there is none."""
    value = value_at(document, path)
    return value if isinstance(value, dict) else {}


def drop_empty(document: Mapping[str, Any]) -> Json:
    """Return the object without members that are empty, 0, False or null."""
    return {name: value for name, value in document.items() if value}


def select_members(document: Mapping[str, Any], names: Iterable[str]) -> Json:
    """Return the object with these members only, in this order."""
    return {name: document[name] for name in names if name in document}


def remove_members(document: Json, *names: str) -> Json:
    """Return the object without these members."""
    return {name: value for name, value in document.items() if name not in names}


def rename_member(document: Json, old: str, new: str) -> Json:
    """Return the object with one member renamed at its position."""
    return {new if name == old else name: value for name, value in document.items()}
