"""Custom kinds in the documents, and what of them is made anew when one changes."""

from typing import Any

import msgspec
import pytest

from muster.api.kinds import Kind
from muster.cluster.apiserver.objects.views import SCALE
from muster.cluster.apiserver.openapi import OpenApi
from muster.cluster.apiserver.openapi.schemas import convert_custom_to_v2
from muster.cluster.apiserver.openapi.v2_protobuf import MEDIA_TYPE
from muster.cluster.apiserver.registry.builtin import BUILTIN
from muster.cluster.apiserver.registry.resources import Resource, Subresource, View

KIND: Kind[Any] = Kind("stable.example.com", "v1", "CronTab", "crontabs", dict)
NAME = "com.example.stable.v1.CronTab"
SPEC = {
    "type": "object",
    "description": "What is wanted.",
    "properties": {
        "port": {"x-kubernetes-int-or-string": True},
        "choice": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "replicas": {"type": "integer", "default": 1},
    },
}


def custom(kind: Kind[Any] = KIND, **properties: Any) -> Resource:
    schema = {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": SPEC} | properties}
    subresources = (
        Subresource("status", kind, ("get", "patch", "update"), View(kind)),
        Subresource("scale", SCALE, ("get",), View(SCALE)),
    )
    return Resource(kind, kind, View(kind), subresources=subresources, schema=schema, list_kind="CronTabs")


def read(openapi: OpenApi, path: str) -> Any:
    answer = openapi.find(path)
    assert answer is not None
    return msgspec.json.decode(answer.body)


def test_v3() -> None:
    document = read(OpenApi([*BUILTIN, custom()], "v1"), "/openapi/v3/apis/stable.example.com/v1")
    schema = document["components"]["schemas"][NAME]
    assert schema["properties"]["spec"] == SPEC  # as the definition has it
    assert schema["properties"]["metadata"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]
    gvk = {"group": "stable.example.com", "kind": "CronTab", "version": "v1"}
    assert schema["x-kubernetes-group-version-kind"] == [gvk]
    assert "com.example.stable.v1.CronTabs" in document["components"]["schemas"]
    single = document["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"]
    types = single["patch"]["requestBody"]["content"]
    assert "application/apply-patch+yaml" in types
    assert "application/strategic-merge-patch+json" not in types
    assert "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}/scale" in document["paths"]


def test_v2() -> None:
    openapi = OpenApi([*BUILTIN, custom()], "v1")
    schema = read(openapi, "/openapi/v2")["definitions"][NAME]
    assert schema["properties"]["spec"]["properties"] == {
        "port": {"x-kubernetes-int-or-string": True},
        "choice": {"type": "object"},
        "replicas": {"type": "integer"},
    }
    assert schema["properties"]["metadata"]["$ref"].startswith("#/definitions/")
    answer = openapi.find("/openapi/v2", MEDIA_TYPE)
    assert answer is not None
    assert NAME.encode() in answer.body


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True, "description": "d"}, {"description": "d"}),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
         {"x-kubernetes-preserve-unknown-fields": True}),
        ({"type": "array", "items": {"type": "string", "default": ""}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "object", "additionalProperties": {"anyOf": []}}, {"type": "object", "additionalProperties": {}}),
        ({"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
    ],
)  # fmt: skip
def test_what_v2_has_no_words_for_is_left_open(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert convert_custom_to_v2(schema) == expected


def test_a_change_of_one_definition_makes_one_document_anew() -> None:
    others = [*BUILTIN, custom(Kind("other.example.com", "v1", "Other", "others", dict))]
    openapi = OpenApi([*others, custom()], "v1")
    paths = ["/openapi/v3/api/v1", "/openapi/v3/apis/other.example.com/v1"]
    before = [openapi.find(path) for path in paths]
    old_index, old_v2 = openapi.find("/openapi/v3"), read(openapi, "/openapi/v2")
    openapi.serve([*others, custom(status={"type": "object"})])
    assert [openapi.find(path) for path in paths] == before
    assert all(new is old for new, old in zip([openapi.find(path) for path in paths], before, strict=True))
    assert openapi.find("/openapi/v3") != old_index
    new_v2 = read(openapi, "/openapi/v2")
    assert "status" in new_v2["definitions"][NAME]["properties"]
    new_v2["definitions"][NAME] = old_v2["definitions"][NAME]
    assert new_v2 == old_v2
    openapi.serve(others)
    assert openapi.find("/openapi/v3/apis/stable.example.com/v1") is None
    assert NAME not in read(openapi, "/openapi/v2")["definitions"]


def test_ways_into_a_pod_are_operations_without_a_body() -> None:
    paths = read(OpenApi(BUILTIN, "v1"), "/openapi/v3/api/v1")["paths"]
    item = paths["/api/v1/namespaces/{namespace}/pods/{name}/exec"]
    assert item.keys() == {"get", "post", "parameters"}
    assert item["get"]["x-kubernetes-action"] == "connect"
    assert item["get"]["operationId"] == "connectCoreV1GetNamespacedPodExec"
    assert {"command", "stdin", "tty"} <= {parameter["name"] for parameter in item["get"]["parameters"]}
