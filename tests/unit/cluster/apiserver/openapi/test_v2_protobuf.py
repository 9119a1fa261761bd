"""The v2 document in protobuf, read back by the few numbers of gnostic's messages that kubectl looks at."""

import json
from collections.abc import Iterator

import msgspec

from muster.cluster.apiserver.openapi import OpenApi
from muster.cluster.apiserver.openapi.v2_protobuf import CONTENT_TYPE, MEDIA_TYPE
from muster.cluster.apiserver.registry.builtin import BUILTIN

openapi = OpenApi(BUILTIN, "v1.33.0")


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        tag, position = varint(data, position)
        if tag & 7 == 0:
            _, position = varint(data, position)
            yield tag >> 3, b"\x01"
        else:
            assert tag & 7 == 2
            length, position = varint(data, position)
            yield tag >> 3, data[position : position + length]
            position += length
    assert position == len(data)


def varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[position] & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if data[position - 1] < 0x80:
            return value, position


def every(data: bytes, number: int) -> list[bytes]:
    return [value for found, value in fields(data) if found == number]


def one(data: bytes, *numbers: int) -> bytes:
    for number in numbers:
        [data] = every(data, number)
    return data


def named(entries: list[bytes]) -> dict[str, bytes]:
    return {one(entry, 1).decode(): one(entry, 2) for entry in entries}


def test_the_document() -> None:
    answer = openapi.find("/openapi/v2", MEDIA_TYPE)
    plain = openapi.find("/openapi/v2")
    assert answer is not None
    assert plain is not None
    assert answer.content_type == CONTENT_TYPE
    document = msgspec.json.decode(plain.body)
    assert one(answer.body, 1) == b"2.0"
    assert one(answer.body, 2, 2) == b"v1.33.0"

    definitions = named(every(one(answer.body, 9), 1))
    assert definitions.keys() == document["definitions"].keys()
    spec = definitions["io.k8s.api.core.v1.PodSpec"]
    assert one(spec, 22, 1) == b"object"
    assert every(spec, 19) == [b"containers"]
    members = named(every(one(spec, 25), 1))
    assert members.keys() == document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"].keys()
    assert one(members["containers"], 23, 1, 1) == b"#/definitions/io.k8s.api.core.v1.Container"
    extensions = named(every(members["containers"], 31))
    assert json.loads(one(extensions["x-kubernetes-patch-merge-key"], 2)) == "name"
    assert one(members["nodeSelector"], 21, 1, 22, 1) == b"string"
    pod = named(every(definitions["io.k8s.api.core.v1.Pod"], 31))
    assert json.loads(one(pod["x-kubernetes-group-version-kind"], 2)) == [{"group": "", "kind": "Pod", "version": "v1"}]

    paths = named(every(one(answer.body, 8), 2))
    assert paths.keys() == document["paths"].keys()
    patch = one(paths["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"], 8)
    assert b"application/strategic-merge-patch+json" in every(patch, 7)
    parameters = [one(parameter, 1) for parameter in every(patch, 8)]
    queries = [one(parameter, 2, 3) for parameter in parameters if every(parameter, 2)]
    assert {b"fieldValidation", b"dryRun"} <= {one(query, 4) for query in queries}
    assert one(parameters[-1], 1, 3) == b"body"
