"""Convert definitions between `apiextensions.k8s.io/v1beta1` and v1.

Manifests from before Kubernetes 1.16 use v1beta1. Upstream stopped serving it in 1.22. v1beta1 differs from v1 in
these points:

- The top of the spec may have the schema, subresources and columns that all versions share.
- The path of a column is called `JSONPath`.
- The configuration of the webhook is in the conversion itself.
- Undeclared fields are preserved unless the definition says otherwise.
"""

from typing import Any

from muster.api.members import remove_members, rename_member
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.schema import DecodeError

_SHARED = ("validation", "subresources", "additionalPrinterColumns")


def require_shape(definition: Any) -> Document:
    """Return the definition. Raises `DecodeError` if a part that the conversion moves is no object or list."""
    spec = _require_object(_require_object(definition, "").get("spec"), "spec")
    for name in ("validation", "subresources", "conversion"):
        _require_object(spec.get(name), f"spec.{name}")
    _require_objects(spec.get("additionalPrinterColumns"), "spec.additionalPrinterColumns")
    for version in _require_objects(spec.get("versions"), "spec.versions"):
        _require_object(version.get("schema"), "spec.versions.schema")
        _require_objects(version.get("additionalPrinterColumns"), "spec.versions.additionalPrinterColumns")
    checked: Document = definition
    return checked


def _require_object(value: Any, path: str) -> Document:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DecodeError(f"json: cannot unmarshal a value that is no object into Go struct field {path}")
    return value


def _require_objects(value: Any, path: str) -> list[Document]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise DecodeError(f"json: cannot unmarshal a value that is no array into Go struct field {path}")
    return [_require_object(item, path) for item in value]


def to_v1(definition: Document) -> Document:
    """Convert a v1beta1 definition to v1."""
    spec: Document = definition.get("spec") or {}
    versions = spec.get("versions") or [{"name": spec.get("version", ""), "served": True, "storage": True}]
    result = remove_members(spec, *_SHARED, "version", "conversion") | {
        "versions": [_convert_version_to_v1(version or {}, spec) for version in versions]
    }
    result["preserveUnknownFields"] = (
        True if spec.get("preserveUnknownFields") is None else spec["preserveUnknownFields"]
    )
    if result["preserveUnknownFields"] is False:
        del result["preserveUnknownFields"]
    if spec.get("conversion"):
        result["conversion"] = _convert_conversion_to_v1(spec["conversion"])
    return definition | {"apiVersion": "apiextensions.k8s.io/v1", "spec": result}


def to_v1beta1(definition: Document) -> Document:
    """Convert a v1 definition to v1beta1. The parts that all versions share move to the top of the spec."""
    spec: Document = definition.get("spec") or {}
    versions = [_convert_version_to_v1beta1(version) for version in spec.get("versions") or ()]
    result = spec | {"version": versions[0]["name"] if versions else ""}
    for name, shared in (("schema", "validation"), *((name, name) for name in _SHARED[1:])):
        values = [version.get(name) for version in versions]
        if values and values[0] and all(value == values[0] for value in values):
            result[shared] = values[0]
            versions = [remove_members(version, name) for version in versions]
    result |= {"versions": versions, "preserveUnknownFields": spec.get("preserveUnknownFields", False)}
    if spec.get("conversion"):
        result["conversion"] = _convert_conversion_to_v1beta1(spec["conversion"])
    return definition | {"apiVersion": "apiextensions.k8s.io/v1beta1", "spec": result}


def _convert_version_to_v1(version: Document, spec: Document) -> Document:
    result = remove_members(version, "additionalPrinterColumns")
    schema = version.get("schema") or spec.get("validation")
    if not (schema or {}).get("openAPIV3Schema"):
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    result["schema"] = schema
    subresources = version.get("subresources") or spec.get("subresources")
    if subresources:
        result["subresources"] = subresources
    columns = version.get("additionalPrinterColumns") or spec.get("additionalPrinterColumns")
    if columns:
        result["additionalPrinterColumns"] = [rename_member(column or {}, "JSONPath", "jsonPath") for column in columns]
    return result


def _convert_version_to_v1beta1(version: Document) -> Document:
    if not version.get("additionalPrinterColumns"):
        return version
    columns = [rename_member(column, "jsonPath", "JSONPath") for column in version["additionalPrinterColumns"]]
    return version | {"additionalPrinterColumns": columns}


def _convert_conversion_to_v1(conversion: Document) -> Document:
    result: Document = {"strategy": conversion.get("strategy", "")}
    config = conversion.get("webhookClientConfig")
    if config:
        versions = conversion.get("conversionReviewVersions") or ["v1beta1"]
        result["webhook"] = {"clientConfig": config, "conversionReviewVersions": versions}
    return result


def _convert_conversion_to_v1beta1(conversion: Document) -> Document:
    webhook: dict[str, Any] = conversion.get("webhook") or {}
    result: Document = {"strategy": conversion.get("strategy", "")}
    if webhook:
        result["webhookClientConfig"] = webhook.get("clientConfig")
        result["conversionReviewVersions"] = webhook.get("conversionReviewVersions") or []
    return result
