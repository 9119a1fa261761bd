"""CustomResourceDefinitions of the built-in kinds. Clients list them like others, but cannot change their specs.

A client that writes such a definition (the manifests of Kueue or JobSet) sets only its metadata. The server keeps its
own spec and answers with a warning. So the same manifests apply here and on a real cluster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION, CustomResourceDefinition
from muster.api.status import FieldError
from muster.api.validation.server import customresourcedefinition as rules
from muster.cluster.apiserver.custom import definition as compiled
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from muster.cluster.apiserver.registry.resources import Resource, View


class Definitions(Mapping[str, Document]):
    """The CustomResourceDefinitions that the server provides itself, by name.

    Each is decoded when it is read, because all of them together take some MB.
    """

    def __init__(self, encoded: Mapping[str, bytes]) -> None:
        self._encoded = encoded

    def __getitem__(self, name: str) -> Document:
        document: Document = msgspec.json.decode(self._encoded[name])
        return document

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)


def encode_definitions(definitions: Iterable[Document]) -> Definitions:
    """Set the defaults in the definitions, in place, and return them encoded, by name.

    The definitions must have only fields that the API knows. A test checks that, because the check would slow a start.
    """
    encoded = {}
    for definition in definitions:
        CUSTOM_RESOURCE_DEFINITIONS.rules.default(definition)
        encoded[definition["metadata"]["name"]] = msgspec.json.encode(definition)
    return Definitions(encoded)


def with_own_definitions(resources: Sequence[Resource], own: Definitions) -> Sequence[Resource]:
    """Return the resources with CustomResourceDefinitions replaced by ones that keep the specs of `own`."""
    key = CUSTOM_RESOURCE_DEFINITION.resource
    return [_pin_resource(resource, own) if own and resource.key == key else resource for resource in resources]


def _pin_resource(resource: Resource, own: Definitions) -> Resource:
    """Return a resource of definitions that replaces the spec of a written definition by the spec in `own`."""

    def default(document: Document) -> None:
        _pin(document, own)
        resource.rules.default(document)

    def prepare_update(document: Document, stored: Document) -> None:
        resource.rules.prepare_update(document, stored)
        _pin(document, own)

    view = replace(resource.view, take_config=_TakeConfig(resource.view, own))
    if resource is CUSTOM_RESOURCE_DEFINITIONS:
        view = replace(view, validate_create=partial(_validate_create, own))
    return replace(resource, view=view, rules=replace(resource.rules, default=default, prepare_update=prepare_update))


def _validate_create(own: Definitions, definition: CustomResourceDefinition) -> Sequence[FieldError]:
    """Return the errors in a new definition.

    The specs of the server's own definitions are not validated, because a test does that. So the first start neither
    walks through their schemas nor loads the compiler of CEL, which takes 20 MB.
    """
    if definition.metadata.name in own:
        return list(rules.validate_new_metadata(definition))
    return compiled.validate_create(definition)


def _pin(document: Document, own: Definitions) -> None:
    """Replace the spec of a definition by the server's own, in place, if the server provides the definition."""
    definition = own.get(document["metadata"].get("name", ""))
    if definition is None:
        return
    document["spec"] = spec = definition["spec"]
    if status := document.get("status"):  # the writer's spec may have added versions that no object was stored in
        stored = [version["name"] for version in spec["versions"] if version["storage"]]
        document["status"] = status | {"storedVersions": stored}


class _TakeConfig(msgspec.Struct, frozen=True):
    """The `take_config` of a view of definitions: it returns the stored form of an apply configuration.

    It replaces the configuration's spec by the server's own, so that no manager conflicts.
    """

    view: View
    own: Definitions

    def __call__(self, old: Document, config: Document) -> Document:  # noqa: ARG002  (`View.take_config` has this signature)
        taken: dict[str, Any] = {
            **self.view.take({"metadata": {}}, config),
            "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
            "kind": CUSTOM_RESOURCE_DEFINITION.kind,
            "metadata": config["metadata"],
        }
        _pin(taken, self.own)
        return taken
