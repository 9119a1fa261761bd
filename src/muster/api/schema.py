"""OpenAPI v3 schemas of the API types, made from the Structs themselves.

The types say what a field is, the markers (`muster.api.markers`) how it is written and merged, the docstrings what it
means. There are three forms: `components`, named as upstream (`io.k8s.api.core.v1.Pod`) and tied by `$ref`, for
clients; `inlined`, one schema without references, for pruning and strategic merge on the server; and `structural`, one
schema without references and with all its rules, as a CRD has it.

In the first, `required` and `enum` are there for people and clients. A missing or unknown value of a built-in kind is
refused by `muster.api.validation` with the API server's own sentence; the second form leaves them out. Kinds that are
CRDs upstream are checked by their structural schema.
"""

import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Union, get_args, get_origin

import msgspec

from muster.api.kinds import Kind
from muster.api.markers import (
    AtomicMap,
    Default,
    DefaultedField,
    Format,
    GranularMap,
    Limits,
    ListRules,
    OneOf,
    Patched,
    RequiredField,
)
from muster.api.meta import Struct

Schema = dict[str, Any]

_PACKAGES = {
    "muster.api.meta": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "muster.api.status": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "muster.api.core": "io.k8s.api.core.v1",
    "muster.api.batch": "io.k8s.api.batch.v1",
    "muster.api.groups.coordination": "io.k8s.api.coordination.v1",
    "muster.api.groups.scheduling": "io.k8s.api.scheduling.v1",
    "muster.api.groups.events": "io.k8s.api.events.v1",
    "muster.api.groups.autoscaling": "io.k8s.api.autoscaling.v1",
    "muster.api.groups.autoscaling_v2": "io.k8s.api.autoscaling.v2",
    "muster.api.groups.policy": "io.k8s.api.policy.v1",
    "muster.api.groups.apps": "io.k8s.api.apps.v1",
    "muster.api.groups.networking": "io.k8s.api.networking.v1",
    "muster.api.groups.discovery": "io.k8s.api.discovery.v1",
    "muster.api.groups.storage": "io.k8s.api.storage.v1",
    "muster.api.groups.runtimeclass": "io.k8s.api.node.v1",
    "muster.api.server.certificates": "io.k8s.api.certificates.v1",
    "muster.api.server.flowcontrol": "io.k8s.api.flowcontrol.v1",
    "muster.api.groups.resource": "io.k8s.api.resource.v1",
    "muster.api.groups.scheduling_v1alpha2": "io.k8s.api.scheduling.v1alpha2",
    "muster.api.server.apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
    "muster.api.server.rbac": "io.k8s.api.rbac.v1",
    "muster.api.server.authorization": "io.k8s.api.authorization.v1",
    "muster.api.server.authentication": "io.k8s.api.authentication.v1",
    "muster.api.server.admissionregistration": "io.k8s.api.admissionregistration.v1",
    "muster.api.server.apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "muster.api.kueue.v1beta1": "io.x-k8s.kueue.v1beta1",
    "muster.api.kueue.visibility": "io.x-k8s.kueue.visibility.v1beta2",
    "muster.api.kueue": "io.x-k8s.kueue.v1beta2",
    "muster.api.jobset": "io.x-k8s.jobset.v1alpha2",
    "muster.api.podgroups.kep": "io.k8s.scheduling.incubator.v1alpha1",
    "muster.api.podgroups.volcano": "sh.volcano.scheduling.v1beta1",
    "muster.api.podgroups.coscheduling": "io.x-k8s.scheduling.v1alpha1",
    "muster.api.podgroups.sigs": "dev.sigs.scheduling.v1alpha2",
    "muster.api.podgroups": "io.k8s.incubator.scheduling.v1alpha1",
}

# Names the type that an object schema describes (`io.k8s.api.core.v1.Container`), where that is asked for.
DEFINITION = "x-muster-definition"

# Objects that server-side apply replaces as a whole (`+structType=atomic`), without `io.k8s.api.`.
_ATOMIC_OBJECTS = frozenset({
    "admissionregistration.v1.MatchResources", "admissionregistration.v1.NamedRuleWithOperations",
    "admissionregistration.v1.ParamKind", "admissionregistration.v1.ParamRef", "admissionregistration.v1.Variable",
    "autoscaling.v1.CrossVersionObjectReference", "core.v1.ConfigMapKeySelector", "core.v1.EndpointAddress",
    "core.v1.EndpointPort", "core.v1.FileKeySelector", "core.v1.LocalObjectReference", "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm", "core.v1.ObjectFieldSelector", "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector", "core.v1.ScopeSelector", "core.v1.SecretKeySelector", "core.v1.SecretReference",
    "core.v1.TopologySelectorTerm", "core.v1.TypedLocalObjectReference", "discovery.v1.EndpointPort",
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
    "networking.v1.ServiceBackendPort", "rbac.v1.RoleRef", "rbac.v1.Subject",
})  # fmt: skip

# Kinds that stand within objects of others, with their apiVersion and kind.
_KINDS_WITHIN = frozenset({"core.v1.PersistentVolumeClaim"})

_FORMATS: dict[str, Schema] = {
    "int": {"type": "integer"},
    "int32": {"type": "integer", "format": "int32"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "micro-time": {"type": "string", "format": "micro-time"},  # clients are told `date-time`, which it is too
    "byte": {"type": "string", "format": "byte"},
}
# How generators of CRDs write a quantity.
_QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    "x-kubernetes-int-or-string": True,
}
_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    datetime: {"type": "string", "format": "date-time"},
    bytes: {"type": "string", "format": "byte"},
}

# Modules of kinds that are CRDs upstream, and of what upstream annotates for CRDs.
_CUSTOM_MODULES = ("muster.api.jobset", "muster.api.kueue", "muster.api.podgroups", "muster.api.meta")

_FIELD_LINE = re.compile(r"^(\w+): (.+)$", re.MULTILINE)

TYPE_META: dict[str, Schema] = {
    "apiVersion": {"type": "string", "description": "Version of the API that the object is written in."},
    "kind": {"type": "string", "description": "Kind of the object."},
}
_BARE_TYPE_META: dict[str, Schema] = {name: {"type": "string"} for name in TYPE_META}


def component_name(type_: type) -> str:
    """`io.k8s.api.core.v1.Pod`: the type's name in OpenAPI documents."""
    module = type_.__module__
    for prefix, package in _PACKAGES.items():
        if module == prefix or module.startswith(prefix + "."):
            return f"{package}.{type_.__name__}"
    return f"dev.{module}.{type_.__name__}"


def schema_of(type_: type) -> Schema:
    """The type's own schema; other types in it are `$ref`s to their components."""
    return _object(type_, _reference, documented=True)


def components(roots: Iterable[type]) -> dict[str, Schema]:
    """The schemas of the types and of all types in them, by component name."""
    found: dict[str, Schema] = {}
    waiting = list(roots)
    while waiting:
        type_ = waiting.pop()
        name = component_name(type_)
        if name not in found:
            found[name] = schema_of(type_)
            waiting += _structs_in(type_)
    return dict(sorted(found.items()))


def kind_components(kinds: Iterable[Kind[Any]]) -> dict[str, Schema]:
    """The components of kinds: their types carry apiVersion, kind and `x-kubernetes-group-version-kind`."""
    kinds = list(kinds)
    found = components(kind.type for kind in kinds)
    for kind in kinds:
        schema = found[component_name(kind.type)]
        schema["properties"] = dict(sorted((TYPE_META | schema["properties"]).items()))
        schema["x-kubernetes-group-version-kind"] = [kind.names]
    return found


@cache
def _inlined(type_: type) -> Schema:
    return _object(type_, _inlined, documented=False)


@cache
def _named(type_: type) -> Schema:
    return _object(type_, _named, documented=False) | {DEFINITION: component_name(type_)}


def named(kind: Kind[Any]) -> Schema:
    """As `inlined`, and each object says which component it is."""
    type_: type = kind.type
    schema = _named(type_)
    return schema | {"properties": _BARE_TYPE_META | schema["properties"]}


def inlined(kind: Kind[Any]) -> Schema:
    """One schema of the whole kind, apiVersion and kind included; without references, descriptions, `required`, `enum`.

    The same sub-schema object stands wherever a type is used again: do not change it.
    """
    type_: type = kind.type
    schema = _inlined(type_)
    return schema | {"properties": _BARE_TYPE_META | schema["properties"]}


def structural(kind: Kind[Any]) -> Schema:
    """One schema of the whole kind with all its rules, as in a CRD; `metadata` is the API server's own matter.

    The same sub-schema object stands wherever a type is used again: do not change it.
    """
    type_: type = kind.type
    schema = _structural(type_)
    return schema | {"properties": TYPE_META | schema["properties"] | {"metadata": {"type": "object"}}}


@cache
def _structural(type_: type) -> Schema:
    schema = _object(type_, _structural, documented=True)
    # Upstream's generators do not know the closed lists of words of the core types; their defaults come with pods.
    rules = type_.__module__.startswith(_CUSTOM_MODULES)
    properties = {name: _as_custom(member, rules=rules) for name, member in schema["properties"].items()}
    return schema | {"properties": properties}


def _as_custom(schema: Schema, *, rules: bool) -> Schema:
    """A member's schema as a CRD spells it; what is in named types is spelled so already."""
    if "oneOf" in schema:
        return {key: value for key, value in schema.items() if key != "oneOf"} | _QUANTITY
    result = schema if rules else {key: value for key, value in schema.items() if key not in ("enum", "default")}
    return result | {
        inner: _as_custom(schema[inner], rules=rules)
        for inner in ("items", "additionalProperties")
        if inner in schema and "properties" not in schema[inner]
    }


def _reference(type_: type) -> Schema:
    return {"$ref": f"#/components/schemas/{component_name(type_)}"}


def _object(type_: type, other: typing.Callable[[type], Schema], *, documented: bool) -> Schema:
    fields = _fields(type_)
    hints = _hints(type_)
    summary, docs = documentation(type_)
    properties = {}
    required = []
    for field in fields:
        schema, markers = _field(hints[field.name], other)
        if documented:
            _describe(schema, docs.get(field.name, ""), markers)
            if any(isinstance(marker, DefaultedField) for marker in markers):
                schema["default"] = msgspec.to_builtins(field.default)
        if any(isinstance(marker, RequiredField) for marker in markers) or field.required:
            required.append(field.encode_name)
        properties[field.encode_name] = schema
    name = component_name(type_).removeprefix("io.k8s.api.")
    if name in _KINDS_WITHIN:
        properties |= TYPE_META if documented else _BARE_TYPE_META
    result: Schema = {"type": "object", "properties": properties}
    if documented:
        result["description"] = summary
        if required:
            result["required"] = required
    if name in _ATOMIC_OBJECTS:
        result["x-kubernetes-map-type"] = "atomic"
    return result


def _describe(schema: Schema, description: str, markers: tuple[Any, ...]) -> None:
    if "$ref" in schema:
        # A reference stands alone in OpenAPI 3.0: what belongs to the field goes around it.
        schema["allOf"] = [{"$ref": schema.pop("$ref")}]
        schema.setdefault("default", {})
    if description:
        schema["description"] = description[0].upper() + description[1:]
    for marker in markers:
        if isinstance(marker, OneOf):
            schema["enum"] = list(marker.values)


def _field(hint: Any, other: typing.Callable[[type], Schema]) -> tuple[Schema, tuple[Any, ...]]:
    """The schema of a field's type, and the markers on it."""
    type_, markers = _bare(hint)
    schema = _value(type_, markers, other)
    for marker in markers:
        match marker:
            case ListRules():
                _add_list_rules(schema, marker)
            case AtomicMap():
                schema["x-kubernetes-map-type"] = "atomic"
            case GranularMap():
                schema["x-kubernetes-map-type"] = "granular"
            case Patched():
                schema["x-kubernetes-patch-strategy"] = marker.strategy
            case Limits():
                schema |= dict(marker.keywords)
            case Default():
                schema["default"] = marker.value
    return schema, markers


def _value(type_: Any, markers: tuple[Any, ...], other: typing.Callable[[type], Schema]) -> Schema:
    for marker in markers:
        if isinstance(marker, Format):
            return dict(_FORMATS[marker.name])
    if type_ in _SCALARS:
        return dict(_SCALARS[type_])
    if type_ is Any:
        return {"x-kubernetes-preserve-unknown-fields": True}
    if isinstance(type_, type) and issubclass(type_, Struct):
        return dict(other(type_))
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is tuple or origin is list:
        return {"type": "array", "items": _field(arguments[0], other)[0]}
    if origin is dict:
        if arguments[1] is Any:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return {"type": "object", "additionalProperties": _field(arguments[1], other)[0]}
    raise TypeError(f"no schema for {type_!r}")


def _add_list_rules(schema: Schema, rules: ListRules) -> None:
    schema["x-kubernetes-list-type"] = rules.type
    if rules.keys:
        schema["x-kubernetes-list-map-keys"] = list(rules.keys)
    if rules.patch_merge_key:
        schema["x-kubernetes-patch-merge-key"] = rules.patch_merge_key
    if rules.patch_strategy:
        schema["x-kubernetes-patch-strategy"] = rules.patch_strategy


def _bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type without `Annotated` and `| None`, and all the markers that stood around it."""
    markers: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is typing.Annotated:
            markers += hint.__metadata__
            hint = hint.__origin__
            continue
        if get_origin(hint) in (Union, types.UnionType):
            options = [option for option in get_args(hint) if option is not type(None)]
            if len(options) == 1:
                hint = options[0]
                continue
        return hint, markers


@cache
def _fields(type_: type) -> Sequence[msgspec.structs.FieldInfo]:
    return msgspec.structs.fields(type_)


@cache
def _hints(type_: type) -> Mapping[str, Any]:
    return typing.get_type_hints(type_, include_extras=True)


def _structs_in(type_: type) -> list[type]:
    found: list[type] = []
    waiting = list(_hints(type_).values())
    while waiting:
        hint, _ = _bare(waiting.pop())
        if isinstance(hint, type) and issubclass(hint, Struct):
            found.append(hint)
        else:
            waiting += [argument for argument in get_args(hint) if argument is not ...]
    return found


@cache
def documentation(type_: type) -> tuple[str, Mapping[str, str]]:
    """What the docstring says of the type, and of each of its fields (by Python name); bases speak for their own."""
    docs: dict[str, str] = {}
    for base in reversed(type_.__mro__):
        if issubclass(base, Struct):
            docs |= _FIELD_LINE.findall(re.sub(r"^ +", "", base.__doc__ or "", flags=re.MULTILINE))
    summary = (type_.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(summary.split()), docs
