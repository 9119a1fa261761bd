"""The OpenAPI v3 schemas of the served kinds.

The schemas of Kubernetes' own kinds are those that Kubernetes publishes (`muster.api.published`). The schemas of all
other kinds, and of the metadata, come from their Structs. The types determine what a field is, the markers
(`muster.api.markers`) how it is encoded and merged, and the docstrings its description. There are three forms:

- `list_components`, named as in upstream (`io.k8s.api.core.v1.Pod`) and linked by `$ref`, for clients;
- `make_inlined_schema`, one schema without references, for pruning and strategic merge on the server;
- `make_structural_schema`, one schema without references and with all its rules, as in a CRD.

Only the first and the third form have `required` and `enum`. `muster.api.validation` checks these rules of built-in
kinds, in the API server's words. The structural schema checks the kinds that are CRDs upstream.
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias, Union, get_args, get_origin

import msgspec

from muster.api import meta, published
from muster.api.kinds import Kind
from muster.api.markers import (
    AtomicMap,
    DefaultedField,
    Format,
    Limits,
    ListRules,
    OneOf,
    RequiredField,
)
from muster.api.meta import Struct

Schema = dict[str, Any]
# A component of OpenAPI: a Muster type, or a name in Kubernetes' own data.
Component: TypeAlias = type | str

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
    "muster.api.volcano": "sh.volcano.batch.v1alpha1",
    "muster.api.podgroups.coscheduling": "io.x-k8s.scheduling.v1alpha1",
    "muster.api.podgroups.sigs": "dev.sigs.scheduling.v1alpha2",
    "muster.api.podgroups": "io.k8s.incubator.scheduling.v1alpha1",
}

# The keyword with the type that an object schema describes (`io.k8s.api.core.v1.Container`), in the schemas of `named`.
DEFINITION = "x-muster-definition"

# The objects that server-side apply replaces as a whole (`+structType=atomic`).
_ATOMIC_OBJECTS = frozenset({
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
})  # fmt: skip

_FORMATS: dict[str, Schema] = {
    "int": {"type": "integer"},
    "int32": {"type": "integer", "format": "int32"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "micro-time": {"type": "string", "format": "micro-time"},  # clients get `date-time` instead
    "byte": {"type": "string", "format": "byte"},
    "object": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
# A quantity as generators of CRDs write it.
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

# The description of a field in a docstring. Its continuation lines are indented.
_FIELD = re.compile(r"^(\w+): (.+(?:\n +.+)*)$", re.MULTILINE)

TYPE_META: dict[str, Schema] = {
    "apiVersion": {"type": "string", "description": "Version of the API that the object is written in."},
    "kind": {"type": "string", "description": "Kind of the object."},
}
_BARE_TYPE_META: dict[str, Schema] = {name: {"type": "string"} for name in TYPE_META}


def component_name(type_: type) -> str:
    """Return the name of a type in OpenAPI documents: `io.k8s.api.core.v1.Pod`."""
    module = type_.__module__
    for prefix, package in _PACKAGES.items():
        if module == prefix or module.startswith(prefix + "."):
            return f"{package}.{type_.__name__}"
    return f"dev.{module}.{type_.__name__}"


def component_of_kind(kind: Kind[Any]) -> str:
    """Return the name of a kind's component in OpenAPI documents."""
    return published.component_of_kind(kind.group, kind.version, kind.kind) or component_name(kind.type)


def schema_of(component: Component) -> Schema:
    """Return a new copy of a component's schema, which refers to other components by `$ref`."""
    name, type_ = _identify(component)
    return published.schema_of(name) or _make_object_schema(type_, _make_reference, documented=True)


def list_components(roots: Iterable[Component]) -> dict[str, Schema]:
    """Return the schemas of components, and of all components to which they refer, by name."""
    schemas: dict[str, Schema] = {}
    waiting = list(roots)
    while waiting:
        component = waiting.pop()
        name, _ = _identify(component)
        if name not in schemas:
            schemas[name] = schema_of(component)
            waiting += _list_components_in(component)
    return dict(sorted(schemas.items()))


def kind_components(kinds: Iterable[Kind[Any]]) -> dict[str, Schema]:
    """Return the schemas of kinds, with apiVersion and kind, and of all components to which they refer, by name."""
    kinds = list(kinds)
    schemas = list_components(_make_root_component(kind) for kind in kinds)
    for kind in kinds:
        schema = schemas[component_of_kind(kind)]
        schema["properties"] = dict(sorted((TYPE_META | schema["properties"]).items()))
        schema["x-kubernetes-group-version-kind"] = [kind.names]
    return schemas


def inline_with_names(kind: Kind[Any]) -> Schema:
    """Return the schema as `make_inlined_schema` does, in which each object also names its component."""
    schema = _make_named(_make_root_component(kind))
    return schema | {"properties": _BARE_TYPE_META | schema["properties"]}


def make_inlined_schema(kind: Kind[Any]) -> Schema:
    """Return one schema of the whole kind, apiVersion and kind included.

    The schema has no references, descriptions, `required` and `enum`. The occurrences of a type share one object, so
    callers must not change it.
    """
    schema = _make_inlined(_make_root_component(kind))
    return schema | {"properties": _BARE_TYPE_META | schema["properties"]}


def make_structural_schema(kind: Kind[Any]) -> Schema:
    """Return one schema of the whole kind with all its rules, as in a CRD.

    The schema leaves `metadata` to the API server. The occurrences of a type share one object, so callers must not
    change it.
    """
    schema = _make_structural(_make_root_component(kind))
    return schema | {"properties": TYPE_META | schema["properties"] | {"metadata": {"type": "object"}}}


def _make_root_component(kind: Kind[Any]) -> Component:
    return published.component_of_kind(kind.group, kind.version, kind.kind) or kind.type


def _identify(component: Component) -> tuple[str, type]:
    """Return the name and the type of a component. Published data refer to components of the metadata by name."""
    if isinstance(component, str):
        return component, vars(meta).get(component.rpartition(".")[2], dict)
    return component_name(component), component


@cache
def _make_inlined(component: Component) -> Schema:
    name, type_ = _identify(component)
    schema = published.schema_of(name)
    return (
        _make_object_schema(type_, _make_inlined, documented=False)
        if schema is None
        else _replace_references(schema, _make_inlined)
    )


@cache
def _make_named(component: Component) -> Schema:
    name, type_ = _identify(component)
    schema = published.schema_of(name)
    whole = (
        _make_object_schema(type_, _make_named, documented=False)
        if schema is None
        else _replace_references(schema, _make_named)
    )
    return whole | {DEFINITION: name}


@cache
def _make_structural(component: Component) -> Schema:
    name, type_ = _identify(component)
    schema = published.schema_of(name)
    if schema is None:
        schema, rules = _make_object_schema(type_, _make_structural, documented=True), True
    else:
        # Upstream's generators omit enums and defaults of the core types. Pods get the defaults when they are created.
        schema, rules = _replace_references(schema, _make_structural, documented=True), False
    properties = {name: _as_custom(member, rules=rules) for name, member in schema["properties"].items()}
    return schema | {"properties": properties}


def _replace_references(schema: Schema, other: Callable[[str], Schema], *, documented: bool = False) -> Schema:
    """Return a published schema with each `$ref` replaced by the component that it names.

    other: returns the schema of the component with this name.
    documented: whether to keep descriptions, required fields and enums.
    """
    result: Schema = {}
    for keyword, value in schema.items():
        match keyword:
            case "$ref" | "allOf":
                name = (value if keyword == "$ref" else value[0]["$ref"]).rpartition("/")[2]
                result = dict(other(name)) | result
            case "properties":
                result[keyword] = {
                    name: _replace_references(member, other, documented=documented) for name, member in value.items()
                }
            case "items" | "additionalProperties":
                result[keyword] = _replace_references(value, other, documented=documented)
            case "x-kubernetes-group-version-kind":
                continue
            case "description" | "required" | "enum" if not documented:
                continue
            case "default" if value == {}:
                continue
            case _:
                result[keyword] = value
    return result


def _as_custom(schema: Schema, *, rules: bool) -> Schema:
    """Return a field's schema in the form that CRDs use; the types inside it must have that form already."""
    if "oneOf" in schema:
        return {key: value for key, value in schema.items() if key != "oneOf"} | _QUANTITY
    result = schema if rules else {key: value for key, value in schema.items() if key not in ("enum", "default")}
    return result | {
        inner: _as_custom(schema[inner], rules=rules)
        for inner in ("items", "additionalProperties")
        if inner in schema and "properties" not in schema[inner]
    }


def _make_reference(type_: type) -> Schema:
    return {"$ref": f"#/components/schemas/{component_name(type_)}"}


def _make_object_schema(type_: type[Struct], other: Callable[[type], Schema], *, documented: bool) -> Schema:
    hints = _get_hints(type_)
    summary, docs = read_documentation(type_)
    properties = {}
    required = []
    for name, wire_name, default in _list_fields(type_):
        schema, markers = _make_field_schema(hints[name], other)
        if documented:
            _describe(schema, docs.get(name, ""), markers)
            if any(isinstance(marker, DefaultedField) for marker in markers):
                schema["default"] = msgspec.to_builtins(default)
        if any(isinstance(marker, RequiredField) for marker in markers) or default is msgspec.NODEFAULT:
            required.append(wire_name)
        properties[wire_name] = schema
    result: Schema = {"type": "object", "properties": properties}
    if documented:
        result["description"] = summary
        if required:
            result["required"] = required
    if component_name(type_) in _ATOMIC_OBJECTS:
        result["x-kubernetes-map-type"] = "atomic"
    return result


def _describe(schema: Schema, description: str, markers: tuple[Any, ...]) -> None:
    if "$ref" in schema:
        # A reference has no siblings in OpenAPI 3.0, so the keywords of the field go around it.
        schema["allOf"] = [{"$ref": schema.pop("$ref")}]
        schema.setdefault("default", {})
    if description:
        schema["description"] = description[0].upper() + description[1:]
    for marker in markers:
        if isinstance(marker, OneOf):
            schema["enum"] = list(marker.values)


def _make_field_schema(hint: Any, other: Callable[[type], Schema]) -> tuple[Schema, tuple[Any, ...]]:
    """Return the schema of a field's type, and the markers on it."""
    type_, markers = _strip_hint(hint)
    schema = _make_value_schema(type_, markers, other)
    for marker in markers:
        match marker:
            case ListRules():
                _add_list_rules(schema, marker)
            case AtomicMap():
                schema["x-kubernetes-map-type"] = "atomic"
            case Limits():
                schema |= dict(marker.keywords)
    return schema, markers


def _make_value_schema(type_: Any, markers: tuple[Any, ...], other: Callable[[type], Schema]) -> Schema:
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
        return {"type": "array", "items": _make_field_schema(arguments[0], other)[0]}
    if origin is dict:
        if arguments[1] is Any:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return {"type": "object", "additionalProperties": _make_field_schema(arguments[1], other)[0]}
    raise TypeError(f"no schema for {type_!r}")


def _add_list_rules(schema: Schema, rules: ListRules) -> None:
    schema["x-kubernetes-list-type"] = rules.type
    if rules.keys:
        schema["x-kubernetes-list-map-keys"] = list(rules.keys)
    if rules.patch_merge_key:
        schema["x-kubernetes-patch-merge-key"] = rules.patch_merge_key
    if rules.patch_strategy:
        schema["x-kubernetes-patch-strategy"] = rules.patch_strategy


def _strip_hint(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type without `Annotated` and `| None`, and the markers that were around it."""
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


def _list_fields(type_: type[Struct]) -> Iterator[tuple[str, str, Any]]:
    """Yield each field's Python name, JSON name and default (or NODEFAULT), without evaluating the field's type."""
    names, defaults = type_.__struct_fields__, type_.__struct_defaults__
    without = (msgspec.NODEFAULT,) * (len(names) - len(defaults))
    yield from zip(names, type_.__struct_encode_fields__, without + defaults, strict=True)


@cache
def _get_hints(type_: type) -> Mapping[str, Any]:
    return typing.get_type_hints(type_, include_extras=True)


def _list_components_in(component: Component) -> list[Component]:
    name, type_ = _identify(component)
    if (schema := published.schema_of(name)) is not None:
        return list(_list_names_in(schema))
    members: list[Component] = []
    waiting = list(_get_hints(type_).values())
    while waiting:
        hint, _ = _strip_hint(waiting.pop())
        if isinstance(hint, type) and issubclass(hint, Struct):
            members.append(hint)
        else:
            waiting += [argument for argument in get_args(hint) if argument is not ...]
    return members


def _list_names_in(schema: Any) -> Iterator[str]:
    """Yield the names of the components that a schema refers to."""
    if isinstance(schema, dict):
        for keyword, value in schema.items():
            if keyword == "$ref":
                yield value.rpartition("/")[2]
            else:
                yield from _list_names_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _list_names_in(value)


@cache
def read_documentation(type_: type) -> tuple[str, Mapping[str, str]]:
    """Return the description of a type from its docstring, and the descriptions of its fields by Python name.

    The descriptions of fields are in the docstrings of the type and of its base classes.
    """
    docs: dict[str, str] = {}
    for base in reversed(type_.__mro__):
        if issubclass(base, Struct):
            fields = _FIELD.findall(inspect.cleandoc(base.__doc__ or ""))
            docs |= {name: " ".join(text.split()) for name, text in fields}
    summary = (type_.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(summary.split()), docs
