"""OpenAPI documents of the built-in resources: whole, consistent, and with what kubectl looks for."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.openapi import OpenApi
from muster.cluster.apiserver.registry.builtin import BUILTIN

openapi = OpenApi(BUILTIN, "v1.33.0")
RESOURCES = sorted((each for each in BUILTIN if "patch" in each.verbs), key=lambda resource: resource.name)


@cache
def document(path: str) -> Any:
    answer = openapi.find(path, "application/json")
    assert answer is not None
    assert answer.content_type == "application/json"
    return msgspec.json.decode(answer.body)


def group(kind: Any) -> str:
    return f"/openapi/v3/apis/{kind.api_version}" if kind.group else f"/openapi/v3/api/{kind.version}"


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


GROUPS = sorted({group(resource.kind) for resource in BUILTIN})


def test_the_index_leads_to_every_group_version_by_the_hash_of_its_document() -> None:
    paths = document("/openapi/v3")["paths"]
    assert sorted(f"/openapi/v3/{name}" for name in paths) == GROUPS
    for name, entry in paths.items():
        path, _, hash_ = entry["serverRelativeURL"].partition("?hash=")
        assert path == f"/openapi/v3/{name}"
        answer = openapi.find(path)
        assert answer is not None
        assert answer.hash == hash_


@pytest.mark.parametrize("path", GROUPS)
def test_v3_documents_are_consistent(path: str) -> None:
    found = document(path)
    assert found["openapi"].startswith("3.0")
    schemas = found["components"]["schemas"]
    for target in references(found):
        assert target.removeprefix("#/components/schemas/") in schemas
    ids = [operation["operationId"] for operation in _operations(found)]
    assert len(ids) == len(set(ids))
    kinds = [
        (gvk["group"], gvk["version"], gvk["kind"])
        for schema in schemas.values()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
    ]
    assert len(kinds) == len(set(kinds))


def _operations(found: Any) -> Iterator[Any]:
    for item in found["paths"].values():
        yield from (operation for method, operation in item.items() if method != "parameters")


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.name)
def test_what_kubectl_looks_for(resource: Any) -> None:
    kind = resource.kind
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    found = document(group(kind))
    single = found["paths"][kind.path("{namespace}", "{name}")]
    patch = single["patch"]
    assert patch["x-kubernetes-group-version-kind"] == gvk
    assert {"fieldValidation", "fieldManager", "dryRun", "force"} <= {p["name"] for p in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert found["paths"][kind.path("{namespace}")]["get"]["x-kubernetes-group-version-kind"] == gvk
    [schema] = [
        schema
        for schema in found["components"]["schemas"].values()
        if gvk in schema.get("x-kubernetes-group-version-kind", ())
    ]
    assert {"apiVersion", "kind", "metadata"} <= schema["properties"].keys()
    assert schema["description"]
    assert all(member.get("description") for member in schema["properties"].values())


def test_merge_keys_and_names_of_values_of_several_types() -> None:
    schemas = document("/openapi/v3/api/v1")["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["items"] == {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}
    limits = schemas["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"]
    assert limits["additionalProperties"] == {
        "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
    }
    port = schemas["io.k8s.api.core.v1.HTTPGetAction"]["properties"]["port"]
    assert port["allOf"] == [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"}]
    lists = schemas["io.k8s.api.core.v1.PodList"]
    assert lists["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "PodList"}]


def test_subresources_are_operations_too() -> None:
    paths = document("/openapi/v3/api/v1")["paths"]
    pod = "/api/v1/namespaces/{namespace}/pods/{name}"
    assert paths[f"{pod}/log"]["get"]["responses"]["200"]["content"].keys() == {"text/plain"}
    assert paths[f"{pod}/binding"].keys() == {"post", "parameters"}
    assert paths[f"{pod}/eviction"]["post"]["x-kubernetes-group-version-kind"]["kind"] == "Eviction"
    assert "/api/v1/namespaces/{namespace}/bindings/{name}" not in paths
    assert paths[f"{pod}/status"].keys() == {"get", "put", "patch", "parameters"}
    jobs = document("/openapi/v3/apis/batch/v1")["paths"]
    scale = jobs["/apis/batch/v1/namespaces/{namespace}/jobs/{name}/scale"]
    assert scale["get"]["x-kubernetes-group-version-kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


def test_v2() -> None:
    found = document("/openapi/v2")
    assert found["swagger"] == "2.0"
    text = msgspec.json.encode(found)
    assert b"oneOf" not in text
    assert b"allOf" not in text
    assert b"/components/" not in text
    for target in references(found):
        assert target.removeprefix("#/definitions/") in found["definitions"]
    ids = [operation["operationId"] for operation in _operations(found)]
    assert len(ids) == len(set(ids))
    patch = found["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["consumes"]
    assert {"in": "body", "name": "body"}.items() <= patch["parameters"][-1].items()


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "application/com.github.proto-openapi.spec.v2.v1.0+json, */*"]
)
def test_accepted(accept: str) -> None:
    assert openapi.find("/openapi/v2", accept) is openapi.find("/openapi/v2")


def test_v3_is_not_there_in_protobuf_and_other_paths_are_not_there_at_all() -> None:
    for path in ("/openapi/v3", "/openapi/v3/api/v1"):
        with pytest.raises(ApiError) as error:
            openapi.find(path, "application/com.github.proto-openapi.spec.v3.v1.0+protobuf")
        assert error.value.code == 406
    for path in ("/openapi", "/openapi/v3/api/v9", "/openapi/v3/", "/openapi/v4"):
        assert openapi.find(path) is None or path == "/openapi/v3/"


def test_every_process_makes_the_same_documents() -> None:
    other = OpenApi(reversed(list(BUILTIN)), "v1.33.0").find("/openapi/v3")
    mine = openapi.find("/openapi/v3")
    assert other is not None
    assert mine is not None
    assert other.body == mine.body
