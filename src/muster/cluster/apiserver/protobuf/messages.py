"""Objects in Kubernetes' protobuf encoding, as the JSON documents that they mean.

Go clients from 1.32 on write built-in kinds in protobuf unless told otherwise (`kubectl create configmap` does), and do
not fall back. They read JSON, so only this direction is needed. The messages are made from the API types: a type says
what a field is, `numbers` which number it has; `opaque` knows what upstream leaves open (JSON within a
message, schemas). Fields that no type of ours has are passed over, as unknown fields of JSON are.

Zeroes: Go writes the zero of every field that is no pointer. It means nothing there, unless the field is required, and
is left out; in an optional field it was set by the client and stays.
"""

import base64
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any, TypeAlias, Union, get_args, get_origin

import msgspec

from muster.api import (
    batch,
    core,
)
from muster.api.core import quota
from muster.api.groups import (
    apps,
    autoscaling,
    autoscaling_v2,
    coordination,
    discovery,
    events,
    networking,
    policy,
    resource,
    runtimeclass,
    scheduling,
    scheduling_v1alpha2,
    storage,
)
from muster.api.kinds import Kind
from muster.api.meta import DeleteOptions, Struct
from muster.api.schema import component_name, schema_of
from muster.api.server import (
    admissionregistration,
    apiextensions,
    apiregistration,
    authentication,
    authorization,
    certificates,
    flowcontrol,
    rbac,
)
from muster.cluster.apiserver.protobuf import wireformat
from muster.cluster.apiserver.protobuf.numbers import NUMBERS
from muster.cluster.apiserver.protobuf.opaque import OPEN, raw_json
from muster.cluster.apiserver.protobuf.wireformat import ProtobufError, Value, as_bytes, as_integer, as_text, as_time

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"

# Where kinds are that Go clients write. Those that CRDs define have no protobuf form.
_MODULES: tuple[types.ModuleType, ...] = (
    core, quota, admissionregistration, apiextensions, apiregistration, apps, authentication, authorization,
    autoscaling, autoscaling_v2, batch, certificates, coordination, discovery, events, flowcontrol, networking, policy,
    rbac, resource, runtimeclass, scheduling, scheduling_v1alpha2, storage,
)  # fmt: skip
_TYPES: dict[tuple[str, str], type[Struct]] = {
    (kind.api_version, kind.kind): kind.type
    for module in _MODULES
    for kind in vars(module).values()
    if isinstance(kind, Kind)
} | {
    ("v1", "Binding"): core.Binding,
    ("autoscaling/v1", "Scale"): autoscaling.Scale,
    ("policy/v1", "Eviction"): policy.Eviction,
}


def decode(body: bytes) -> dict[str, Any]:
    """The object in a body, with its apiVersion and kind. Raises `ProtobufError`."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body does not begin as Kubernetes' protobuf does")
    envelope = {number: value for number, _, value in wireformat.fields(body[len(_MAGIC) :])}
    type_meta = {number: as_text(value) for number, _, value in wireformat.fields(as_bytes(envelope.get(1, b"")))}
    version, kind = type_meta.get(1, ""), type_meta.get(2, "")
    if envelope.get(3):
        raise ProtobufError("the object within the body is encoded once more")
    type_ = DeleteOptions if kind == "DeleteOptions" else _TYPES.get((version, kind))
    if type_ is None:
        raise ProtobufError(f"no kind {kind[:100]!r} in version {version[:100]!r} is known in protobuf")
    document: dict[str, Any] = _message(type_)(envelope.get(2, b""))
    return {"apiVersion": version, "kind": kind} | document


_Decode: TypeAlias = Callable[[Value], Any]


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message.

    shape: how often it comes, or that its own fields stand in for it.
    keeps_zero: whether a zero says something.
    """

    name: str
    decode: _Decode
    shape: typing.Literal["single", "list", "map", "inline"]
    keeps_zero: bool


@cache
def _message(type_: type[Struct]) -> _Decode:
    """The decoder of a type's messages."""
    return _decoder(_fields_of(type_, component_name(type_)))


def _fields_of(type_: type[Struct], message: str) -> dict[int, _Field]:
    """The fields of a message by number; all of them are in the type, also those of messages within it."""
    hints = typing.get_type_hints(type_)
    schema = schema_of(type_)
    required, properties = schema.get("required", ()), schema["properties"]
    members = {field.encode_name: field for field in msgspec.structs.fields(type_)}
    found: dict[int, _Field] = {}
    number = 0
    for entry in NUMBERS[message].split():
        jump, _, name = entry.rpartition(":")
        number = int(jump) if jump else number + 1
        if name.startswith("*"):
            inner = _decoder(_fields_of(type_, f"{message.rpartition('.')[0]}.{name[1:]}"))
            found[number] = _Field("", inner, "inline", keeps_zero=True)
        elif member := members.get(name):
            hint = _without_none(hints[member.name])
            keeps_zero = member.default is None or name in required
            own = OPEN.get((message.rpartition(".")[2], name))
            if properties[name].get("format") == "micro-time":
                own = partial(as_time, microseconds=True)
            if field := _field(name, hint, own, keeps_zero=keeps_zero):
                found[number] = field
    return found


def _field(name: str, hint: Any, own: _Decode | None, *, keeps_zero: bool) -> _Field | None:
    """The field of a type, decoded in its `own` way if it has one."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        item = own or _value(arguments[0])
        return _Field(name, item, "list", keeps_zero=True) if item else None
    if origin is dict and arguments[1] is Any:
        return _Field(name, own or raw_json, "single", keeps_zero=True)
    if origin is dict:
        item = _value(arguments[1])
        return _Field(name, _entry(item), "map", keeps_zero=True) if item else None
    value = own or _value(hint)
    return _Field(name, value, "single", keeps_zero=keeps_zero) if value else None


def _value(hint: Any) -> _Decode | None:
    """How a value of a type is decoded; None for types that leave it open."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _message(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return _quantity if float in get_args(hint) else _int_or_string
    return _SCALARS.get(hint)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    options = [option for option in get_args(hint) if option is not type(None)]
    return options[0] if len(options) == 1 else Union[tuple(options)]  # noqa: UP007  (their number is not known)


def _decoder(fields: dict[int, _Field]) -> _Decode:
    def decode_message(value: Value) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for number, wire, raw in wireformat.fields(as_bytes(value)):
            field = fields.get(number)
            if field is None:
                continue
            match field.shape:
                case "list":
                    items = (
                        wireformat.numbers(as_bytes(raw))
                        if wire == wireformat.BYTES and field.decode is as_integer
                        else [raw]
                    )
                    result.setdefault(field.name, []).extend(field.decode(item) for item in items)
                case "map":
                    result.setdefault(field.name, {}).update(field.decode(raw))
                case "inline":
                    result |= field.decode(raw)
                case _:
                    decoded = field.decode(raw)
                    if decoded is not None and (field.keeps_zero or decoded not in _ZEROES):
                        result[field.name] = decoded
        return result

    return decode_message


_ZEROES: tuple[Any, ...] = ("", 0, False)


def _entry(value: _Decode) -> _Decode:
    """An entry of a map is a message of a key and a value; zeroes may be left out."""

    def decode_entry(raw: Value) -> dict[str, Any]:
        parts = {number: part for number, _, part in wireformat.fields(as_bytes(raw))}
        return {as_text(parts.get(1, b"")): value(parts.get(2, b""))}

    return decode_entry


def _quantity(value: Value) -> str:
    return next((as_text(part) for number, _, part in wireformat.fields(as_bytes(value)) if number == 1), "0")


def _int_or_string(value: Value) -> int | str:
    parts = {number: part for number, _, part in wireformat.fields(as_bytes(value))}
    return as_text(parts.get(3, b"")) if parts.get(1) else as_integer(parts.get(2, 0))


_SCALARS: dict[Any, _Decode] = {
    str: as_text,
    int: as_integer,
    bool: lambda value: as_integer(value) != 0,
    bytes: lambda value: base64.b64encode(as_bytes(value)).decode(),
    datetime: as_time,
}
