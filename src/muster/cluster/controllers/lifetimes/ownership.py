"""Decide for the garbage collector how the deletion of an owner affects its dependents. Pure.

An object is kept as long as one of its owners exists. A finalizer on a deleted owner decides about its dependents
(upstream's garbage collection, without a KEP since 1.8):

- `orphan`: the dependents stay, without the reference;
- `foregroundDeletion`: the dependents are deleted before the owner;
- neither: the dependents are deleted after the owner.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from muster.api.meta import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, ObjectMeta, OwnerReference

# How many UIDs of deleted objects are remembered, which saves a request each. UIDs are never used again.
DELETED_REMEMBERED = 100_000


class Item(Struct, frozen=True):
    """The facts about one object that the garbage collector needs."""

    resource: str
    namespace: str
    name: str
    uid: str
    owners: tuple[OwnerReference, ...]
    finalizers: tuple[str, ...]
    deleting: bool

    @classmethod
    def of(cls, resource: str, meta: ObjectMeta) -> "Item":
        """Return the item of an object, from the object's metadata."""
        return cls(
            resource=resource,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            owners=meta.owner_references,
            finalizers=meta.finalizers,
            deleting=meta.deletion_timestamp is not None,
        )

    def agrees_with(self, resource: str, meta: ObjectMeta) -> bool:
        """Return whether this item is up to date with an object's metadata.

        The UID and the name must be equal already.
        """
        return (
            self.resource == resource
            and self.owners == meta.owner_references
            and self.finalizers == meta.finalizers
            and self.deleting == (meta.deletion_timestamp is not None)
        )

    @property
    def waits_for_dependents(self) -> bool:
        """Whether the object is being deleted in the foreground, so that its dependents are deleted first."""
        return self.deleting and FOREGROUND_FINALIZER in self.finalizers


class Delete(Struct, frozen=True):
    """The action that deletes an item without a remaining owner.

    No owner remains if each is deleted, or waits for the item in a foreground deletion.

    foreground: whether the item's own dependents must be deleted before the item.
    """

    item: Item
    foreground: bool


class DropReferences(Struct, frozen=True):
    """The action that removes references to owners from an item. owners: the UIDs of these owners."""

    item: Item
    owners: frozenset[str]  # UIDs


class DropFinalizer(Struct, frozen=True):
    """The action that removes a finalizer from an item, after the collector has done the finalizer's work."""

    item: Item
    finalizer: str


Action = Delete | DropReferences | DropFinalizer


class Graph:
    """All objects that are owners or have owners, by UID, and the edges between them."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}  # in the order in which they were linked
        self._deleted: dict[str, None] = {}  # in the order of their deletion

    def put(self, item: Item) -> None:
        """Add an object, or update a changed one."""
        known = self.items.get(item.uid)
        self.items[item.uid] = item
        if known is None or known.owners != item.owners:
            self._unlink(known)
            for owner in item.owners:
                self._dependents.setdefault(owner.uid, {})[item.uid] = None

    def remove(self, uid: str) -> None:
        """Remove an object that no longer exists."""
        self._unlink(self.items.pop(uid, None))
        self._deleted[uid] = None
        if len(self._deleted) > DELETED_REMEMBERED:
            del self._deleted[next(iter(self._deleted))]

    def was_deleted(self, uid: str) -> bool:
        """Return whether the collector saw the deletion of the object with this UID."""
        return uid in self._deleted

    def dependents(self, uid: str) -> Iterator[Item]:
        """Yield the objects that name this object as an owner, in the order in which they were added.

        There may be very many. An object in another namespace than its owner's does not count.
        """
        owner = self.items.get(uid)
        namespace = owner.namespace if owner is not None else ""
        named = (self.items[dependent] for dependent in self._dependents.get(uid, ()))
        return (item for item in named if not namespace or item.namespace == namespace)

    def yield_blocking(self, item: Item) -> Iterator[Item]:
        """Yield the dependents that must be deleted before an item that is deleted in the foreground.

        Leave out dependents that themselves wait for the item, because in a circle no object could be deleted first.
        """
        for dependent in self.dependents(item.uid):
            if not (item.waits_for_dependents and self._waits_for(dependent, item.uid)):
                yield dependent

    def _waits_for(self, dependent: Item, uid: str) -> bool:
        """Return whether the deletion of an object waits for the object `uid`, directly or through other objects."""
        visited: set[str] = set()
        todo = [dependent]
        while todo:
            item = todo.pop()
            if item.uid == uid:
                return True
            if item.uid not in visited and item.waits_for_dependents:
                visited.add(item.uid)
                todo.extend(self.dependents(item.uid))
        return False

    def _unlink(self, item: Item | None) -> None:
        if item is None:
            return
        for owner in item.owners:
            siblings = self._dependents.get(owner.uid)
            if siblings is not None:
                siblings.pop(item.uid, None)
                if not siblings:
                    del self._dependents[owner.uid]


def decide(item: Item, dependents: Iterable[Item], absent: frozenset[str], waiting: frozenset[str]) -> list[Action]:
    """Return what to do about one object now.

    dependents: read only as far as the decision needs.
    absent: the UIDs of owners that do not exist.
    waiting: the UIDs of owners that are being deleted in the foreground.
    """
    if item.deleting:
        return _decide_deletion(item, dependents)
    if not item.owners:
        return []
    solid = [owner for owner in item.owners if owner.uid not in absent and owner.uid not in waiting]
    if solid:
        gone = frozenset(owner.uid for owner in item.owners) - {owner.uid for owner in solid}
        return [DropReferences(item, gone)] if gone else []
    # In the foreground a dependent waits for its own dependents, too.
    foreground = bool(waiting) and any(True for _ in dependents)
    return [Delete(item, foreground)]


def _decide_deletion(item: Item, dependents: Iterable[Item]) -> list[Action]:
    """Return what to do about an object that is being deleted and may have dependents.

    Only the finalizers of the garbage collector count; all other finalizers belong to other programs.
    """
    if ORPHAN_FINALIZER in item.finalizers:
        own = frozenset([item.uid])
        return [DropReferences(dependent, own) for dependent in dependents] or [DropFinalizer(item, ORPHAN_FINALIZER)]
    if FOREGROUND_FINALIZER in item.finalizers:
        if any(_is_blocking(dependent, item.uid) for dependent in dependents):
            return []
        return [DropFinalizer(item, FOREGROUND_FINALIZER)]
    return []


def _is_blocking(dependent: Item, owner: str) -> bool:
    return any(ref.uid == owner and bool(ref.block_owner_deletion) for ref in dependent.owners)
