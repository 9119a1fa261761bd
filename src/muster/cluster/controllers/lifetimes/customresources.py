"""Delete the objects of deleted definitions, and pass freed names to waiting definitions.

Upstream has finalizer and naming controllers for this (k8s.io/apiextensions-apiserver/pkg/controller/finalizer,
status). The server decides in every write of a definition whether its names are free; this controller only has to
write.
"""

from collections.abc import Iterable
from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.server.apiextensions import CLEANUP_FINALIZER
from muster.cluster.controllers.lifetimes.customkinds import DEFINITION, Definition, follow_definitions
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request

# Objects may have finalizers of their own.
RECHECK_SECONDS = 5.0


class CustomResourceController(Reconciler):
    """The controller that deletes the objects of a deleted definition. Its keys are names of definitions."""

    name = "custom-resource-controller"

    def __init__(self, manager: Manager, builtin: Iterable[Kind[Any]]) -> None:
        """Make the controller.

        builtin: kinds that are served without a definition, so their objects outlive it.
        """
        super().__init__(manager, workers=2)
        self._builtin = frozenset(kind.resource for kind in builtin)
        self._definitions = follow_definitions(manager)
        self._definitions.on_change(self._on_definition_changed)

    def _on_definition_changed(self, old: Definition | None, new: Definition | None) -> None:
        if new is not None:
            # Every write of a definition checks its names. So only definitions from before the start are written again.
            waits = old is None and not new.has_its_names
            if waits or new.metadata.deletion_timestamp is not None:
                self._controller.queue.add(new.metadata.name)
        if old is None or (new is not None and new.status.accepted_names == old.status.accepted_names):
            return
        for rival in self._definitions.all():  # names may have become free
            if rival.spec.group == old.spec.group and not rival.has_its_names:
                self._controller.queue.add(rival.metadata.name)

    async def _reconcile(self, name: str) -> Result:
        definition = self._definitions.get(name)
        if definition is None:
            return None
        if definition.metadata.deletion_timestamp is None:
            if not definition.has_its_names:
                await self._request_name_check(name)
            return None
        if CLEANUP_FINALIZER not in definition.metadata.finalizers:
            return None
        kind = definition.kind
        if kind is not None and kind.resource not in self._builtin and not await self._delete_objects(kind):
            return RECHECK_SECONDS
        await self._drop_finalizer(definition)
        return None

    async def _request_name_check(self, name: str) -> None:
        """Write a definition, so that the server checks again whether its names are free."""
        with ignoring("NotFound"):
            await self._client.patch(DEFINITION, name, {"status": {"conditions": []}}, subresource="status")

    async def _delete_objects(self, kind: Kind[Object]) -> bool:
        """Delete all objects of a kind; return False if some remain."""
        listing = await self._client.list(kind)
        for namespace in sorted(
            {obj.metadata.namespace for obj in listing.items if not obj.metadata.deletion_timestamp}
        ):
            await self._client.raw(Request("DELETE", kind.path(namespace)))
        return not (await self._client.page(kind, limit=1)).items

    async def _drop_finalizer(self, definition: Definition) -> None:
        finalizers = [finalizer for finalizer in definition.metadata.finalizers if finalizer != CLEANUP_FINALIZER]
        with ignoring("NotFound"):
            await self._client.patch_object(DEFINITION, definition, {"metadata": {"finalizers": finalizers}})
