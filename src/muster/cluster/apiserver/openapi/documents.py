"""The documents themselves: paths and components written out as OpenAPI v3 and v2, each made when first asked for."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from muster.api.kinds import Kind
from muster.api.status import not_acceptable
from muster.cluster.apiserver.openapi import v2_protobuf
from muster.cluster.apiserver.openapi.operations import Operation, Parameter, PathItem, paths_of
from muster.cluster.apiserver.openapi.schemas import as_v2, reference, schemas_of
from muster.cluster.apiserver.registry import Resource
from muster.cluster.apiserver.static import JSON, StaticAnswer, accepted, static_answer, static_bytes

_V2_JSON = "application/com.github.proto-openapi.spec.v2.v1.0+json"


class OpenApi:
    """All OpenAPI documents of a set of resources; `version` is the server's, as `/version` has it."""

    def __init__(self, resources: Iterable[Resource], version: str) -> None:
        self._resources = sorted(resources, key=lambda r: (r.kind.group, r.kind.version, r.kind.plural))
        self._info = {"title": "Kubernetes", "version": version}
        self._answers: dict[tuple[str, str], StaticAnswer] = {}  # by path and content type

    def find(self, path: str, accept: str = "") -> StaticAnswer | None:
        """The document at a path, None if there is none. Raises `ApiError` (406)."""
        path = path.rstrip("/")
        if path not in ("/openapi/v2", "/openapi/v3") and path.removeprefix("/openapi/v3/") not in self._groups:
            return None
        for media_type, _ in accepted(accept):
            if media_type in (JSON, _V2_JSON, "application/*", "*/*"):
                return self._made(path, JSON)
            if media_type in (v2_protobuf.MEDIA_TYPE, v2_protobuf.CONTENT_TYPE) and path == "/openapi/v2":
                return self._made(path, v2_protobuf.CONTENT_TYPE)
        raise not_acceptable("only the following media types are accepted: application/json")

    def _made(self, path: str, content_type: str) -> StaticAnswer:
        answer = self._answers.get((path, content_type))
        if answer is None:
            document = self._document(path)
            if content_type == JSON:
                answer = static_answer(document)
            else:
                answer = static_bytes(v2_protobuf.encode(document), content_type)
            self._answers[path, content_type] = answer
        return answer

    @cached_property
    def _groups(self) -> dict[str, list[Resource]]:
        """Resources by the name of their group version's document: `api/v1`, `apis/batch/v1`."""
        groups: dict[str, list[Resource]] = {}
        for resource in self._resources:
            kind = resource.kind
            name = f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"
            groups.setdefault(name, []).append(resource)
        return groups

    def _document(self, path: str) -> dict[str, Any]:
        if path == "/openapi/v2":
            return _v2(self._resources, self._info)
        if path != "/openapi/v3":
            return _v3(self._groups[path.removeprefix("/openapi/v3/")], self._info)
        urls = {name: self._url(name) for name in self._groups}
        return {"paths": {name: {"serverRelativeURL": url} for name, url in urls.items()}}

    def _url(self, group: str) -> str:
        """Where a group version's document is; the hash lets clients keep it as long as it stays the same."""
        return f"/openapi/v3/{group}?hash={self._made(f'/openapi/v3/{group}', JSON).hash}"


def _v3(resources: Sequence[Resource], info: dict[str, str]) -> dict[str, Any]:
    items = [item for resource in resources for item in paths_of(resource)]
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": {item.path: _v3_path(item) for item in items},
        "components": {"schemas": _schemas(resources)},
    }


def _schemas(resources: Sequence[Resource]) -> dict[str, Any]:
    """The components of the kinds of the resources and their subresources."""
    kinds: dict[type, Kind[Any]] = {}
    for resource in resources:
        for kind in (resource.kind, *(sub.kind for sub in resource.subresources)):
            kinds.setdefault(kind.type, kind)
    return schemas_of(kinds.values(), [resource.kind for resource in resources if "list" in resource.verbs])


def _v3_path(item: PathItem) -> dict[str, Any]:
    operations = {operation.method: _v3_operation(operation) for operation in item.operations}
    return operations | {"parameters": [_v3_parameter(parameter) for parameter in item.parameters]}


def _v3_operation(operation: Operation) -> dict[str, Any]:
    content = {JSON: {"schema": reference(operation.result)}} if operation.result else {"text/plain": {"schema": _TEXT}}
    written = _common(operation) | {
        "parameters": [_v3_parameter(parameter) for parameter in operation.parameters],
        "responses": {"200": {"description": "OK", "content": content}},
    }
    if operation.body:
        body = {"schema": reference(operation.body)}
        written["requestBody"] = {
            "content": dict.fromkeys(operation.body_types, body),
            "required": operation.method != "delete",
        }
    return written


_TEXT = {"type": "string"}


def _v3_parameter(parameter: Parameter) -> dict[str, Any]:
    return _parameter(parameter) | {"schema": {"type": parameter.type, "uniqueItems": True}}


def _v2(resources: Sequence[Resource], info: dict[str, str]) -> dict[str, Any]:
    items = [item for resource in resources for item in paths_of(resource)]
    schemas = _schemas(resources)
    return {
        "swagger": "2.0",
        "info": info,
        "paths": {item.path: _v2_path(item) for item in items},
        "definitions": {name: as_v2(schema) for name, schema in schemas.items()},
    }


def _v2_path(item: PathItem) -> dict[str, Any]:
    operations = {operation.method: _v2_operation(operation) for operation in item.operations}
    return operations | {"parameters": [_v2_parameter(parameter) for parameter in item.parameters]}


def _v2_operation(operation: Operation) -> dict[str, Any]:
    parameters = [_v2_parameter(parameter) for parameter in operation.parameters]
    if operation.body:
        body = {"name": "body", "in": "body", "schema": as_v2(reference(operation.body))}
        parameters.append(body | {"required": operation.method != "delete"})
    return _common(operation) | {
        "consumes": list(operation.body_types),
        "produces": [JSON if operation.result else "text/plain"],
        "schemes": ["https"],
        "parameters": parameters,
        "responses": {
            "200": {"description": "OK", "schema": as_v2(reference(operation.result)) if operation.result else _TEXT}
        },
    }


def _v2_parameter(parameter: Parameter) -> dict[str, Any]:
    return _parameter(parameter) | {"type": parameter.type, "uniqueItems": True}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    written = {"name": parameter.name, "in": parameter.where, "description": parameter.description}
    return written | ({"required": True} if parameter.where == "path" else {})


def _common(operation: Operation) -> dict[str, Any]:
    kind = operation.kind
    group = kind.group.partition(".")[0] or "core"
    return {
        "tags": [f"{group}_{kind.version}"],
        "description": operation.description,
        "operationId": operation.id,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    }
