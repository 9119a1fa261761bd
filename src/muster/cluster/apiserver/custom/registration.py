"""Keeps what is served in step with the definitions in the store: from the start, and at the moment of every change."""

import logging

import msgspec

from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION, CustomResourceDefinition
from muster.cluster.apiserver.admission.webhooks.calls import Calls
from muster.cluster.apiserver.custom.conversion import conversion
from muster.cluster.apiserver.custom.resources import resources_of
from muster.cluster.apiserver.custom.versions import Stored
from muster.cluster.apiserver.registry.resources import Registry
from muster.cluster.store import Change, Entry, Store
from muster.runtime.ids import Ids

log = logging.getLogger(__name__)


class CustomResources:
    """Serves what the definitions in a store say."""

    def __init__(self, store: Store, registry: Registry, calls: Calls, ids: Ids) -> None:
        self._store = store
        self._registry = registry
        self._calls = calls
        self._ids = ids
        self._served: dict[str, tuple[object, Stored]] = {}  # by name: what of the definition it follows from

    def start(self) -> None:
        """Serve what is defined, and from now on what will be."""
        key = CUSTOM_RESOURCE_DEFINITION.resource
        for entry in self._store.list(key).entries:
            self._serve(entry)
        self._store.listen(key, self._changed)

    def _changed(self, change: Change) -> None:
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
        name, reason = entry.key.name, _reason(definition)
        known, stored = self._served.get(name, (None, Stored()))
        if known == reason:
            return
        self._served[name] = reason, stored
        # Under the first generation everything was stored in its form; later, only what comes after this moment.
        since = 0 if definition.metadata.generation <= 1 else self._store.latest_list(entry.key.resource).revision
        convert = conversion(definition, self._calls, self._ids)
        self._registry.set_custom(name, resources_of(definition, convert, since, stored))


def _reason(definition: CustomResourceDefinition) -> object:
    """What of a definition decides how it is served."""
    meta, status = definition.metadata, definition.status
    conditions = frozenset((condition.type, condition.status) for condition in status.conditions)
    return meta.uid, meta.generation, conditions, status.accepted_names
