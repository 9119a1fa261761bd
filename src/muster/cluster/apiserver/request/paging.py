"""Paging of lists: continue tokens, and the state of a resource at the revision that a list shows.

The token of a page names the revision of the list and the last object of the page. `Snapshots` keeps the state at that
revision while it has room. After that it rebuilds the state from the store's retained changes. If these are no longer
kept, the client gets 410 Expired, with a token that continues at the newest revision instead.
"""

import base64
import binascii
from bisect import bisect_right
from collections import OrderedDict
from datetime import datetime, timedelta

import msgspec

from muster.api.meta import ListMeta, Struct
from muster.api.status import ApiError, Status, StatusCause, StatusDetails, bad_request
from muster.cluster.store import Compacted, Entry, Key, Snapshot, Store

# A pinned state is a tuple of references: 40 KB for 5,000 objects. It keeps the old bodies of objects changed since.
PINNED_SNAPSHOTS = 64
PINNED_ENTRIES = 1_000_000  # the limit for the sum of all pinned states
PINNED_FOR = timedelta(minutes=5)  # kube-apiserver compacts etcd after the same time
NEWEST = -1  # the revision in a token that continues with the newest state

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class Token(Struct):
    """The content of a continue token, in upstream's form.

    v: the version of the form.
    rv: the revision that the list shows; `NEWEST` for the newest one.
    start: the key of the last object before this page, as <namespace>/<name>.
    """

    v: str = ""
    rv: int = 0
    start: str = ""


def encode_token(revision: int, last: Key) -> str:
    """Return the token of the page after an object."""
    return _encode_token(revision, f"{last.namespace}/{last.name}")


def _encode_token(revision: int, start: str) -> str:
    token = Token(v="meta.k8s.io/v1", rv=revision, start=start)
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def decode_token(text: str) -> Token:
    """Return the content of a token. Raises `ApiError` (400) for an invalid token."""
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Token)
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError) as error:
        raise invalid_token(str(error)) from None
    if token.v != "meta.k8s.io/v1":
        raise invalid_token(f"server does not recognize this encoded version {token.v[:100]}")
    if not token.rv:
        raise invalid_token("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not token.start:
        raise invalid_token("encoded start key empty (version meta.k8s.io/v1)")
    if token.rv < NEWEST or "/" not in token.start:
        raise invalid_token("it was not made by this server")
    return token


def invalid_token(why: str) -> ApiError:
    """Return the error (400) for a continue token that cannot be decoded."""
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


class Snapshots:
    """The pinned states of resources at the revisions that clients page through."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pinned: OrderedDict[tuple[str, str, int], tuple[Snapshot, datetime]] = OrderedDict()
        self._entries = 0  # in all pinned states together

    def pin(self, resource: str, namespace: str, snapshot: Snapshot, now: datetime) -> None:
        """Keep a state for later pages for `PINNED_FOR`, and drop old states: expired ones, or above the limits."""
        key = (resource, namespace, snapshot.revision)
        if key not in self._pinned:
            self._entries += len(snapshot.entries)
        self._pinned[key] = (snapshot, now + PINNED_FOR)
        self._pinned.move_to_end(key)
        while self._pinned and self._is_full(now):
            _, (dropped, _until) = self._pinned.popitem(last=False)
            self._entries -= len(dropped.entries)

    def _is_full(self, now: datetime) -> bool:
        """Return whether the oldest state must be dropped: by number, by size or by age."""
        oldest_until = next(iter(self._pinned.values()))[1]
        return len(self._pinned) > PINNED_SNAPSHOTS or self._entries > PINNED_ENTRIES or oldest_until < now

    def at(self, resource: str, namespace: str, revision: int, now: datetime) -> Snapshot | None:
        """Return the state at a revision; None if it is not pinned and the store no longer has all changes since.

        The revision must not be newer than the store's.
        """
        pinned = self._pinned.get((resource, namespace, revision))
        if pinned is not None and pinned[1] >= now:
            return pinned[0]
        return self._undo_changes_since(resource, namespace, revision)

    def _undo_changes_since(self, resource: str, namespace: str, revision: int) -> Snapshot | None:
        """Return the newest state with all changes since a revision undone; None if some are not retained."""
        try:
            watch = self._store.watch(resource, revision, namespace)
        except Compacted:
            return None
        snapshot = self._store.list(resource, namespace)
        changes = watch.take()
        watch.close()
        entries = {entry.key: entry for entry in snapshot.entries}
        for change in reversed(changes):
            if change.previous is None:
                entries.pop(change.entry.key, None)
            else:
                entries[change.entry.key] = change.previous
        return Snapshot(revision, tuple(entries[key] for key in sorted(entries)))


def make_expired_error(last: str) -> ApiError:
    """Return the error (410) for a token whose revision is lost, with a token that continues at the newest revision."""
    meta = ListMeta(continue_=_encode_token(NEWEST, last))
    return ApiError(Status(metadata=meta, status="Failure", code=410, reason="Expired", message=_EXPIRED))


def too_large_revision(revision: int, current: int) -> ApiError:
    """Return the error (504) for a revision that is newer than the store's."""
    cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
    details = StatusDetails(causes=(cause,), retry_after_seconds=1)
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return ApiError(Status(status="Failure", code=504, reason="Timeout", message=message, details=details))


def find_index_after(entries: tuple[Entry, ...], start: str) -> int:
    """Return the index of the first entry after the last object of a token.

    start: that object, as <namespace>/<name>.
    """
    namespace, _, name = start.partition("/")
    return bisect_right(entries, (namespace, name), key=lambda entry: (entry.key.namespace, entry.key.name))
