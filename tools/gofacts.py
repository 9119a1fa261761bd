"""Read from Kubernetes' Go sources what its OpenAPI does not say, and write it to `gofacts.json`.

OpenAPI v2 lacks five facts of a field: its number in protobuf, whether Go can tell its absence from its zero, whether
Go writes the zero, its default, and the closed list of its words. Go's structs say them in tags and in comments for
generators. Run this when the data move to another release of Kubernetes, with the sources of k8s.io/api, apimachinery,
apiextensions-apiserver and kube-aggregator side by side:

    python -m tools.gofacts FOLDER
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FACTS = Path(__file__).with_name("gofacts.json")

# The Go packages of the served kinds, and what OpenAPI calls them.
PACKAGES = {
    f"api/{path}": f"io.k8s.api.{path.replace('/', '.')}"
    for path in (
        "admissionregistration/v1", "apps/v1", "authentication/v1", "authorization/v1", "autoscaling/v1",
        "autoscaling/v2", "batch/v1", "certificates/v1", "coordination/v1", "core/v1", "discovery/v1", "events/v1",
        "flowcontrol/v1", "networking/v1", "node/v1", "policy/v1", "rbac/v1", "resource/v1", "scheduling/v1",
        "scheduling/v1alpha2", "storage/v1",
    )
} | {
    "apimachinery/pkg/apis/meta/v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "apiextensions-apiserver/pkg/apis/apiextensions/v1": (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
    ),
    "kube-aggregator/pkg/apis/apiregistration/v1": "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
}  # fmt: skip

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ENUM = re.compile(r"^// \+enum\n(?://.*\n)*type (\w+) string$", re.MULTILINE)
_WORD = re.compile(r'^\t(\w+)\s+(\w+)\s*=\s*"([^"]*)"', re.MULTILINE)
_FIELD = re.compile(r"^\t(?:(\w+) +)?(\S+) +`(.*)`")
_JSON = re.compile(r'json:"([^",]*)([^"]*)"')
_NUMBER = re.compile(r'protobuf:"\w+,(\d+),')
_DEFAULT = re.compile(r"^\t// \+default=(?:ref\((\w+)\)|(.*))$")


def read_package(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    """Return the facts of each message of a Go package, by the name of its OpenAPI component."""
    source = "\n".join(path.read_text() for path in sorted(folder.glob("*types*.go")))
    words = _WORD.findall(source)
    enums: dict[str, list[str]] = {type_: [] for type_ in _ENUM.findall(source)}
    for _, type_, word in words:
        if type_ in enums:
            enums[type_].append(word)
    constants = {constant: word for constant, _, word in words}
    facts = {}
    for struct, body in _STRUCT.findall(source):
        fields = sorted(_read_fields(body, enums, constants), key=lambda field: int(field["number"]))
        if fields or "`json" not in body:
            facts[f"{name}.{struct}"] = _merge_fields(fields)
    return facts


def _read_fields(body: str, enums: dict[str, list[str]], constants: dict[str, str]) -> Iterator[dict[str, Any]]:
    default: Any = None
    for line in body.splitlines():
        if given := _DEFAULT.match(line):
            default = constants[given[1]] if given[1] else json.loads(given[2])
        if not (match := _FIELD.match(line)):
            continue
        type_, tag = match[2], match[3]
        number = _NUMBER.search(tag)
        if number:
            name, options = said.groups() if (said := _JSON.search(tag)) else ("", "")
            optional = type_.startswith("*") or "omitzero" in options
            written = bool(name) and "omit" not in options
            yield {
                "number": number[1],
                "name": name or f"*{type_.rpartition('.')[2]}",
                "marks": "?" * optional + "!" * written,
                "enum": sorted(enums.get(type_.removeprefix("*"), ())) or None,
                "default": default,
            }
        default = None


def _merge_fields(fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the facts of one message; its fields stand in the order of their numbers, with marks.

    `?`: Go can tell the field's absence from its zero (pointers). `!`: Go writes the zero, too.
    """
    words, last = [], 0
    for field in fields:
        number = int(field["number"])
        word = field["name"] + field["marks"]
        words.append(word if number == last + 1 else f"{number}:{word}")
        last = number
    facts: dict[str, Any] = {"fields": " ".join(words)}
    for fact in ("enum", "default"):
        if said := {field["name"]: field[fact] for field in fields if field[fact] is not None}:
            facts[fact] = said
    return facts


def main(folder: str) -> None:
    """Write the facts of all packages, one message a line."""
    facts: dict[str, dict[str, Any]] = {}
    for path, name in PACKAGES.items():
        facts |= read_package(Path(folder) / path, name)
    lines = (f"{json.dumps(name)}: {json.dumps(facts[name])}" for name in sorted(facts))
    FACTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
