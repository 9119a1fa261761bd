"""Helpers that copy JSON objects with changed members."""

from typing import Any

Json = dict[str, Any]


def remove_members(document: Json, *names: str) -> Json:
    """Return the object without these members."""
    return {name: value for name, value in document.items() if name not in names}


def rename_member(document: Json, old: str, new: str) -> Json:
    """Return the object with one member renamed at its position."""
    return {new if name == old else name: value for name, value in document.items()}
