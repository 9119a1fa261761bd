"""CustomResourceDefinitions of the built-in kinds: clients list them as any other, and their specs never change.

A client that writes such a definition (the manifests of Kueue or JobSet) sets its metadata. The server keeps its own
spec and answers with a warning. So the same manifests apply here and on a real cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from muster.cluster.apiserver.registry.resources import Resource, View

Definitions = Mapping[str, Document]
"""The definitions by their names."""


def as_stored(definitions: Iterable[Document]) -> Definitions:
    """Return the definitions in their stored form, with all defaults, by name."""
    resource = CUSTOM_RESOURCE_DEFINITIONS
    stored_definitions = {}
    for definition in definitions:
        plain = msgspec.json.decode(msgspec.json.encode(definition))
        document = resource.view.checker(plain).value
        resource.rules.default(document)
        stored_definitions[document["metadata"]["name"]] = document
    return stored_definitions


def with_own_definitions(resources: Sequence[Resource], own: Definitions) -> Sequence[Resource]:
    """Return the resources with CustomResourceDefinitions replaced by ones that keep the specs of `own`."""
    key = CUSTOM_RESOURCE_DEFINITION.resource
    return [_pinned(resource, own) if own and resource.key == key else resource for resource in resources]


def _pinned(resource: Resource, own: Definitions) -> Resource:
    def default(document: Document) -> None:
        resource.rules.default(document)
        _pin(document, own)

    def prepare_update(document: Document, stored: Document) -> None:
        resource.rules.prepare_update(document, stored)
        _pin(document, own)

    view = replace(resource.view, applied=_Applied(resource.view, own))
    return replace(resource, view=view, rules=replace(resource.rules, default=default, prepare_update=prepare_update))


def _pin(document: Document, own: Definitions) -> None:
    definition = own.get(document["metadata"].get("name", ""))
    if definition is None:
        return
    document["spec"] = spec = definition["spec"]
    if status := document.get("status"):  # the writer's spec may have added versions that no object was stored in
        stored = [version["name"] for version in spec["versions"] if version["storage"]]
        document["status"] = status | {"storedVersions": stored}


@dataclass(frozen=True, slots=True)
class _Applied:
    """The `applied` of a view that puts the server's own spec into configurations, so that no manager conflicts."""

    view: View
    own: Definitions

    def __call__(self, old: Document, config: Document) -> Document:  # noqa: ARG002  (the signature is that of `View.applied`)
        taken: dict[str, Any] = {
            **self.view.take({"metadata": {}}, config),
            "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
            "kind": CUSTOM_RESOURCE_DEFINITION.kind,
            "metadata": config["metadata"],
        }
        _pin(taken, self.own)
        return taken
