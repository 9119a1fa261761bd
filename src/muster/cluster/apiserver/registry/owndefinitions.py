"""Definitions of the kinds that the server has by itself: they are listed as any other, and stay as they are.

Whatever is written to one of them, its spec is the server's. A writer who brings another (the manifests of Kueue or
JobSet) sets its metadata and is told the rest by a warning. So what is installed on a cluster is applied here, too.
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
"""Definitions by their names."""


def as_stored(definitions: Iterable[Document]) -> Definitions:
    """Return the definitions as they are stored: in their form, with all defaults."""
    resource = CUSTOM_RESOURCE_DEFINITIONS
    found = {}
    for definition in definitions:
        plain = msgspec.json.decode(msgspec.json.encode(definition))
        document = resource.view.checker(plain).value
        resource.rules.default(document)
        found[document["metadata"]["name"]] = document
    return found


def with_own_definitions(resources: Sequence[Resource], own: Definitions) -> Sequence[Resource]:
    """Return the resources, with CustomResourceDefinitions of which these keep their specs."""
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
    if status := document.get("status"):  # a user's may have named other versions: nothing was ever stored in them
        stored = [version["name"] for version in spec["versions"] if version["storage"]]
        document["status"] = status | {"storedVersions": stored}


@dataclass(frozen=True, slots=True)
class _Applied:
    """A configuration that is applied. It has our spec, so that its manager is at odds with nobody."""

    view: View
    own: Definitions

    def __call__(self, old: Document, config: Document) -> Document:  # noqa: ARG002  (it is the view's)
        taken: dict[str, Any] = {
            **self.view.take({"metadata": {}}, config),
            "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
            "kind": CUSTOM_RESOURCE_DEFINITION.kind,
            "metadata": config["metadata"],
        }
        _pin(taken, self.own)
        return taken
