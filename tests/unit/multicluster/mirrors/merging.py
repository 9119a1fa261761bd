"""JSON as tests compare it."""

from typing import Any

import msgspec


def plain(value: Any) -> Any:
    """As it is written."""
    return msgspec.json.decode(msgspec.json.encode(value))


def merged(document: Any, patch: Any) -> Any:
    """The document after a JSON merge patch."""
    found = {key: value for key, value in document.items() if patch.get(key, value) is not None}
    for key, value in plain(patch).items():
        if isinstance(value, dict):
            before = found.get(key)
            found[key] = merged(before if isinstance(before, dict) else {}, value)
        elif value is not None:
            found[key] = value
    return found
