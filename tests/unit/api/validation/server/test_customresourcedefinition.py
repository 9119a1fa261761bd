"""Rules of definitions and their schemas, in upstream's words."""

import msgspec
import pytest

from muster.api.server.apiextensions import CustomResourceDefinition
from muster.api.validation.server.customresourcedefinition import validate_create, validate_update

ROOT = {"type": "object", "properties": {}}
NAMES = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}


def version(name="v1", **fields):
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": ROOT}} | fields


def definition(name="widgets.example.com", status=None, **spec):
    body = {"group": "example.com", "scope": "Cluster", "names": NAMES, "versions": [version()]} | spec
    document = {"metadata": {"name": name, "uid": "u"}, "spec": body, "status": status or {}}
    return msgspec.convert(document, CustomResourceDefinition)


def said(errors):
    return [str(error) for error in errors]


def test_a_good_one():
    assert validate_create(definition()) == []


PATHS = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}


@pytest.mark.parametrize(
    ("spec", "start"),
    [
        ({"group": "example"}, 'spec.group: Invalid value: "example": should be a domain with at least one dot'),
        ({"names": NAMES | {"plural": "Widgets"}}, 'spec.names.plural: Invalid value: "Widgets": a DNS-1035 label'),
        ({"names": NAMES | {"kind": "Wid.get"}}, 'spec.names.kind: Invalid value: "Wid.get": may have mixed case, but'),
        (
            {"names": NAMES | {"listKind": "Widget"}},
            'spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same',
        ),
        ({"names": NAMES | {"shortNames": ["a b"]}}, 'spec.names.shortNames[0]: Invalid value: "a b"'),
        ({"versions": [version(), version()]}, 'spec.versions: Invalid value: ["v1","v1"]: must contain unique'),
        (
            {"versions": [version(deprecationWarning="x")]},
            'spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions',
        ),
        (
            {"versions": [version(additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}])]},
            'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer',
        ),
        (
            {"versions": [version(), version("v2", additionalPrinterColumns=[{"name": "A", "type": "date"}])]},
            "spec.versions[1].additionalPrinterColumns[0].JSONPath: Required value",
        ),
        (
            {"versions": [version(additionalPrinterColumns=[{"name": "A", "type": "date", "jsonPath": "a"}])]},
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .',
        ),
        (
            {"versions": [version(selectableFields=[{"jsonPath": ".spec.none"}])]},
            'spec.selectableFields[0].jsonPath: Invalid value: ".spec.none": is an invalid path: does not refer to',
        ),
        (
            {"versions": [version(subresources={"scale": PATHS | {"specReplicasPath": ".status.n"}})]},
            'spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec',
        ),
        (
            {"versions": [version(subresources={"scale": PATHS | {"labelSelectorPath": ".metadata.x"}})]},
            'spec.subresources.scale.labelSelectorPath: Invalid value: ".metadata.x": should be a json path under',
        ),
        (
            {"versions": [version(selectableFields=[{"jsonPath": ".metadata.name"}])]},
            'spec.selectableFields[0].jsonPath: Invalid value: ".metadata.name": is an invalid path: does not refer to',
        ),
        (
            {"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}},
            "spec.conversion.webhook: Forbidden: should not be set when strategy is not set to Webhook",
        ),
        (
            {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://h"}}}},
            "spec.conversion.conversionReviewVersions: Required value",
        ),
        (
            {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://me@h"}}}},
            'spec.conversion.webhookClientConfig.url: Invalid value: "me": user information is not permitted',
        ),
        (
            {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "s"}}}}},
            "spec.conversion.webhookClientConfig.service.namespace: Required value",
        ),
    ],
)
def test_what_is_refused(spec, start):
    errors = said(validate_create(definition(**spec)))
    assert any(error.startswith(start) for error in errors), errors


def test_groups_of_the_community_need_approval():
    errors = said(validate_create(definition("widgets.x.k8s.io", group="x.k8s.io")))
    (error,) = errors
    assert error.startswith(
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have"
    )


LIST_MAP = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
ITEM = {"type": "object", "properties": {"k": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({}, ".type: Required value: must not be empty for specified object fields"),
        ({"type": "null"}, ".type: Forbidden: type cannot be set to null, use nullable as an alternative"),
        ({"type": "text"}, '.type: Unsupported value: "text": supported values: "array", "boolean", "integer"'),
        ({"type": "object", "$ref": "x"}, ".$ref: Forbidden: $ref is not supported"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ".uniqueItems: Forbidden: uniqueItems"),
        ({"x-kubernetes-embedded-resource": True}, ".type: Required value: must be object if x-kubernetes-embedded"),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without",
        ),
        (
            LIST_MAP | {"items": ITEM},
            ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must",
        ),
        (
            LIST_MAP | {"items": ITEM | {"properties": {}}},
            '.x-kubernetes-list-map-keys: Invalid value: ["k"]: entries must all be names of item properties',
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}},
            ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with",
        ),
        (
            {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "string"}}},
            ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            {
                "type": "object",
                "not": {"properties": {"x": {"type": "string"}}},
                "properties": {"x": {"type": "string"}},
            },
            ".not.properties[x].type: Forbidden: must be empty to be structural",
        ),
    ],
)
def test_schemas_that_are_refused(schema, error):
    root = {"type": "object", "properties": {"f": schema}}
    errors = said(validate_create(definition(versions=[version(schema={"openAPIV3Schema": root})])))
    start = "spec.validation.openAPIV3Schema.properties[f]" + error
    assert any(each.startswith(start) for each in errors), errors


@pytest.mark.parametrize(
    "schema",
    [
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]},
        # A kube-apiserver takes these, whatever its documentation says.
        {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"properties": {"b": {"minLength": 1}}}]},
        {"type": "string", "x-kubernetes-int-or-string": True},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": True, "properties": {"a": {"type": "string"}}},
        LIST_MAP | {"items": ITEM | {"required": ["k"]}},
        LIST_MAP | {"items": ITEM | {"properties": {"k": {"type": "string", "default": "x"}}}},
    ],
)
def test_schemas_that_are_good(schema):
    root = {"type": "object", "properties": {"f": schema}}
    assert validate_create(definition(versions=[version(schema={"openAPIV3Schema": root})])) == []


ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"scope": "Namespaced"}, 'spec.scope: Invalid value: "Namespaced": field is immutable'),
        ({"names": NAMES | {"kind": "Gadget"}}, 'spec.names.kind: Invalid value: "Gadget": field is immutable'),
        ({"names": NAMES | {"plural": "gadgets"}}, 'spec.names.plural: Invalid value: "gadgets": field is immutable'),
        ({"group": "other.com"}, 'spec.group: Invalid value: "other.com": field is immutable'),
        (
            {"versions": [version("v2", storage=True)]},
            'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage',
        ),
    ],
)
def test_what_does_not_change(change, error):
    new, old = definition(status=ESTABLISHED, **change), definition(status=ESTABLISHED)
    (found,) = said(validate_update(new, old))
    assert found.startswith(error)
