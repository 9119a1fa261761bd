"""Decode the body of a request to a document, or refuse it with one clear error, at little cost either way.

Bodies are JSON, YAML or, from Go clients, protobuf. The module limits the size of a body, its nesting, the repetition
by YAML aliases, and the range of numbers. Strict decoding also reports repeated members, by path.
"""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from muster.api.patch.limits import MAX_DEPTH, require_shallow
from muster.api.status import ApiError, bad_request, too_large, unsupported_media_type
from muster.cluster.apiserver.protobuf import messages
from muster.runtime.transport import APPLY_PATCH

Document = dict[str, Any]

MAX_BODY_BYTES = 3 * 1024 * 1024  # the limit of a request's body, as in kube-apiserver
MAX_OBJECT_BYTES = 3 * 512 * 1024  # the limit of a stored object, as etcd's default
# The bytes that a status, a binding and a deletion may add to the largest object, so that every object can be finished.
ROOM_FOR_STATUS = 128 * 1024

JSON_AT_ONCE = 128 * 1024  # decoding a body up to this size takes a few milliseconds
YAML_AT_ONCE = 8 * 1024

_JSON_TYPES = ("application/json", "text/json", "")
_YAML_TYPES = ("application/yaml", "text/yaml", "application/x-yaml")

_decoder = msgspec.json.Decoder()


class Decoded(msgspec.Struct, frozen=True):
    """A decoded body.

    document: the document.
    duplicates: messages about members that occur twice. The last of these members counts.
    """

    document: Document
    duplicates: tuple[str, ...] = ()


def decode(body: bytes, content_type: str, kind: str, *, strict: bool = True) -> Decoded:
    """Decode the object in a body.

    kind: the expected kind, for messages.
    strict: whether to report repeated members.

    Raises `ApiError`: 400 for an invalid body, 413 for a body that is too large, 415 for an unknown type.
    """
    value, duplicates = decode_any(body, content_type, kind, strict=strict)
    if not isinstance(value, dict):
        raise make_unrecognized_error(kind, "json: cannot unmarshal a value that is no object", body)
    return Decoded(value, duplicates)


def decode_any(body: bytes, content_type: str, kind: str, *, strict: bool = True) -> tuple[Any, tuple[str, ...]]:
    """Decode a body whose value need not be an object; return the value, and messages about members that occur twice.

    kind, strict: as in `decode`.

    Raises `ApiError` (400, 413, 415).
    """
    require_small(body)
    form = _find_format(media_type(content_type))
    if not form:
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            f"application/json, application/yaml, {messages.MEDIA_TYPE}"
        )
    try:
        return body.take(form) if isinstance(body, ReadAhead) else _read(body, form, strict=strict)
    except RecursionError:
        raise make_unrecognized_error(kind, "json parse error: exceeded max depth", body) from None
    except (ValueError, msgspec.DecodeError) as error:
        raise make_unrecognized_error(kind, f"json parse error: {error}", body) from None


class ReadAhead(bytes):
    """A body that was decoded in advance, outside the event loop."""

    _decoded: dict[str, tuple[Any, tuple[str, ...]] | Exception]  # the results, by form

    @classmethod
    def of(cls, body: bytes, content_type: str) -> "ReadAhead":
        """Decode a body in the formats that a handler of this content type needs. The call may run in a thread."""
        ahead = cls(body)
        ahead._decoded = {}
        type_ = media_type(content_type)
        forms = ("json", "yaml") if type_ == APPLY_PATCH else (_find_format(type_),)
        for form in filter(None, forms):
            try:
                ahead._decoded[form] = _read(body, form, strict=True)
            except (ApiError, RecursionError, ValueError, msgspec.DecodeError) as error:
                ahead._decoded[form] = error
            else:
                break
        return ahead

    def take(self, form: str) -> tuple[Any, tuple[str, ...]]:
        """Return the value, which then belongs to the caller, and messages about members that occur twice.

        A second call decodes the body again.

        form: `json`, `yaml` or `protobuf`.

        Raises the error of the decoding.
        """
        decoded = self._decoded.pop(form, None) or _read(bytes(self), form, strict=True)
        if isinstance(decoded, Exception):
            raise decoded
        return decoded


def takes_long(body: bytes, content_type: str) -> bool:
    """Return whether decoding a body would block the event loop too long. YAML is 100 times as slow as JSON."""
    return len(body) > (YAML_AT_ONCE if _find_format(media_type(content_type)) == "yaml" else JSON_AT_ONCE)


def _find_format(type_: str) -> str:
    """Return the format of a media type: json, yaml or protobuf, or "" for an unknown type."""
    if type_ in _JSON_TYPES or type_.endswith("+json"):
        return "json"
    if type_ in _YAML_TYPES or type_.endswith("+yaml"):
        return "yaml"
    return "protobuf" if type_ == messages.MEDIA_TYPE else ""


def _read(body: bytes, form: str, *, strict: bool) -> tuple[Any, tuple[str, ...]]:
    """Decode a value, with messages about repeated members.

    Raises `ValueError`, `DecodeError`, `RecursionError`, `ApiError` (400).

    strict: whether to look for repeated members.
    """
    duplicates: tuple[str, ...] = ()
    if form == "json":
        value = _decoder.decode(body)
        repeated = _find_json_duplicates(body, value) if strict else ()
        duplicates = tuple(f'duplicate field "{path}"' for path in repeated)
    elif form == "yaml":
        # The module loads slowly, and a cluster that lives for one command decodes no YAML.
        from muster.api.values import yaml_decode

        value, given_again = yaml_decode.decode(body)
        duplicates = tuple(f'line {again.line}: key "{again.key}" already set in map' for again in given_again)
    else:
        value = messages.decode(body)
    # Counting brackets is cheaper than walking the value, and few brackets cannot nest deeply.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH or form == "yaml":
        require_shallow(value, "body")
    return value, duplicates


def in_order(body: bytes, faults: Sequence[str]) -> list[str]:
    """Return the messages about unknown and repeated members, sorted by the members' order in a JSON text.

    For a text of another format, keep the order of the messages.
    """
    try:
        document = json.loads(body, object_pairs_hook=tuple, parse_int=str, parse_float=str)
    except ValueError:
        return list(faults)
    places = {sentence: place for place, sentence in enumerate(_list_faults(document, ""))}
    return sorted(faults, key=lambda fault: places.get(fault, len(places)))


def _list_faults(value: Any, path: str) -> Iterator[str]:
    """Yield a message for each member in order: a duplicate if the member is repeated, else unknown.

    The caller picks the messages that are true.
    """
    if isinstance(value, tuple):
        seen: set[str] = set()
        for name, item in value:
            where = f"{path}.{name}" if path else name
            yield f'duplicate field "{where}"' if name in seen else f'unknown field "{where}"'
            seen.add(name)
            yield from _list_faults(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _list_faults(item, f"{path}[{index}]")


def require_small(body: bytes) -> None:
    """Raise `ApiError` (413) for a body that is too large."""
    if len(body) > MAX_BODY_BYTES:
        raise too_large(f"Request entity too large: limit is {MAX_BODY_BYTES}")


@lru_cache(maxsize=256)
def media_type(content_type: str) -> str:
    """Return the media type in a Content-Type header, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def make_unrecognized_error(kind: str, why: str, body: bytes) -> ApiError:
    """Return the 400 error for a body that cannot be decoded, in upstream's words."""
    head = body[:30].decode(errors="replace") + (" ..." if len(body) > 30 else "")
    message = (
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {why} ({head!r})"
    )
    return bad_request(message)


class _Repeated(dict[str, Any]):
    """A JSON object with repeated members. `names`: these members."""

    names: tuple[str, ...] = ()


def _find_json_duplicates(body: bytes, value: Any) -> tuple[str, ...]:
    # Encoding the value again yields a compact body, unless a member was repeated. Spaces, escapes and exponents are
    # written in another way, too, so another text only means that the body must be parsed closely.
    if msgspec.json.encode(value) == body.removesuffix(b"\n"):  # client-go ends a body with a line end
        return ()
    repeated_names: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        repeated = _Repeated(members)
        seen: set[str] = set()
        repeated.names = tuple(dict.fromkeys(name for name, _ in pairs if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
        repeated_names.extend(repeated.names)
        return repeated

    document = json.loads(body, object_pairs_hook=collect, parse_int=str, parse_float=str)
    return tuple(_list_repeated_paths(document, "")) if repeated_names else ()


def _list_repeated_paths(value: Any, path: str) -> list[str]:
    paths = []
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        if isinstance(value, _Repeated):
            paths += [prefix + name for name in value.names]
        for name, item in value.items():
            paths += _list_repeated_paths(item, prefix + name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            paths += _list_repeated_paths(item, f"{path}[{index}]")
    return paths
