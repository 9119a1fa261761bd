"""Copies JSON objects with other members."""

from typing import Any

Json = dict[str, Any]


def without(document: Json, *names: str) -> Json:
    """Return the object without these members."""
    return {name: value for name, value in document.items() if name not in names}


def renamed(document: Json, old: str, new: str) -> Json:
    """Return the object with one member by another name, in its place."""
    return {new if name == old else name: value for name, value in document.items()}
