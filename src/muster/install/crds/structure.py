"""Make the schema of a kind for its CustomResourceDefinition.

The schema is the structural one of `muster.api.schema`, with the CEL rules at their paths. Schemas of pods are changed
as upstream's generators do: fewer metadata fields, more defaults.
"""

import copy
from typing import Any, Final

import msgspec

from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.podgroups import kubebatch, sigs
from muster.api.schema import Schema, make_structural_schema
from muster.install.crds.old import KEYWORDS_OF_THE_NEW
from muster.install.crds.rules import Rules, rules_of

# The metadata of embedded objects.
_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA_WITHIN: Schema = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": _STRINGS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}

# Defaults in pod templates, by the last two names of the path.
_DEFAULTS_WITHIN: dict[str, Any] = {
    **dict.fromkeys(
        ("configMap.name", "configMapKeyRef.name", "configMapRef.name", "grpc.service", "imagePullSecrets[].name",
         "nodePublishSecretRef.name", "secret.name", "secretKeyRef.name", "secretRef.name"),
        "",
    ),
    "azureDisk.fsType": "ext4",
    "azureDisk.readOnly": False,
    "fileKeyRef.optional": False,
    "iscsi.iscsiInterface": "default",
    "ports[].protocol": "TCP",
    "rbd.keyring": "/etc/ceph/keyring",
    "rbd.pool": "rbd",
    "rbd.user": "admin",
    "scaleIO.fsType": "xfs",
    "scaleIO.storageMode": "ThinProvisioned",
}  # fmt: skip
_ATOMIC_WITHIN = frozenset({
    "envFrom[].configMapRef", "envFrom[].secretRef", "sources[].configMap", "sources[].secret", "volumes[].configMap",
})  # fmt: skip

# `muster up` names the rules of a failure policy before it checks their form; on other servers a webhook may do so.
_REQUIRED: dict[tuple[str, str], list[str]] = {
    (JOB_SET.resource, ".spec.failurePolicy.rules[]"): ["action", "name"],
}

# The definitions of these kinds are so old that they keep unknown fields.
_KEEP_UNKNOWN: Final = (kubebatch.POD_GROUP, sigs.POD_GROUP)
# The keywords of strategic merge patches, which do not apply to custom resources.
_PATCHES: Final = "x-kubernetes-patch-"


def make_schema(kind: Kind[Any]) -> Schema:
    """Return a new schema of a version of a kind, which shares no part with other schemas."""
    return _Structure(kind).of(make_structural_schema(kind))


class _Structure:
    def __init__(self, kind: Kind[Any]) -> None:
        self._resource = kind.resource
        self._rules: Rules = rules_of(kind)
        self._dropped = KEYWORDS_OF_THE_NEW.get((kind.resource, kind.version), {})
        self._keep_unknown = kind in _KEEP_UNKNOWN

    def of(self, schema: Schema, path: str = "") -> Schema:
        """Return the schema of a value of the object, at this path (`.spec.podSets[].count`)."""
        if path.endswith(".metadata"):
            return {"type": "object"} if path == ".metadata" else copy.deepcopy(_METADATA_WITHIN)
        dropped = self._dropped.get(path, ())
        result = {
            word: self._convert_member(word, value, path)
            for word, value in schema.items()
            if word not in dropped and not word.startswith(_PATCHES)
        }
        if ".template" in path:
            result |= _make_template_schema(path)
        if (self._resource, path) in _REQUIRED:
            result["required"] = list(_REQUIRED[self._resource, path])
        if self._keep_unknown and "properties" in result:
            result["x-kubernetes-preserve-unknown-fields"] = True
        if path in self._rules:
            result["x-kubernetes-validations"] = msgspec.to_builtins(self._rules[path])
        return result

    def _convert_member(self, word: str, value: Any, path: str) -> Any:
        if word == "properties":
            return {name: self.of(member, f"{path}.{name}") for name, member in value.items()}
        if word == "items":
            return self.of(value, f"{path}[]")
        if word == "additionalProperties":
            return self.of(value, f"{path}{{}}")
        return value if isinstance(value, str) else copy.deepcopy(value)


def _make_template_schema(path: str) -> Schema:
    last_two = ".".join(path.rsplit(".", 2)[-2:])
    schema: Schema = {}
    if last_two in _DEFAULTS_WITHIN:
        schema["default"] = _DEFAULTS_WITHIN[last_two]
    if last_two in _ATOMIC_WITHIN:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema
