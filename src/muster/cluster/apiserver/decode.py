"""Bytes from outside become a JSON document, or one clear refusal; whatever they are, cheaply.

Bodies are JSON, YAML or (from Go clients) protobuf. What is limited here: the size of the body, how deep it nests, how
often YAML aliases repeat a part, and what a number may be. Members that are given twice are reported by path, as strict
decoding asks.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from muster.api.patch.limits import MAX_DEPTH, require_shallow
from muster.api.status import ApiError, bad_request, too_large, unsupported_media_type
from muster.cluster.apiserver.protobuf import messages
from muster.runtime.transport import APPLY_PATCH

Document = dict[str, Any]

MAX_BODY_BYTES = 3 * 1024 * 1024  # of a request, as kube-apiserver
MAX_OBJECT_BYTES = 3 * 512 * 1024  # of an object as stored, as etcd's default
# What a status, a binding and a deletion may add to the biggest object: how it ends can be written of every object.
ROOM_FOR_STATUS = 128 * 1024

JSON_AT_ONCE = 128 * 1024  # of bodies up to this size reading takes some milliseconds
YAML_AT_ONCE = 8 * 1024

_JSON_TYPES = ("application/json", "text/json", "")
_YAML_TYPES = ("application/yaml", "text/yaml", "application/x-yaml")

_decoder = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Decoded:
    """A body: the document, and sentences on members that were given more than once (the last one counts)."""

    document: Document
    duplicates: tuple[str, ...] = ()


def decode(body: bytes, content_type: str, kind: str, *, strict: bool = True) -> Decoded:
    """The object in a body. Duplicates are looked for only if `strict`; `kind` is what the sender should mean.

    Raises `ApiError`: 400 for what cannot be read, 413 too large, 415 for another type.
    """
    value, duplicates = decode_any(body, content_type, kind, strict=strict)
    if not isinstance(value, dict):
        raise unrecognized(kind, "json: cannot unmarshal a value that is no object", body)
    return Decoded(value, duplicates)


def decode_any(body: bytes, content_type: str, kind: str, *, strict: bool = True) -> tuple[Any, tuple[str, ...]]:
    """Like `decode`, for any value: the value and sentences on its duplicates."""
    require_small(body)
    form = _form(media_type(content_type))
    if not form:
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            f"application/json, application/yaml, {messages.MEDIA_TYPE}"
        )
    try:
        return body.take(form) if isinstance(body, ReadAhead) else _read(body, form, strict=strict)
    except RecursionError:
        raise unrecognized(kind, "json parse error: exceeded max depth", body) from None
    except (ValueError, msgspec.DecodeError) as error:
        raise unrecognized(kind, f"json parse error: {error}", body) from None


class ReadAhead(bytes):
    """A body that was read in advance, beside the event loop."""

    _found: dict[str, tuple[Any, tuple[str, ...]] | Exception]  # by form

    @classmethod
    def of(cls, body: bytes, content_type: str) -> "ReadAhead":
        """Read a body as handlers of this type will. May be called in a thread."""
        ahead = cls(body)
        ahead._found = {}
        type_ = media_type(content_type)
        forms = ("json", "yaml") if type_ == APPLY_PATCH else (_form(type_),)
        for form in filter(None, forms):
            try:
                ahead._found[form] = _read(body, form, strict=True)
            except (ApiError, RecursionError, ValueError, msgspec.DecodeError) as error:
                ahead._found[form] = error
            else:
                break
        return ahead

    def take(self, form: str) -> tuple[Any, tuple[str, ...]]:
        """What was found: once, for it belongs to who takes it. Raises what reading it has raised."""
        found = self._found.pop(form, None) or _read(bytes(self), form, strict=True)
        if isinstance(found, Exception):
            raise found
        return found


def takes_long(body: bytes, content_type: str) -> bool:
    """Whether reading it would keep others waiting: YAML is a hundred times as slow as JSON."""
    return len(body) > (YAML_AT_ONCE if _form(media_type(content_type)) == "yaml" else JSON_AT_ONCE)


def _form(type_: str) -> str:
    """How to read what has this media type; empty if it is none of ours."""
    if type_ in _JSON_TYPES or type_.endswith("+json"):
        return "json"
    if type_ in _YAML_TYPES or type_.endswith("+yaml"):
        return "yaml"
    return "protobuf" if type_ == messages.MEDIA_TYPE else ""


def _read(body: bytes, form: str, *, strict: bool) -> tuple[Any, tuple[str, ...]]:
    """The value and sentences on duplicates. Raises `ValueError`, `DecodeError`, `RecursionError`, `ApiError` (400)."""
    duplicates: tuple[str, ...] = ()
    if form == "json":
        value = _decoder.decode(body)
        repeated = _json_duplicates(body, value) if strict else ()
        duplicates = tuple(f'duplicate field "{path}"' for path in repeated)
    elif form == "yaml":
        # YAML takes long to load, and a cluster that lives for one command meets none.
        from muster.api.values import yaml_decode

        value, given_again = yaml_decode.decode(body)
        duplicates = tuple(f'line {again.line}: key "{again.key}" already set in map' for again in given_again)
    else:
        value = messages.decode(body)
    # Few brackets cannot nest deep: the count is cheaper than the walk.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH or form == "yaml":
        require_shallow(value, "body")
    return value, duplicates


def in_order(body: bytes, faults: Sequence[str]) -> list[str]:
    """The sentences on unknown and repeated members in the order in which they stand in a JSON text.

    Those of a text in another format stay as they are.
    """
    try:
        document = json.loads(body, object_pairs_hook=tuple, parse_int=str, parse_float=str)
    except ValueError:
        return list(faults)
    places = {sentence: place for place, sentence in enumerate(_faults_at(document, ""))}
    return sorted(faults, key=lambda fault: places.get(fault, len(places)))


def _faults_at(value: Any, path: str) -> Iterator[str]:
    """What could be wrong with each member, in order: that it is there again, or else that it is unknown."""
    if isinstance(value, tuple):
        seen: set[str] = set()
        for name, item in value:
            where = f"{path}.{name}" if path else name
            yield f'duplicate field "{where}"' if name in seen else f'unknown field "{where}"'
            seen.add(name)
            yield from _faults_at(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults_at(item, f"{path}[{index}]")


def require_small(body: bytes) -> None:
    """Raise `ApiError` (413) for a body over the limit."""
    if len(body) > MAX_BODY_BYTES:
        raise too_large(f"Request entity too large: limit is {MAX_BODY_BYTES}")


@lru_cache(maxsize=256)
def media_type(content_type: str) -> str:
    """The type of a Content-Type header, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def unrecognized(kind: str, why: str, body: bytes) -> ApiError:
    """400 for a body that is no object at all, in upstream's words."""
    head = body[:30].decode(errors="replace") + (" ..." if len(body) > 30 else "")
    message = (
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {why} ({head!r})"
    )
    return bad_request(message)


class _Repeated(dict[str, Any]):
    """An object in which some members were given more than once."""

    names: tuple[str, ...] = ()


def _json_duplicates(body: bytes, value: Any) -> tuple[str, ...]:
    # Encoded again, a compact body has its old length unless a member was given twice. Spaces and escapes make a
    # difference too, so a difference is only a reason to look closely.
    if len(msgspec.json.encode(value)) == len(body):
        return ()
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        repeated = _Repeated(members)
        seen: set[str] = set()
        repeated.names = tuple(dict.fromkeys(name for name, _ in pairs if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
        found.extend(repeated.names)
        return repeated

    document = json.loads(body, object_pairs_hook=collect, parse_int=str, parse_float=str)
    return tuple(_repeated_paths(document, "")) if found else ()


def _repeated_paths(value: Any, path: str) -> list[str]:
    paths = []
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        if isinstance(value, _Repeated):
            paths += [prefix + name for name in value.names]
        for name, item in value.items():
            paths += _repeated_paths(item, prefix + name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            paths += _repeated_paths(item, f"{path}[{index}]")
    return paths
