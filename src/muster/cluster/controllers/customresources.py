"""The end of a definition: the objects of its kind go first, and names that it leaves go to who waits for them.

Upstream's finalizer and naming controllers (k8s.io/apiextensions-apiserver/pkg/controller/finalizer, status). Whether
a name is free is decided by the server in every write of a definition; this controller only has to write.
"""

from collections.abc import Iterable
from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.server.apiextensions import CLEANUP_FINALIZER
from muster.cluster.controllers.customkinds import DEFINITION, Definition, definitions
from muster.runtime.controller import Result
from muster.runtime.manager import Manager
from muster.runtime.reconciler import Reconciler
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request

# Objects may have finalizers of their own.
RECHECK_SECONDS = 5.0


class CustomResourceController(Reconciler):
    """Runs under a `Manager`; keys are definitions."""

    name = "custom-resource-controller"

    def __init__(self, manager: Manager, builtin: Iterable[Kind[Any]]) -> None:
        """Objects of kinds that are `builtin` outlive their definitions: they are served without."""
        super().__init__(manager, workers=2)
        self._builtin = frozenset(kind.resource for kind in builtin)
        self._definitions = definitions(manager)
        self._definitions.on_change(self._changed)

    def _changed(self, old: Definition | None, new: Definition | None) -> None:
        if new is not None:
            # Every write of a definition has settled its names: only what came before this began is asked for again.
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
                await self._ask_for_names(name)
            return None
        if CLEANUP_FINALIZER not in definition.metadata.finalizers:
            return None
        kind = definition.kind
        if kind is not None and kind.resource not in self._builtin and not await self._empty(kind):
            return RECHECK_SECONDS
        await self._let_go(definition)
        return None

    async def _ask_for_names(self, name: str) -> None:
        """Have the server look again: it sets the conditions in every write that changes something."""
        with ignoring("NotFound"):
            await self._client.patch(DEFINITION, name, {"status": {"conditions": []}}, subresource="status")

    async def _empty(self, kind: Kind[Object]) -> bool:
        """Ask for the deletion of all objects; whether none is left."""
        found = await self._client.list(kind)
        for namespace in sorted({obj.metadata.namespace for obj in found.items if not obj.metadata.deletion_timestamp}):
            await self._client.raw(Request("DELETE", kind.path(namespace)))
        return not (await self._client.page(kind, limit=1)).items

    async def _let_go(self, definition: Definition) -> None:
        kept = [finalizer for finalizer in definition.metadata.finalizers if finalizer != CLEANUP_FINALIZER]
        with ignoring("NotFound"):
            await self._client.patch_object(DEFINITION, definition, {"metadata": {"finalizers": kept}})
