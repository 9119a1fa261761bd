"""From client-side to server-side apply: what kubectl's annotation allows, and how it follows."""

import json
from typing import Any

import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.fields import FieldSchema, Writer, apply
from muster.cluster.apiserver.fields.lastapplied import ANNOTATION

SCHEMA = FieldSchema.of(
    {"type": "object", "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}}}
)
KUBECTL = Writer("kubectl", "v1")


def config(data: Any, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", **meta}, "data": data}


def live(data: Any, last: Any) -> dict[str, Any]:
    text = last if isinstance(last, str) else json.dumps(last)
    fields: Any = {"f:data": {f"f:{name}": {} for name in data}}
    entry = {"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
    return config(data, annotations={ANNOTATION: text}, managedFields=[entry])


def test_what_was_applied_client_side_may_be_taken_over():
    old = live({"a": "1", "b": "1"}, config({"a": "1", "b": "1"}))
    new = apply(old, config({"a": "2"}), KUBECTL, "t", SCHEMA, force=False)
    assert new["data"] == {"a": "2", "b": "1"}
    assert json.loads(new["metadata"]["annotations"][ANNOTATION]) == config({"a": "2"})
    assert new["metadata"]["annotations"][ANNOTATION].endswith("\n")


REFUSED = [
    ({"a": "0"}, KUBECTL),  # it has another value by now
    ({}, KUBECTL),
    ("", KUBECTL),
    ("{", KUBECTL),
    ("[]", KUBECTL),
    ('{"data":' * 10_000, KUBECTL),
    ({"a": "1"}, Writer("other", "v1")),
]


@pytest.mark.parametrize(("last", "writer"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_was_not_is_a_conflict(last, writer):
    old = live({"a": "1"}, config(last) if isinstance(last, dict) else last)
    with pytest.raises(ApiError) as refusal:
        apply(old, config({"a": "2"}), writer, "t", SCHEMA, force=False)
    assert str(refusal.value) == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.a'
    )


@pytest.mark.parametrize("last", [config({"a": "1"}) | {"apiVersion": "v0"}, config({"a": 1})], ids=str)
def test_an_annotation_that_does_not_fit_allows_nothing(last):
    with pytest.raises(ApiError):
        apply(live({"a": "1"}, last), config({"a": "2"}), KUBECTL, "t", SCHEMA, force=False)


def test_only_the_conflicts_that_are_left_are_told():
    with pytest.raises(ApiError) as refusal:
        apply(
            live({"a": "1", "b": "1"}, config({"a": "1"})),
            config({"a": "2", "b": "2"}),
            KUBECTL,
            "t",
            SCHEMA,
            force=False,
        )
    assert [cause.field for cause in refusal.value.status.details.causes] == [".data.b"]


def test_without_the_annotation_none_appears():
    new = apply(config({"a": "1"}, annotations={"b": "c"}), config({"b": "2"}), KUBECTL, "t", SCHEMA, force=False)
    assert new["metadata"]["annotations"] == {"b": "c"}


def test_an_annotation_that_would_be_too_large_goes():
    old = live({"a": "1"}, config({"a": "1"}))
    new = apply(old, config({"a": "1", "b": "x" * 300_000}), KUBECTL, "t", SCHEMA, force=False)
    assert new["metadata"]["annotations"] == {}


def test_the_annotation_does_not_contain_itself():
    old = live({"a": "1"}, config({"a": "1"}))
    sent = config({"a": "1"}, annotations={ANNOTATION: "x", "b": "c"})
    new = apply(old, sent, KUBECTL, "t", SCHEMA, force=True)
    assert json.loads(new["metadata"]["annotations"][ANNOTATION]) == config({"a": "1"}, annotations={"b": "c"})


APPLIED = [
    (
        config({}) | {"apiVersion": "v2"},
        "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
    ),
    (config({}, managedFields=[]), "metadata.managedFields must be nil"),
    (config({"a": 5}), "failed to create typed patch object (/x; /v1, Kind=X): .data.a: expected string"),
]


@pytest.mark.parametrize(("sent", "message"), APPLIED, ids=str)
def test_what_cannot_be_applied(sent, message):
    with pytest.raises(ApiError) as refusal:
        apply(None, sent, KUBECTL, "t", SCHEMA, force=True)
    assert refusal.value.code == 400
    assert message in str(refusal.value)
