"""Definitions of v1beta1, to v1 and back."""

import pytest

from muster.cluster.apiserver.custom.v1beta1 import require_shape, to_v1, to_v1beta1
from muster.cluster.apiserver.schema import DecodeError

SCHEMA = {"openAPIV3Schema": {"type": "object"}}


def v1beta1(**spec):
    return {"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition", "spec": spec}


def test_what_stands_at_the_top_goes_into_every_version():
    columns = [{"name": "A", "type": "string", "JSONPath": ".a"}]
    old = v1beta1(
        version="v1", validation=SCHEMA, subresources={"status": {}}, additionalPrinterColumns=columns, group="g.io"
    )
    new = to_v1(old)
    assert new["apiVersion"] == "apiextensions.k8s.io/v1"
    assert new["spec"] == {
        "group": "g.io",
        "preserveUnknownFields": True,
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": SCHEMA,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}],
            }
        ],
    }
    back = to_v1beta1(new)
    assert back["spec"]["version"] == "v1"
    assert to_v1(back) == new


def test_a_version_without_a_schema_keeps_everything():
    new = to_v1(v1beta1(version="v1", preserveUnknownFields=False))
    schema = new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert "preserveUnknownFields" not in new["spec"]


def test_conversion():
    config = {"url": "https://h"}
    old = v1beta1(version="v1", conversion={"strategy": "Webhook", "webhookClientConfig": config})
    new = to_v1(old)["spec"]["conversion"]
    assert new == {
        "strategy": "Webhook",
        "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1beta1"]},
    }
    assert to_v1beta1(to_v1(old))["spec"]["conversion"]["webhookClientConfig"] == config


@pytest.mark.parametrize(
    "spec", ["x", {"versions": 1}, {"versions": [1]}, {"validation": []}, {"additionalPrinterColumns": {}}]
)
def test_other_shapes_are_refused(spec):
    with pytest.raises(DecodeError):
        require_shape({"spec": spec})
