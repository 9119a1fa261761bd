"""JSON patch (RFC 6902) with JSON pointers (RFC 6901).

`apply` copies the document once, and the operations change the copy in place. Values of the patch are copied too, so
neither the caller's document nor the patch ever changes. The error messages follow kube-apiserver's library. As
the RFCs require, and stricter than that library, negative indexes and leading zeros are errors, and `add`, `replace`
and `test` need a `value`.
"""

import re
from collections.abc import Callable
from typing import Any

from muster.api.patch.limits import (
    MAX_COPIED_BYTES,
    MAX_OPERATIONS,
    require_object,
    require_shallow,
    shorten_text,
    size_of,
    unprocessable,
)
from muster.api.status import bad_request, too_large

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_ABSENT = object()


def apply(document: dict[str, Any], operations: Any) -> dict[str, Any]:
    """Return a copy of the document to which the operations were applied, in their order.

    Raises:
        ApiError: 400 if the patch is no list of operations, 413 if it has too many, 422 if one fails.
    """
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if not all(isinstance(operation, dict) for operation in operations):
        raise bad_request("json: cannot unmarshal value into Go value of type jsonpatch.Operation")
    if len(operations) > MAX_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    require_shallow(operations, "patch")
    require_shallow(document, "document")
    patching = _Patching(document)
    for operation in operations:
        patching.perform(operation)
    require_shallow(patching.root, "patched document")
    return require_object(patching.root)


class _Patching:
    """A copy of a document that operations change in place."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.root: Any = _copy_value(document)
        self._copied_bytes = 0
        self._verbs: dict[str, Callable[[dict[str, Any], str], None]] = {
            "add": self._add,
            "remove": self._remove,
            "replace": self._replace,
            "move": self._move,
            "copy": self._apply_copy,
            "test": self._test,
        }

    def perform(self, operation: dict[str, Any]) -> None:
        verb = operation.get("op")
        run = self._verbs.get(verb) if isinstance(verb, str) else None
        if run is None:
            raise unprocessable(f"Unexpected kind: {shorten_text(str(verb))}")
        run(operation, _get_text(operation, "path", f"{verb} operation failed to decode path"))

    def _add(self, operation: dict[str, Any], path: str) -> None:
        self._put(path, _copy_value(_get_value(operation)), "add")

    def _remove(self, _operation: dict[str, Any], path: str) -> None:
        self._take(path, "remove", f'remove operation does not apply: doc is missing path: "{shorten_text(path)}"')

    def _replace(self, operation: dict[str, Any], path: str) -> None:
        value = _copy_value(_get_value(operation))
        missing = "replace operation does not apply: doc is missing"
        if not path:
            self.root = value
            return
        container, member = self._find_container(path, f"{missing} path: {shorten_text(path)}")
        if isinstance(container, list):
            container[_parse_index(member, len(container) - 1)] = value
        else:
            container[member] = value  # adds a missing member too, like kube-apiserver's library

    def _move(self, operation: dict[str, Any], path: str) -> None:
        source = _get_text(operation, "from", "move operation failed to decode from")
        if path == source:
            self._find(source, f"move operation does not apply: doc is missing from path: {shorten_text(source)}")
            return
        if path.startswith(f"{source}/"):
            raise unprocessable(f"move operation does not apply: {shorten_text(path)} is inside {shorten_text(source)}")
        missing = f"move operation does not apply: doc is missing from path: {shorten_text(source)}"
        self._put(path, self._take(source, "move", missing), "move")

    def _apply_copy(self, operation: dict[str, Any], path: str) -> None:
        source = _get_text(operation, "from", "copy operation failed to decode from")
        value = self._find(source, f"copy operation does not apply: doc is missing from path: {shorten_text(source)}")
        self._copied_bytes += size_of(value)
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise unprocessable(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._copied_bytes}, "
                f"exceeding the limit {MAX_COPIED_BYTES}"
            )
        require_shallow(value, "copied value")
        self._put(path, _copy_value(value), "copy")

    def _test(self, operation: dict[str, Any], path: str) -> None:
        expected = _get_value(operation)
        current = self._find(path, f"test operation does not apply: doc is missing path: {shorten_text(path)}")
        if not is_equal(expected, current):
            raise unprocessable(f"testing value {shorten_text(path)} failed: test failed")

    def _put(self, path: str, value: Any, verb: str) -> None:
        if not path:
            self.root = value
            return
        missing = f'{verb} operation does not apply: doc is missing path: "{shorten_text(path)}"'
        container, member = self._find_container(path, missing)
        if isinstance(container, list):
            container.insert(len(container) if member == "-" else _parse_index(member, len(container)), value)
        else:
            container[member] = value

    def _take(self, path: str, verb: str, missing: str) -> Any:
        if not path:
            raise unprocessable(f"error in {verb} for path: '': the whole document cannot be removed")
        container, member = self._find_container(path, missing)
        if isinstance(container, list):
            return container.pop(_parse_index(member, len(container) - 1))
        if member not in container:
            raise unprocessable(
                f"error in {verb} for path: '{shorten_text(path)}': "
                f"Unable to remove nonexistent key: {shorten_text(member)}: missing value"
            )
        return container.pop(member)

    def _find(self, path: str, missing: str) -> Any:
        if not path:
            return self.root
        container, member = self._find_container(path, missing)
        if isinstance(container, list):
            return container[_parse_index(member, len(container) - 1)]
        value = container.get(member, _ABSENT)
        if value is _ABSENT:
            raise unprocessable(f"{missing}: missing value")
        return value

    def _find_container(self, path: str, missing: str) -> tuple[Any, str]:
        """Return the container of the member that the path names, and the member's name in it."""
        *parents, last = _parse_tokens(path)
        value = self.root
        for member in parents:
            if isinstance(value, list):
                value = value[_parse_index(member, len(value) - 1)]
            elif isinstance(value, dict):
                value = value.get(member)
            else:
                break
        if not isinstance(value, dict | list):
            raise unprocessable(f"{missing}: missing value")
        return value, last


def is_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON: 1 equals 1.0 and not `true`. Recurses as deep as `left` is."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        return all(key in right and is_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        return all(map(is_equal, left, right))
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _get_text(operation: dict[str, Any], member: str, failure: str) -> str:
    text = operation.get(member)
    if not isinstance(text, str):
        raise unprocessable(f"{failure}: missing value")
    return text


def _get_value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise unprocessable(f'{operation["op"]} operation has no "value"')
    return operation["value"]


def _parse_tokens(path: str) -> list[str]:
    if not path.startswith("/"):
        raise unprocessable(f"path {shorten_text(path)} is no JSON pointer: it must be empty or start with /")
    if "~" not in path:
        return path[1:].split("/")
    if re.search(r"~(?![01])", path):
        raise unprocessable(f"path {shorten_text(path)} is no JSON pointer: ~ stands only before 0 or 1")
    return [member.replace("~1", "/").replace("~0", "~") for member in path[1:].split("/")]


def _parse_index(member: str, last: int) -> int:
    if not _INDEX.fullmatch(member) or int(member) > last:
        raise unprocessable(f"Unable to access invalid index: {shorten_text(member)}: invalid index referenced")
    return int(member)


def _copy_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy_value(item) for item in value]
    return value
