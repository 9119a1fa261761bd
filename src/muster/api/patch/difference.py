"""The JSON patch from one document to another, which webhooks return."""

from collections.abc import Iterator
from typing import Any

from muster.api.patch.json import is_equal

Operation = dict[str, Any]


def compute_difference(before: dict[str, Any], after: dict[str, Any]) -> list[Operation]:
    """Return the operations that turn `before` into `after`. The operations replace a different list as a whole."""
    return list(_yield_operations(before, after, ""))


def _yield_operations(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Operation]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{escape_token(name)}"}
    for name, value in after.items():
        place = f"{path}/{escape_token(name)}"
        if name not in before:
            yield {"op": "add", "path": place, "value": value}
        elif isinstance(value, dict) and isinstance(before[name], dict):
            yield from _yield_operations(before[name], value, place)
        elif not is_equal(before[name], value):
            yield {"op": "replace", "path": place, "value": value}


def escape_token(name: str) -> str:
    """Escape a key for a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
