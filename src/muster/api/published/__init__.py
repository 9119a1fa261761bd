"""The schemas of Kubernetes' own kinds, as Kubernetes publishes them (under the Apache License 2.0, like Muster).

Each JSON file has the messages of one Go package by name. A message has its OpenAPI v3 schema, which refers to other
messages, and its fields in the order of their numbers in protobuf. This module reads a file when a kind of the package
first needs it. `tools.published` generates the files, so nobody edits them.
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

_FILES = {path.stem: path for path in Path(__file__).parent.glob("*.json")}
_PACKAGES = {
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}


class _Message(msgspec.Struct):
    fields: str
    schema: msgspec.Raw = msgspec.Raw()


class Field(NamedTuple):
    """One field of a message.

    is_optional: whether Go can tell the field's absence from its zero.
    is_always_written: whether Go writes the field's zero, too.
    """

    number: int
    name: str
    is_optional: bool
    is_always_written: bool


def component_of_kind(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's component: `io.k8s.api.core.v1.Pod`; "" for a kind that is not Kubernetes' own."""
    package = _PACKAGES.get(group) or f"io.k8s.api.{group.partition('.')[0] or 'core'}"
    name = f"{package}.{version}.{kind}"
    schema = schema_of(name)
    names = {"group": group, "version": version, "kind": kind}
    return name if schema is not None and names in schema.get("x-kubernetes-group-version-kind", ()) else ""


def schema_of(component: str) -> dict[str, Any] | None:
    """Return a new copy of a component's schema; None for an unknown component."""
    message = _find_message(component)
    return msgspec.json.decode(message.schema) if message is not None and message.schema else None


def fields_of(component: str) -> list[Field]:
    """Return a message's fields in the order of their numbers.

    A field with the name `*Message` is another message, whose fields belong to the JSON object around it.
    """
    message = _find_message(component)
    fields: list[Field] = []
    number = 0
    for entry in message.fields.split() if message is not None else ():
        jump, _, word = entry.rpartition(":")
        number = int(jump) if jump else number + 1
        fields.append(Field(number, word.rstrip("?!"), "?" in word, "!" in word))
    return fields


def _find_message(component: str) -> _Message | None:
    package, _, name = component.rpartition(".")
    return _load_messages(package).get(name) if package in _FILES else None


@cache
def _load_messages(package: str) -> dict[str, _Message]:
    return msgspec.json.decode(_FILES[package].read_bytes(), type=dict[str, _Message])
