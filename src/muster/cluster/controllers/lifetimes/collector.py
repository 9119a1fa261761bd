"""Run the garbage collector: execute the decisions of `ownership`, for every kind that the server serves."""

from collections.abc import Iterable
from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import Object, OwnerReference
from muster.api.status import conflict
from muster.cluster.controllers.lifetimes.customkinds import follow_custom_kinds
from muster.cluster.controllers.lifetimes.ownership import (
    Action,
    Delete,
    DropFinalizer,
    DropReferences,
    Graph,
    Item,
    decide,
)
from muster.runtime.control.controller import Result
from muster.runtime.control.lanes import Lane
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.refusals import ignoring

WORKERS = 16


class GarbageCollector(Reconciler):
    """The garbage collector. A `Manager` runs it; its keys are UIDs of objects."""

    name = "garbage-collector"

    def __init__(self, manager: Manager, kinds: Iterable[Kind[Any]]) -> None:
        """Make the collector.

        kinds: the built-in kinds. The collector also follows each custom kind as long as the server serves it.
        """
        super().__init__(manager, workers=WORKERS, lane=self._find_lane)
        self._manager = manager
        self._graph = Graph()
        self._kinds: dict[str, Kind[Object]] = {}
        self._by_name: dict[tuple[str, str], Kind[Object]] = {}
        kinds = [kind.seen_as(Object) for kind in kinds]
        for kind in kinds:
            self._follow(kind)
        follow_custom_kinds(manager, kinds, self._on_kind_changed)

    def _find_lane(self, uid: str) -> Lane:
        """Return the lane of an object in the queue: its namespace.

        The namespace is "" for an object without a namespace, and for an object that no longer exists.
        Lanes take turns, so a user who deletes many objects does not delay the objects of others.
        """
        item = self._graph.items.get(uid)
        return (item.namespace if item is not None else "",)

    def _follow(self, kind: Kind[Object]) -> None:
        self._kinds[kind.resource] = self._by_name[kind.group, kind.kind] = kind
        self._manager.informer(kind).on_change(lambda old, new: self._on_changed(kind.resource, old, new))

    def _on_kind_changed(self, old: Kind[Object] | None, new: Kind[Object] | None) -> None:
        if old is not None:
            self._manager.forget(old)
        if new is not None:
            self._follow(new)
        elif old is not None:
            # All objects of the kind no longer exist, even if their events have not arrived.
            del self._kinds[old.resource], self._by_name[old.group, old.kind]
            for item in [item for item in self._graph.items.values() if item.resource == old.resource]:
                self._on_gone(item.uid, item.owners)

    def _on_changed(self, resource: str, old: Object | None, new: Object | None) -> None:
        queue = self._controller.queue
        if new is None:
            assert old is not None
            self._on_gone(old.metadata.uid, old.metadata.owner_references)
            return
        known = self._graph.items.get(new.metadata.uid)
        if known is not None and known.agrees_with(resource, new.metadata):
            return
        item = Item.of(resource, new.metadata)
        self._graph.put(item)
        if item.owners or item.deleting:
            queue.add(item.uid)
        if item.waits_for_dependents and not (known and known.waits_for_dependents):
            for dependent in self._graph.dependents(item.uid):
                queue.add(dependent.uid)
        for owner in known.owners if known else ():  # an owner no longer waits for an orphan
            if owner not in item.owners:
                queue.add(owner.uid)

    def _on_gone(self, uid: str, owners: Iterable[OwnerReference]) -> None:
        self._graph.remove(uid)
        for item in self._graph.dependents(uid):
            self._controller.queue.add(item.uid)
        for owner in owners:  # an owner in the foreground may have waited for this object
            self._controller.queue.add(owner.uid)

    async def _reconcile(self, uid: str) -> Result:
        item = self._graph.items.get(uid)
        if item is None:
            return None
        absent = frozenset(
            [owner.uid for owner in item.owners if not item.deleting and await self._is_absent(item, owner)]
        )
        owners = (self._graph.items.get(owner.uid) for owner in item.owners)
        waiting = frozenset(owner.uid for owner in owners if owner is not None and owner.waits_for_dependents)
        for action in decide(item, self._graph.yield_blocking(item), absent, waiting):
            await self._run_action(action)
        return None

    async def _is_absent(self, item: Item, owner: OwnerReference) -> bool:
        """Return whether an owner does not exist. If the graph does not contain the owner, ask the server.

        An object of another namespace does not count as an owner. An owner of an unknown kind counts as existing.
        """
        known = self._graph.items.get(owner.uid)
        if known is not None:
            return known.namespace not in ("", item.namespace)
        if self._graph.was_deleted(owner.uid):
            return True
        group, _, _ = owner.api_version.rpartition("/")
        kind = self._by_name.get((group, owner.kind))
        if kind is None:
            return False  # nothing is known of a kind that is not served: keep the object
        present = await self._client.find(kind, owner.name, item.namespace if kind.namespaced else "")
        return present is None or present.metadata.uid != owner.uid

    async def _run_action(self, action: Action) -> None:
        with ignoring("NotFound"):
            match action:
                case Delete(item, foreground):
                    current = await self._read_current(item)
                    await self._client.delete(
                        self._kinds[item.resource],
                        item.name,
                        item.namespace,
                        propagation="Foreground" if foreground else "Background",
                        uid=item.uid,
                        resource_version=current.metadata.resource_version,
                    )
                case DropReferences(item, owners):
                    remaining = [owner for owner in item.owners if owner.uid not in owners]
                    await self._patch_metadata(item, {"ownerReferences": remaining})
                case DropFinalizer(item, finalizer):
                    await self._patch_metadata(
                        item, {"finalizers": [name for name in item.finalizers if name != finalizer]}
                    )

    async def _patch_metadata(self, item: Item, metadata: dict[str, Any]) -> None:
        """Change the metadata of the object's version on which the decision was based.

        The patch replaces whole lists.
        """
        current = await self._read_current(item)
        await self._client.patch_object(self._kinds[item.resource], current, {"metadata": metadata})

    async def _read_current(self, item: Item) -> Object:
        """Return the current object from the server.

        Raises `ApiError` (Conflict) if it differs from the object that was decided about, because its owners may
        differ.
        """
        current = await self._client.get(self._kinds[item.resource], item.name, item.namespace)
        if Item.of(item.resource, current.metadata) != item:
            raise conflict(item.resource, item.name)  # the graph is behind: decide again when it has caught up
        return current
