"""Protobuf bodies: some that kubectl has sent, some built by hand, and nonsense."""

import base64
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.api.kueue import GROUP
from muster.api.kueue.visibility import VISIBILITY_GROUP
from muster.api.podgroups import POD_GROUP_KINDS
from muster.api.server.metrics import METRICS_GROUP
from muster.cluster.apiserver.protobuf import messages
from muster.cluster.apiserver.protobuf.wireformat import ProtobufError
from muster.cluster.apiserver.registry.builtin import BUILTIN
from muster.cluster.apiserver.schema import compile_builtin

# What kubectl 1.33 sends for `create job j33 --image=x -- a b` and `create service nodeport n33 --tcp=5678:8080`.
JOB_BODY = (
    "azhzAAoPCghiYXRjaC92MRIDSm9iEnwKEwoDajMzEgAaACIAKgAyADgAQgASWzJZChAKABIAGgAiACoAMgA4AEIAEkUSIgoDajMz"
    "EgF4GgFhGgFiKgBCAGoAcgCAAQCIAQCQAQCiAQAaBU5ldmVyMgBCAEoAUgBYAGAAaACCAQCKAQCaAQDCAQAaCCAAKAAwADoAGgAi"
    "AA=="
)
SERVICE_BODY = (
    "azhzAAoNCgJ2MRIHU2VydmljZRJrCh8KA24zMxIAGgAiACoAMgA4AEIAWgoKA2FwcBIDbjMzEkQKHgoJNTY3OC04MDgwEgNUQ1AY"
    "riwiBwgAEJA/GgAoABIKCgNhcHASA24zMxoAIghOb2RlUG9ydDoAQgBSAFoAYABoABoCCgAaACIA"
)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def body(version: str, kind: str, raw: bytes, *more: tuple[int, int | str | bytes]) -> bytes:
    return b"k8s\x00" + message((1, message((1, version), (2, kind))), (2, raw), *more)


def test_what_kubectl_sends() -> None:
    assert messages.decode(base64.b64decode(JOB_BODY)) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j33"},
        "spec": {
            "template": {
                "metadata": {},
                "spec": {
                    "containers": [{"name": "j33", "image": "x", "command": ["a", "b"], "resources": {}}],
                    "restartPolicy": "Never",
                },
            }
        },
        "status": {},
    }
    service = messages.decode(base64.b64decode(SERVICE_BODY))
    assert service["spec"] == {
        "ports": [{"name": "5678-8080", "protocol": "TCP", "port": 5678, "targetPort": 8080}],
        "selector": {"app": "n33"},
        "type": "NodePort",
    }


def decoded(version: str, kind: str, *fields: tuple[int, int | str | bytes]) -> dict[str, Any]:
    document = messages.decode(body(version, kind, message(*fields)))
    assert (document.pop("apiVersion"), document.pop("kind")) == (version, kind)
    return document


def test_times() -> None:
    meta = message((8, message((1, 1767225600), (2, 0))), (9, b""))
    spec = message((3, message((1, 1767225600), (2, 1500000))), (4, message((1, 1767225600))))
    assert decoded("coordination.k8s.io/v1", "Lease", (1, meta), (2, spec)) == {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"acquireTime": "2026-01-01T00:00:00.001500Z", "renewTime": "2026-01-01T00:00:00.000000Z"},
    }


def test_zeroes_say_something_where_a_field_is_optional_or_required() -> None:
    spec = message((1, 0), (2, 0), (3, 0), (10, 0))
    assert decoded("batch/v1", "Job", (2, spec))["spec"] == {
        "parallelism": 0,
        "completions": 0,
        "activeDeadlineSeconds": 0,
        "suspend": False,
    }
    assert decoded("batch/v1", "Job", (3, message((4, 0), (5, 0), (11, 0)))) == {"status": {"terminating": 0}}
    assert decoded("scheduling.k8s.io/v1", "PriorityClass", (2, 0), (3, 0), (4, "")) == {"value": 0}
    assert decoded("scheduling.k8s.io/v1", "PriorityClass", (2, -5)) == {"value": -5}


def test_maps_quantities_bytes_and_values_of_two_types() -> None:
    limits = message((1, message((1, "cpu"), (2, message((1, "500m"))))))
    ports = [message((1, 0), (2, 8080), (3, "")), message((1, 1), (2, 0), (3, "web"))]
    probes = [message((1, message((2, message((2, port)))))) for port in ports]
    container = message((8, limits), (10, probes[0]), (11, probes[1]))
    assert decoded("v1", "Pod", (2, message((2, container))))["spec"]["containers"] == [
        {
            "resources": {"limits": {"cpu": "500m"}},
            "livenessProbe": {"httpGet": {"port": 8080}},
            "readinessProbe": {"httpGet": {"port": "web"}},
        }
    ]
    data = [(2, message((1, "a"), (2, b"\x00\xff"))), (2, message((1, "b")))]
    assert decoded("v1", "Secret", *data) == {"data": {"a": "AP8=", "b": ""}}


def test_messages_whose_fields_stand_around_them() -> None:
    volume = message((1, "v"), (2, message((19, message((1, message((1, "settings"))), (4, 1))))))
    assert decoded("v1", "Pod", (2, message((1, volume)))) == {
        "spec": {"volumes": [{"name": "v", "configMap": {"name": "settings", "optional": True}}]}
    }
    ephemeral = message((1, message((1, "debug"), (2, "i"))), (2, "main"))
    assert decoded("v1", "Pod", (2, message((34, ephemeral))))["spec"] == {
        "ephemeralContainers": [{"name": "debug", "image": "i", "targetContainerName": "main"}]
    }


def test_options_of_a_deletion_and_actions() -> None:
    assert decoded("policy/v1", "DeleteOptions", (1, 0), (4, "Foreground")) == {
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }
    assert decoded("policy/v1", "Eviction", (1, message((1, "p")))) == {"metadata": {"name": "p"}}
    assert decoded("autoscaling/v1", "Scale", (2, message((1, 3)))) == {"spec": {"replicas": 3}}


def test_managed_fields_and_json_within_a_message() -> None:
    managed = message((1, "me"), (2, "Update"), (3, "v1"), (6, "FieldsV1"), (7, message((1, '{"f:data":{}}'))), (8, ""))
    assert decoded("v1", "ConfigMap", (1, message((17, managed))))["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}},
        }
    ]
    revision = (2, message((1, '{"spec":{"a":1}}'))), (3, 4)
    assert decoded("apps/v1", "ControllerRevision", *revision) == {"data": {"spec": {"a": 1}}, "revision": 4}
    with pytest.raises(ProtobufError, match="JSON"):
        decoded("apps/v1", "ControllerRevision", (2, message((1, "{"))))


def test_schemas_of_custom_resources() -> None:
    size = message((5, "integer"), (4, ""), (12, 0), (17, 0), (8, message((1, "3"))))
    many = message((5, "array"), (24, message((1, message((5, "string"))))), (20, message((1, '"a"'))), (42, "set"))
    more = message((5, "object"), (30, message((1, 1), (2, message((5, "string"))))))
    open_ = message((38, 1), (30, message((1, 1))), (44, message((1, "true"), (2, "why"), (4, "FieldValueInvalid"))))
    properties = [message((1, name), (2, inner)) for name, inner in zip("abcd", (size, many, more, open_), strict=True)]
    schema = message((5, "object"), *((29, entry) for entry in properties), (23, "a"))
    limits = field(5, "number") + b"\x49" + struct.pack("<d", 5.0) + b"\x59" + struct.pack("<d", 0.5)
    version = (1, "v1"), (2, 1), (4, message((1, schema))), (5, message((1, b"")))
    other = (1, "v2"), (2, 0), (4, message((1, limits)))
    spec = message((1, "example.com"), (3, message((1, "widgets"))), (7, message(*version)), (7, message(*other)))
    condition = message((1, "Established"), (2, "True"), (3, message((1, 1767225600))))
    read = decoded("apiextensions.k8s.io/v1", "CustomResourceDefinition", (2, spec), (3, message((1, condition))))
    assert read["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    versions = read["spec"]["versions"]
    assert versions[0]["subresources"] == {"status": {}}
    assert versions[0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 3, "minItems": 0},
            "b": {"type": "array", "items": {"type": "string"}, "enum": ["a"], "x-kubernetes-list-type": "set"},
            "c": {"type": "object", "additionalProperties": {"type": "string"}},
            "d": {
                "x-kubernetes-preserve-unknown-fields": True,
                "additionalProperties": True,
                "x-kubernetes-validations": [{"rule": "true", "message": "why", "reason": "FieldValueInvalid"}],
            },
        },
        "required": ["a"],
    }
    assert versions[1]["schema"]["openAPIV3Schema"] == {"type": "number", "maximum": 5, "minimum": 0.5}


def test_unknown_fields_are_passed_over_and_packed_numbers_read() -> None:
    assert decoded("v1", "ConfigMap", (1, message((1, "c"), (16, "y"))), (1000, "x")) == {"metadata": {"name": "c"}}
    exit_codes = message((1, message((2, message((3, varint(1) + varint(300)))))))
    rules = decoded("batch/v1", "Job", (2, message((11, exit_codes))))["spec"]["podFailurePolicy"]["rules"]
    assert rules == [{"onExitCodes": {"values": [1, 300]}}]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "does not begin"),
        (b"{}", "does not begin"),
        (b"k8s\x00", "no kind ''"),
        (body("v1", "Nonsense", b""), "no kind 'Nonsense' in version 'v1'"),
        (body("v2", "Pod", b""), "no kind 'Pod' in version 'v2'"),
        (body("v1", "Pod", b"", (3, "gzip")), "encoded once more"),
        (body("v1", "Pod", b"\x0a\x7f"), "goes on after the end"),
        (body("v1", "Pod", b"\x0b"), "has a form that no field has"),
        (body("v1", "Pod", b"\xff" * 11), "a number does not end"),
        (body("v1", "Pod", b"\x0a"), "a number does not end"),
        (body("v1", "Pod", message((1, 7))), "a number stands where"),
        (body("v1", "ConfigMap", message((1, message((1, b"\xff"))))), "not UTF-8"),
        (body("batch/v1", "Job", message((2, message((1, "x"))))), "something else stands where"),
        (body("v1", "ConfigMap", message((1, message((8, message((1, -1))))))), "is no time"),
    ],
)
def test_nonsense(data: bytes, why: str) -> None:
    with pytest.raises(ProtobufError, match=why):
        messages.decode(data)


CHECK = {kind.kind: compile_builtin(kind) for kind in (POD, JOB)}


@given(st.binary(max_size=200), st.sampled_from([POD, JOB]))
def test_any_bytes_are_read_or_refused(raw: bytes, kind: Any) -> None:
    try:
        document = messages.decode(body(kind.api_version, kind.kind, raw))
    except ProtobufError:
        return
    # What is read has the form of the kind: nothing unknown, no value of a wrong type.
    assert CHECK[kind.kind](document).unknown == ()
    msgspec.json.encode(document)


def test_every_served_kind_can_be_sent() -> None:
    # What CRDs define, as Kueue's kinds, JobSets and PodGroups are upstream, has no protobuf form. Visibility and
    # metrics are only read.
    no_form = (GROUP, VISIBILITY_GROUP, METRICS_GROUP, JOB_SET.group, *(kind.group for kind in POD_GROUP_KINDS))
    served = (
        r for r in BUILTIN if r.kind.group not in no_form and r.kind.api_version != "apiextensions.k8s.io/v1beta1"
    )
    for resource in served:
        if resource.kind.group == "batch.volcano.sh":
            continue  # a CRD upstream, too
        for kind in (resource.kind, *(sub.kind for sub in resource.subresources)):
            if kind.kind.startswith("Pod") and kind.kind.endswith("Options"):
                continue  # these are said in the query
            document = messages.decode(body(kind.api_version, kind.kind, message((1, message((1, "n"))))))
            assert document["metadata"] == {"name": "n"}
