"""Get and list: stored bytes go out as they are, nothing is decoded.

Everything read is committed. A list shows one revision: the newest, unless an exact one is asked for.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from muster.api.meta import ListMeta
from muster.api.status import bad_request, expired, not_found
from muster.cluster.apiserver.objects.loading import loaded
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.apiserver.request import paging
from muster.cluster.apiserver.request.representation import LONG_BYTES, Form, Listed, Presentation
from muster.cluster.apiserver.request.requestinfo import ListOptions, revision_of_list
from muster.cluster.apiserver.request.selection import Selection, selection
from muster.cluster.store import Entry, Key, Snapshot, Store
from muster.runtime.clock import Clock

# Joined lists of whole collections: the ones that many ask for, while nothing changes.
_WORTH_CACHING = 100  # objects
_CACHED_LISTS = 16
_CACHED_BYTES = 64 << 20


class Reader:
    """Answers get and list from the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._snapshots = paging.Snapshots(store)
        self._joined = _JoinedLists()

    def get(self, key: Key, resource: Resource, query: Mapping[str, str]) -> Entry:
        """The object. Raises `ApiError` (400, 404, 504 for a revision that is still to come)."""
        if query:
            self._check_reached(revision_of_list(query.get("resourceVersion", "")))
        entry = self._store.get(key)
        if entry is None:
            raise not_found(resource.name, key.name)
        return entry

    async def list(
        self, resource: Resource, view: View, namespace: str, options: ListOptions, form: Form, include: str
    ) -> Listed:
        """The list, or the page of it, that is asked for; a long one in pieces. Raises `ApiError`."""
        presentation = Presentation(resource, view, form, include, self._clock.now())
        if not (options.label_selector or options.field_selector or options.limit or options.continue_):
            snapshot, _ = self._state(resource, namespace, options)
            return await self._whole(snapshot, namespace, presentation)
        page, meta = self.page(resource, namespace, options)
        entries = await loaded(resource, page)
        return await presentation.list([entry.body for entry in entries], meta)

    def page(self, resource: Resource, namespace: str, options: ListOptions) -> tuple[Sequence[Entry], ListMeta]:
        """The objects that are asked for, as they are stored, and what a list of them says of itself.

        Raises `ApiError`.
        """
        chosen = selection(options.label_selector, options.field_selector, resource.fields)
        snapshot, start = self._state(resource, namespace, options)
        if chosen.name and namespace and not start and snapshot.revision == self._store.revision:
            snapshot = self._only(snapshot, Key(resource.key, namespace, chosen.name))
        return self._cut(snapshot, start, chosen, options.limit, (resource.key, namespace))

    def _only(self, snapshot: Snapshot, key: Key) -> Snapshot:
        """The newest state, of which only this object is of interest."""
        entry = self._store.get(key)
        return Snapshot(snapshot.revision, (entry,) if entry is not None else ())

    def _state(self, resource: Resource, namespace: str, options: ListOptions) -> tuple[Snapshot, str]:
        """What to show, and the last object that was shown before."""
        if options.continue_:
            return self._continued(resource, namespace, options)
        asked = revision_of_list(options.resource_version)
        self._check_reached(asked)
        match = options.resource_version_match
        if not match and asked and options.limit:
            match = "Exact"  # as it was before there was resourceVersionMatch
        if match == "Exact":
            return self._exact(resource, namespace, asked), ""
        return self._store.list(resource.key, namespace), ""

    def _continued(self, resource: Resource, namespace: str, options: ListOptions) -> tuple[Snapshot, str]:
        token = paging.decode_token(options.continue_)
        if options.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        if token.rv == paging.NEWEST:
            return self._store.list(resource.key, namespace), token.start
        if token.rv > self._store.revision:
            raise paging.invalid_token("it was not made by this server")
        found = self._snapshots.at(resource.key, namespace, token.rv, self._clock.now())
        if found is None:
            raise paging.expired(token.start)
        return found, token.start

    def _exact(self, resource: Resource, namespace: str, asked: int) -> Snapshot:
        found = self._snapshots.at(resource.key, namespace, asked, self._clock.now())
        if found is None:
            raise expired("The resourceVersion for the provided list is too old.")
        return found

    def _check_reached(self, asked: int) -> None:
        if asked > self._store.revision:
            raise paging.too_large_revision(asked, self._store.revision)

    def _cut(
        self, snapshot: Snapshot, start: str, chosen: Selection, limit: int, where: tuple[str, str]
    ) -> tuple[Sequence[Entry], ListMeta]:
        entries: Sequence[Entry] = snapshot.entries
        first = paging.after(snapshot.entries, start) if start else 0
        found, end = _take(entries, first, chosen, limit)
        meta = ListMeta(resource_version=str(snapshot.revision))
        if end < len(entries):
            self._snapshots.pin(*where, snapshot, self._clock.now())
            meta = ListMeta(
                resource_version=meta.resource_version,
                continue_=paging.encode_token(snapshot.revision, found[-1].key),
                # With a selector, counting means looking at all the rest: upstream leaves it out too.
                remaining_item_count=None if chosen else len(entries) - end,
            )
        return found, meta

    async def _whole(self, snapshot: Snapshot, namespace: str, presentation: Presentation) -> Listed:
        meta = ListMeta(resource_version=str(snapshot.revision))
        entries = await loaded(presentation.resource, snapshot.entries)
        is_long = sum(len(entry.body) for entry in entries) > LONG_BYTES
        if entries is not snapshot.entries or not presentation.plain or len(entries) < _WORTH_CACHING or is_long:
            return await presentation.list([entry.body for entry in entries], meta)
        items = self._joined.get((presentation.resource.key, namespace), snapshot.entries)
        return presentation.joined(items, meta)


def _take(entries: Sequence[Entry], first: int, chosen: Selection, limit: int) -> tuple[Sequence[Entry], int]:
    """The chosen entries from an index on, and the index after the last one looked at.

    With a `limit` at most so many, and no more bytes than there is to be in memory at once: a page may be shorter.
    """
    if not limit:
        return chosen.of(entries[first:]) if chosen else entries[first:], len(entries)
    found: list[Entry] = []
    size = 0
    for index in range(first, len(entries)):
        entry = entries[index]
        if not chosen or chosen.matches(entry):
            size += len(entry.body)
            if len(found) == limit or (found and size > LONG_BYTES):
                return found, index
            found.append(entry)
    return found, len(entries)


class _JoinedLists:
    """The joined bodies of whole collections, remembered from the second time that the same one is asked for."""

    def __init__(self) -> None:
        self._lists: OrderedDict[tuple[str, str], tuple[tuple[Entry, ...], bytes | None]] = OrderedDict()

    def get(self, where: tuple[str, str], entries: tuple[Entry, ...]) -> bytes:
        """The bodies of the entries, joined."""
        known = self._lists.get(where)
        again = known is not None and _same(known[0], entries)
        if again and known is not None and known[1] is not None:
            self._lists.move_to_end(where)
            return known[1]
        joined = b",".join([entry.body for entry in entries])
        self._lists[where] = entries, joined if again else None
        self._lists.move_to_end(where)
        while len(self._lists) > _CACHED_LISTS or self._bytes() > _CACHED_BYTES:
            self._lists.popitem(last=False)
        return joined

    def _bytes(self) -> int:
        return sum(len(joined) for _, joined in self._lists.values() if joined)


def _same(left: tuple[Entry, ...], right: tuple[Entry, ...]) -> bool:
    """Whether both hold the same entries: entries compare by identity, and are never changed."""
    return left is right or left == right
