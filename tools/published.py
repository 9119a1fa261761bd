"""Make the schemas of Kubernetes' own kinds, from the OpenAPI v2 that Kubernetes publishes and from `gofacts.json`.

The package `kubernetes-validate` carries the definitions of each release. One JSON file for each Go package goes to
`muster.api.published`: its messages in alphabetical order, one a line, each with its OpenAPI v3 schema and its fields
as protobuf numbers them. With `--check` the program writes nothing, and fails where a file would change:

    pip download --no-deps kubernetes-validate==1.37.0
    python -m tools.published kubernetes_validate-*.whl [--check]
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

from tools.gofacts import FACTS, PACKAGES

RELEASE = "1.36.0"
_DEFINITIONS = f"kubernetes_validate/kubernetes-json-schema/v{RELEASE}-local/_definitions.json"
FOLDER = Path(__file__).parent.parent / "src/muster/api/published"

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
# Types of the metadata are part of Muster's source, as custom resources have metadata, too. This is no such type.
_OF_META = (f"{_META}.FieldSelectorRequirement",)

_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
# What stands in the place of a reference: values of several types, and objects that anything may be in.
_VALUES: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _OPEN,
    f"{_META}.Time": {"type": "string", "format": "date-time"},
    f"{_META}.MicroTime": {"type": "string", "format": "micro-time"},
    f"{_EXTENSIONS}.JSONSchemaProps": _OPEN,
    f"{_EXTENSIONS}.CustomResourceSubresourceStatus": _OPEN,
}
_WITHIN_SCHEMAS = ("JSONSchemaProps", "CustomResourceSubresourceStatus", "ExternalDocumentation", "ValidationRule")

# Fields of features that are off in this release unless somebody asks for them: kube-apiserver drops them.
NOT_SERVED = {
    "io.k8s.api.core.v1.PodStatus": ("nodeAllocatableResourceClaimStatuses",),
    "io.k8s.api.core.v1.ResourceHealth": ("message",),
    "io.k8s.api.core.v1.VolumeMountStatus": ("volumeStatus",),
    "io.k8s.api.resource.v1.Device": ("nodeAllocatableResourceMappings",),
    "io.k8s.api.resource.v1.DeviceAttribute": ("bools", "ints", "strings", "versions"),
    "io.k8s.api.storage.v1.CSIDriverSpec": ("preventPodSchedulingIfMissing", "serviceAccountTokenInSecrets"),
    f"{_EXTENSIONS}.CustomResourceDefinitionCondition": ("observedGeneration",),
    f"{_EXTENSIONS}.CustomResourceDefinitionStatus": ("observedGeneration",),
}
_SENTENCE = re.compile(r"\n\s*\n|\n(?=[-*#])|(?<=[.])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z`\"'<])")
_SAYS_ENOUGH = 40
# Fields that upstream says nothing of.
_UNSAID = {
    "http": "http is the list of paths that the rule sends on to backends.",
    "metadata": "Standard object's metadata.",
}
_TYPE_META = {
    "apiVersion": {"type": "string", "description": "Version of the API that the object is written in."},
    "kind": {"type": "string", "description": "Kind of the object."},
}


def make(wheel: str) -> dict[str, str]:
    """Return the contents of each file, by its name."""
    with zipfile.ZipFile(wheel) as archive:
        definitions = json.loads(archive.read(_DEFINITIONS))["$defs"]
    facts = json.loads(FACTS.read_text())
    files = {}
    for package in PACKAGES.values():
        messages = {
            name.removeprefix(package + "."): _make_message(name, definitions.get(name), _merge_facts(name, facts))
            for name in sorted(definitions.keys() | facts.keys())
            if name.rpartition(".")[0] == package and not name.endswith(("List", *_WITHIN_SCHEMAS))
        }
        lines = ",\n".join(f"{json.dumps(name)}:{_encode(message)}" for name, message in messages.items())
        files[f"{package}.json"] = f"{{\n{lines}\n}}\n"
    return files


def _merge_facts(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return what Go says of a message, and of the messages whose fields stand in its JSON object."""
    own = dict(facts.get(name, {"fields": ""}))
    for word in own["fields"].split():
        if "*" in word:
            inner = _merge_facts(f"{name.rpartition('.')[0]}.{word.rpartition('*')[2]}", facts)
            for fact in ("default", "enum"):
                own[fact] = inner.get(fact, {}) | own.get(fact, {})
    return own


def _encode(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _make_message(name: str, definition: dict[str, Any] | None, facts: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"fields": facts["fields"]}
    of_meta = name.startswith(_META) and name not in _OF_META
    if definition is not None and not of_meta:
        message["schema"] = _make_component(name, definition, facts)
    return message


def _make_component(name: str, definition: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI v3 schema of a message."""
    optional = {word.rpartition(":")[2].rstrip("?!") for word in facts["fields"].split() if "?" in word}
    properties = {}
    for field, schema in definition.get("properties", {}).items():
        if field in NOT_SERVED.get(name, ()):
            continue
        made = _convert_field(schema if "description" in schema else schema | {"description": _UNSAID[field]})
        if "allOf" in made and field not in optional:
            made["default"] = {}
        for fact in ("default", "enum"):
            if field in facts.get(fact, {}):
                made[fact] = facts[fact][field]
        properties[field] = made
    result = _convert_field({key: value for key, value in definition.items() if key != "properties"})
    if kinds := result.get("x-kubernetes-group-version-kind"):
        properties |= _TYPE_META
        result["x-kubernetes-group-version-kind"] = kinds
    return result | {"properties": properties}


def _convert_field(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a value's schema in OpenAPI v3, where a reference stands alone."""
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        match keyword:
            case "$ref":
                result |= _make_reference(value.rpartition("/")[2], alone=len(schema) == 1)
            case "type":
                result["type"] = value[0] if isinstance(value, list) else value
            case "items" | "additionalProperties":
                if isinstance(value, dict):
                    result[keyword] = _convert_field(value)
            case "description":
                result[keyword] = _summarize(value)
            case "format" | "required":
                result[keyword] = value
            case _ if keyword.startswith("x-kubernetes-") and keyword != "x-kubernetes-unions":
                result[keyword] = value
    return result


def _summarize(description: str) -> str:
    """Return the first sentences, up to one that says something: the schemas of pods stand in many documents."""
    sentences = _SENTENCE.split(description.strip())
    summary = sentences.pop(0)
    while sentences and len(summary) < _SAYS_ENOUGH:
        summary += f" {sentences.pop(0)}"
    return " ".join(summary.split())


def _make_reference(name: str, *, alone: bool) -> dict[str, Any]:
    if name in _VALUES:
        return dict(_VALUES[name])
    reference = {"$ref": f"#/components/schemas/{name}"}
    return reference if alone else {"allOf": [reference]}


def main(wheel: str, *options: str) -> int:
    """Write the files, or say which of them would change."""
    files = make(wheel)
    changed = [name for name, text in files.items() if not _is_unchanged(FOLDER / name, text)]
    if "--check" in options:
        for name in changed:
            print(f"{FOLDER / name} is not what python -m tools.published makes", file=sys.stderr)
        return len(changed)
    for name in changed:
        (FOLDER / name).write_text(files[name])
    return 0


def _is_unchanged(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
