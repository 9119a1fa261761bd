"""The OpenAPI v3 and v2 documents, rendered from the paths of `operations` and the components of `schemas`.

`OpenApi` renders a document when a client first requests it. The parts of a group version are cached as long as its
resources stay the same. So after a change of one definition, only its group version is rendered again.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from muster.api.status import not_acceptable
from muster.cluster.apiserver.openapi import v2_protobuf
from muster.cluster.apiserver.openapi.operations import Operation, Parameter, PathItem, paths_of
from muster.cluster.apiserver.openapi.schemas import (
    component_of,
    convert_custom_to_v2,
    convert_to_v2,
    make_reference,
    schemas_of,
)
from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.apiserver.static import JSON, StaticAnswer, parse_accept, static_answer, static_bytes

_V2_JSON = "application/com.github.proto-openapi.spec.v2.v1.0+json"


class OpenApi:
    """The OpenAPI documents of a set of resources, owned by the API server.

    version: the version of the server, as in `/version`.
    """

    def __init__(self, resources: Iterable[Resource], version: str) -> None:
        self._info = {"title": "Kubernetes", "version": version}
        self._groups: dict[str, _GroupVersion] = {}
        self._answers: dict[tuple[str, str], StaticAnswer] = {}  # the documents of all groups, by path and content type
        self.serve(resources)

    def serve(self, resources: Iterable[Resource]) -> None:
        """Replace the resources. Group versions whose resources are unchanged keep their rendered parts."""
        before, self._groups = self._groups, {}
        self._answers.clear()
        for name, members in _group_by_version(resources).items():
            group = before.get(name)
            is_unchanged = group is not None and group.resources == members
            self._groups[name] = group if group is not None and is_unchanged else _GroupVersion(members, self._info)

    def find(self, path: str, accept: str = "") -> StaticAnswer | None:
        """Return the document at a path; None if there is none.

        Raises `ApiError` (406) if the client accepts no media type of the document.

        accept: the Accept header; "" accepts any type.
        """
        path = path.rstrip("/")
        if path not in ("/openapi/v2", "/openapi/v3") and path.removeprefix("/openapi/v3/") not in self._groups:
            return None
        for media_type, _ in parse_accept(accept):
            if media_type in (JSON, _V2_JSON, "application/*", "*/*"):
                return self._make_answer(path, JSON)
            if media_type in (v2_protobuf.MEDIA_TYPE, v2_protobuf.CONTENT_TYPE) and path == "/openapi/v2":
                return self._make_answer(path, v2_protobuf.CONTENT_TYPE)
        raise not_acceptable()

    def _make_answer(self, path: str, content_type: str) -> StaticAnswer:
        group = self._groups.get(path.removeprefix("/openapi/v3/"))
        if group is not None:
            return group.v3
        answer = self._answers.get((path, content_type))
        if answer is None:
            if path == "/openapi/v3":
                answer = static_answer(self._make_index())
            elif content_type == JSON:
                answer = static_answer(self._make_v2())
            else:
                answer = static_bytes(self._encode_v2_protobuf(), content_type)
            self._answers[path, content_type] = answer
        return answer

    def _make_index(self) -> dict[str, Any]:
        """Return the URLs of the documents of all group versions.

        Each URL has the hash of its document, so that clients can cache the document until it changes.
        """
        groups = self._groups.items()
        urls = {name: f"/openapi/v3/{name}?hash={group.v3.hash}" for name, group in groups}
        return {"paths": {name: {"serverRelativeURL": url} for name, url in urls.items()}}

    def _make_v2(self) -> dict[str, Any]:
        definitions: dict[str, msgspec.Raw] = {}
        paths: dict[str, msgspec.Raw] = {}
        for group in self._groups.values():
            definitions |= group.v2_definitions
            paths |= group.v2_paths
        return {"swagger": "2.0", "info": self._info, "paths": paths, "definitions": dict(sorted(definitions.items()))}

    def _encode_v2_protobuf(self) -> bytes:
        definitions: dict[str, bytes] = {}
        for group in self._groups.values():
            definitions |= group.protobuf_definitions
        paths = [group.protobuf_paths for group in self._groups.values()]
        return v2_protobuf.encode_document(self._info, paths, [definitions[name] for name in sorted(definitions)])


class _GroupVersion:
    """The documents of one group version, and its parts of the documents of all group versions, each rendered once.

    v3 has a document for each group version, and v2 has one for all of them.
    """

    def __init__(self, resources: Sequence[Resource], info: Mapping[str, str]) -> None:
        self.resources = resources
        self._info = info

    @cached_property
    def v3(self) -> StaticAnswer:
        """The OpenAPI v3 document."""
        return static_answer({
            "openapi": "3.0.0",
            "info": self._info,
            "paths": {item.path: _make_v3_path(item) for item in self._items},
            "components": {"schemas": self._schemas},
        })  # fmt: skip

    @cached_property
    def v2_paths(self) -> dict[str, msgspec.Raw]:
        """The path items of OpenAPI v2 as JSON, by path."""
        return {item.path: _encode_raw(_make_v2_path(item)) for item in self._items}

    @cached_property
    def v2_definitions(self) -> dict[str, msgspec.Raw]:
        """The definitions of OpenAPI v2 as JSON, by name."""
        return {name: _encode_raw(schema) for name, schema in self._v2_schemas.items()}

    @cached_property
    def protobuf_paths(self) -> bytes:
        """The paths of OpenAPI v2 in protobuf."""
        return v2_protobuf.encode_paths({item.path: _make_v2_path(item) for item in self._items})

    @cached_property
    def protobuf_definitions(self) -> dict[str, bytes]:
        """The definitions of OpenAPI v2 in protobuf, by name."""
        return {name: v2_protobuf.encode_definition(name, schema) for name, schema in self._v2_schemas.items()}

    @property
    def _items(self) -> list[PathItem]:
        return [item for resource in self.resources for item in paths_of(resource)]

    @property
    def _schemas(self) -> dict[str, Any]:
        return schemas_of(self.resources)

    @property
    def _v2_schemas(self) -> dict[str, Any]:
        custom = {component_of(resource.kind) for resource in self.resources if resource.kind.type is dict}
        return {
            name: convert_custom_to_v2(schema) if name in custom else convert_to_v2(schema)
            for name, schema in self._schemas.items()
        }


def _group_by_version(resources: Iterable[Resource]) -> dict[str, list[Resource]]:
    """Return the resources by the name of their group version's document, such as `api/v1` or `apis/batch/v1`."""
    groups: dict[str, list[Resource]] = {}
    for resource in sorted(resources, key=lambda r: (r.kind.group, r.kind.version, r.kind.plural)):
        kind = resource.kind
        name = f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"
        groups.setdefault(name, []).append(resource)
    return groups


def _encode_raw(document: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(document))


def _make_v3_path(item: PathItem) -> dict[str, Any]:
    operations = {operation.method: _make_v3_operation(operation) for operation in item.operations}
    return operations | {"parameters": [_make_v3_parameter(parameter) for parameter in item.parameters]}


def _make_v3_operation(operation: Operation) -> dict[str, Any]:
    content = (
        {JSON: {"schema": make_reference(operation.result)}} if operation.result else {"text/plain": {"schema": _TEXT}}
    )
    written = _make_common_parts(operation) | {
        "parameters": [_make_v3_parameter(parameter) for parameter in operation.parameters],
        "responses": {"200": {"description": "OK", "content": content}},
    }
    if operation.body:
        body = {"schema": make_reference(operation.body)}
        written["requestBody"] = {
            "content": dict.fromkeys(operation.body_types, body),
            "required": operation.method != "delete",
        }
    return written


_TEXT = {"type": "string"}


def _make_v3_parameter(parameter: Parameter) -> dict[str, Any]:
    return _make_parameter(parameter) | {"schema": {"type": parameter.type, "uniqueItems": True}}


def _make_v2_path(item: PathItem) -> dict[str, Any]:
    operations = {operation.method: _make_v2_operation(operation) for operation in item.operations}
    return operations | {"parameters": [_make_v2_parameter(parameter) for parameter in item.parameters]}


def _make_v2_operation(operation: Operation) -> dict[str, Any]:
    parameters = [_make_v2_parameter(parameter) for parameter in operation.parameters]
    if operation.body:
        body = {"name": "body", "in": "body", "schema": convert_to_v2(make_reference(operation.body))}
        parameters.append(body | {"required": operation.method != "delete"})
    return _make_common_parts(operation) | {
        "consumes": list(operation.body_types),
        "produces": [JSON if operation.result else "text/plain"],
        "schemes": ["https"],
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "OK",
                "schema": convert_to_v2(make_reference(operation.result)) if operation.result else _TEXT,
            }
        },
    }


def _make_v2_parameter(parameter: Parameter) -> dict[str, Any]:
    return _make_parameter(parameter) | {"type": parameter.type, "uniqueItems": True}


def _make_parameter(parameter: Parameter) -> dict[str, Any]:
    written = {"name": parameter.name, "in": parameter.where, "description": parameter.description}
    return written | ({"required": True} if parameter.where == "path" else {})


def _make_common_parts(operation: Operation) -> dict[str, Any]:
    kind = operation.kind
    group = kind.group.partition(".")[0] or "core"
    return {
        "tags": [f"{group}_{kind.version}"],
        "description": operation.description,
        "operationId": operation.id,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": kind.names,
    }
