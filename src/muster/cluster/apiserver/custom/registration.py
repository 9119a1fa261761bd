"""Register custom resources: the registry follows the definitions in the store.

`CustomResources` reads all definitions at the start and then listens to the store. `resources` makes the resources of a
definition.
"""

import logging

import msgspec

from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION, CustomResourceDefinition
from muster.cluster.apiserver.admission.webhooks.calls import Calls
from muster.cluster.apiserver.custom.conversion import make_converter
from muster.cluster.apiserver.custom.resources import resources_of
from muster.cluster.apiserver.custom.versions import Stored
from muster.cluster.apiserver.registry.resources import Registry
from muster.cluster.store import Change, Entry, Store
from muster.runtime.ids import Ids

log = logging.getLogger(__name__)


class CustomResources:
    """The part of the API server that keeps a registry up to date with the definitions in a store."""

    def __init__(self, store: Store, registry: Registry, calls: Calls, ids: Ids) -> None:
        self._store = store
        self._registry = registry
        self._calls = calls
        self._ids = ids
        # By the name of a definition: the parts that decide how it is served, and how its objects are stored.
        self._served: dict[str, tuple[object, Stored]] = {}

    def start(self) -> None:
        """Register the resources of all definitions, and of each definition that changes from now on."""
        key = CUSTOM_RESOURCE_DEFINITION.resource
        for entry in self._store.list(key).entries:
            self._serve(entry)
        self._store.listen(key, self._on_definition_changed)

    def _on_definition_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._served.pop(change.entry.key.name, None)
            self._registry.set_custom(change.entry.key.name, ())
        else:
            self._serve(change.entry)

    def _serve(self, entry: Entry) -> None:
        name = entry.key.name
        try:
            definition = CUSTOM_RESOURCE_DEFINITION.decode(entry.body)
            if not self._registry.is_builtin(definition.spec.group, definition.spec.names.plural):
                self._follow(entry, definition)
        except (msgspec.MsgspecError, RecursionError):
            log.exception("a definition cannot be read and is not served", extra={"definition": name})
            self._registry.set_custom(name, ())

    def _follow(self, entry: Entry, definition: CustomResourceDefinition) -> None:
        name, reason = entry.key.name, _extract_served_parts(definition)
        previous_reason, stored = self._served.get(name, (None, Stored()))
        if previous_reason == reason:
            return
        self._served[name] = reason, stored
        # The first generation of a definition has stored all objects. A later one has stored the objects from now on.
        since = 0 if definition.metadata.generation <= 1 else self._store.latest_list(entry.key.resource).revision
        convert = make_converter(definition, self._calls, self._ids)
        self._registry.set_custom(name, resources_of(definition, convert, since, stored))


def _extract_served_parts(definition: CustomResourceDefinition) -> object:
    """Return the parts of a definition that decide how it is served. The caller only compares them for equality."""
    meta, status = definition.metadata, definition.status
    conditions = frozenset((condition.type, condition.status) for condition in status.conditions)
    return meta.uid, meta.generation, conditions, status.accepted_names
