"""The verbs get and list.

If the client requests objects in the stored form, the stored bytes are sent undecoded. Readers see only committed
objects. A list shows one revision: the newest revision, exactly the one that the client requests, or the revision of
the list's first page.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from muster.api.meta import ListMeta
from muster.api.status import bad_request, expired, not_found
from muster.cluster.apiserver.objects.loading import load_entries
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.apiserver.request import paging
from muster.cluster.apiserver.request.representation import LONG_BYTES, Form, Listed, Presentation, separate_bodies
from muster.cluster.apiserver.request.requestinfo import ListOptions, revision_of_list
from muster.cluster.apiserver.request.selection import Selection, parse_selection
from muster.cluster.store import Entry, Key, Snapshot, Store
from muster.runtime.clock import Clock

# Bounds on the cache of joined lists. It helps when many clients list a whole collection that does not change.
_WORTH_CACHING = 100  # objects in a list
_CACHED_LISTS = 16
_CACHED_BYTES = 64 << 20


class Reader:
    """The part that answers get and list from the store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._snapshots = paging.Snapshots(store)
        self._joined = _JoinedLists()

    def get(self, key: Key, resource: Resource, query: Mapping[str, str]) -> Entry:
        """Return a committed object in its stored form.

        Raises `ApiError`: 400 for an invalid resource version, 504 for a version newer than the store's, or 404.
        """
        if query:
            self._check_reached(revision_of_list(query.get("resourceVersion", "")))
        entry = self._store.get(key)
        if entry is None:
            raise not_found(resource.name, key.name)
        return entry

    async def list(
        self, resource: Resource, view: View, namespace: str, options: ListOptions, form: Form, include: str
    ) -> Listed:
        """Return an encoded list or a page of it, in pieces if it is long. Raises `ApiError`.

        namespace: "" for all namespaces.
        include: the part of each object in a table, as in `includeObject`.
        """
        presentation = Presentation(resource, view, form, include, self._clock.now())
        if not (options.label_selector or options.field_selector or options.limit or options.continue_):
            snapshot, _ = self._find_state(resource, namespace, options)
            return await self._list_whole(snapshot, namespace, presentation)
        page, meta = self.page(resource, namespace, options)
        entries = await load_entries(resource, page)
        return await presentation.list(entries, meta)

    def page(self, resource: Resource, namespace: str, options: ListOptions) -> tuple[Sequence[Entry], ListMeta]:
        """Return the selected objects of a list or page, in their stored form, and the list's metadata.

        Raises `ApiError`.
        """
        selection = parse_selection(options.label_selector, options.field_selector, resource.fields)
        snapshot, start = self._find_state(resource, namespace, options)
        if selection.name and namespace and not start and snapshot.revision == self._store.revision:
            snapshot = self._select_object(snapshot, Key(resource.key, namespace, selection.name))
        return self._cut(snapshot, start, selection, options.limit, (resource.key, namespace))

    def _select_object(self, snapshot: Snapshot, key: Key) -> Snapshot:
        """Return a snapshot with only this object in its newest committed state, or none if it does not exist."""
        entry = self._store.get(key)
        return Snapshot(snapshot.revision, (entry,) if entry is not None else ())

    def _find_state(self, resource: Resource, namespace: str, options: ListOptions) -> tuple[Snapshot, str]:
        """Return the state to show, and the key after which the page starts ("" for the first page)."""
        if options.continue_:
            return self._continue_list(resource, namespace, options)
        revision = revision_of_list(options.resource_version)
        self._check_reached(revision)
        match = options.resource_version_match
        if not match and revision and options.limit:
            match = "Exact"  # upstream's rule for clients older than resourceVersionMatch
        if match == "Exact":
            return self._get_exact_snapshot(resource, namespace, revision), ""
        return self._store.list(resource.key, namespace), ""

    def _continue_list(self, resource: Resource, namespace: str, options: ListOptions) -> tuple[Snapshot, str]:
        token = paging.decode_token(options.continue_)
        if options.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        if token.rv == paging.NEWEST:
            return self._store.list(resource.key, namespace), token.start
        if token.rv > self._store.revision:
            raise paging.invalid_token("it was not made by this server")
        snapshot = self._snapshots.at(resource.key, namespace, token.rv, self._clock.now())
        if snapshot is None:
            raise paging.make_expired_error(token.start)
        return snapshot, token.start

    def _get_exact_snapshot(self, resource: Resource, namespace: str, revision: int) -> Snapshot:
        snapshot = self._snapshots.at(resource.key, namespace, revision, self._clock.now())
        if snapshot is None:
            raise expired("The resourceVersion for the provided list is too old.")
        return snapshot

    def _check_reached(self, revision: int) -> None:
        if revision > self._store.revision:
            raise paging.too_large_revision(revision, self._store.revision)

    def _cut(
        self, snapshot: Snapshot, start: str, selection: Selection, limit: int, collection: tuple[str, str]
    ) -> tuple[Sequence[Entry], ListMeta]:
        """Return a page of a snapshot, and the list's metadata with the token of the next page, if there is one.

        Keep the snapshot for the next page.

        start: the key after which the page starts; "" for the first page.
        limit: the most objects of the page; 0 for all.
        collection: the resource and the namespace of the list.
        """
        entries: Sequence[Entry] = snapshot.entries
        first = paging.find_index_after(snapshot.entries, start) if start else 0
        page, end = take_page(entries, first, selection, limit)
        meta = ListMeta(resource_version=str(snapshot.revision))
        if end < len(entries):
            self._snapshots.pin(*collection, snapshot, self._clock.now())
            meta = ListMeta(
                resource_version=meta.resource_version,
                continue_=paging.encode_token(snapshot.revision, page[-1].key),
                # With a selector, the count would cost a pass over all the rest. Upstream leaves it out, too.
                remaining_item_count=None if selection else len(entries) - end,
            )
        return page, meta

    async def _list_whole(self, snapshot: Snapshot, namespace: str, presentation: Presentation) -> Listed:
        meta = ListMeta(resource_version=str(snapshot.revision))
        entries = await load_entries(presentation.resource, snapshot.entries)
        is_long = sum(entry.size for entry in entries) > LONG_BYTES
        if entries is not snapshot.entries or not presentation.plain or len(entries) < _WORTH_CACHING or is_long:
            return await presentation.list(entries, meta)
        items = self._joined.find((presentation.resource.key, namespace), snapshot.entries)
        return await presentation.list(entries, meta) if items is None else presentation.join_list(items, meta)


def take_page(entries: Sequence[Entry], first: int, selection: Selection, limit: int) -> tuple[Sequence[Entry], int]:
    """Return the selected entries from an index on, and the index at which the next page starts.

    After the last page, that index is the number of entries. With a `limit` above 0, the page has at most that many
    entries, and fewer if their total size would exceed `LONG_BYTES`.

    first: the index at which the page starts.
    """
    if not limit:
        return selection.of(entries[first:]) if selection else entries[first:], len(entries)
    page: list[Entry] = []
    size, takes_all = 0, not selection
    for index in range(first, len(entries)):
        entry = entries[index]
        if takes_all or selection.matches(entry):
            size += entry.size
            if len(page) == limit or (page and size > LONG_BYTES):
                return page, index
            page.append(entry)
    return page, len(entries)


class _JoinedLists:
    """A cache of the joined bodies of whole collections, from the second request for the same state on."""

    def __init__(self) -> None:
        self._lists: OrderedDict[tuple[str, str], tuple[tuple[Entry, ...], bytes | None]] = OrderedDict()

    def find(self, collection: tuple[str, str], entries: tuple[Entry, ...]) -> bytes | None:
        """Return the joined bodies of a collection's entries, and keep them for the next request.

        Return None if this state is requested for the first time, or for the first time since the cache dropped it.

        collection: the resource and the namespace of the collection.
        """
        known = self._lists.get(collection)
        joined: bytes | None = None
        if known is not None and _is_same(known[0], entries):
            joined = known[1] if known[1] is not None else b"".join(separate_bodies(entries))
        self._lists[collection] = entries, joined
        self._lists.move_to_end(collection)
        while len(self._lists) > _CACHED_LISTS or self._sum_bytes() > _CACHED_BYTES:
            self._lists.popitem(last=False)
        return joined

    def _sum_bytes(self) -> int:
        return sum(len(joined) for _, joined in self._lists.values() if joined)


def _is_same(left: tuple[Entry, ...], right: tuple[Entry, ...]) -> bool:
    """Return whether both contain the same entries. Entries compare by identity and never change."""
    return left is right or left == right
