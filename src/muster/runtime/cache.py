"""Apply a server's lists and watch events to a cache of its objects: the pure half of an informer.

Invariants

- After `replace_all` the cache contains the objects of the list; after `apply_event`, also the event's change.
- Every difference is reported exactly once, as (old, new). If an object replaces another object of the same name, that
  is two differences.
- Versions of one resource are comparable numbers (kubernetes KEP-5504). An event older than the newest event so far is
  late or a repetition and changes nothing. Versions that are not numbers are taken in the order of their arrival.
- No function here waits, reads the time or sends requests.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from muster.api.status import ApiError
from muster.runtime.client import WatchEvent
from muster.runtime.objects import (
    NO_REVISION,
    is_same_but_status,
    key_of,
    meta_of,
    parse_revision,
    reads_status,
)
from muster.runtime.transport import TransportError, UnreadableAnswerError

T = TypeVar("T")

Change: TypeAlias = tuple[T | None, T | None]
"""An object before and after; None where there was or is none."""

IndexFunction: TypeAlias = Callable[[T], Iterable[str]]
"""Returns the index values of an object, from nothing but the object.

A function that is marked by `ignores_status` is not called for a change of the status alone.
"""


class Transform(Protocol):
    """A function that returns the part of an object to keep, of the same type. The parts of equal objects are equal."""

    def __call__(self, obj: Any, old: Any = None, /) -> Any:
        """Return the part to keep. old: the kept previous state, whose equal parts the result may share; or None."""
        ...


class Cache(Generic[T]):
    """A map of objects by key, with indexes. It iterates in the order of first insertion."""

    def __init__(self, indexes: Mapping[str, IndexFunction[T]]) -> None:
        self._objects: dict[str, T] = {}
        self._functions: dict[str, IndexFunction[T]] = {}
        self._status_functions: dict[str, IndexFunction[T]] = {}  # those that also read the status
        self._indexes: dict[str, dict[str, dict[str, None]]] = {}  # name -> value -> keys; no empty leaves
        for name, function in indexes.items():
            self.add_index(name, function)

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: str) -> T | None:
        """Return the object with that key; None if there is none."""
        return self._objects.get(key)

    def all(self) -> list[T]:
        """Return all objects, in the order of their first insertion."""
        return list(self._objects.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def by(self, index: str, value: str) -> list[T]:
        """Return the objects for which the index function returns this value."""
        objects = self._objects
        return [objects[key] for key in self._indexes[index].get(value, ())]

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Index all current and future objects by the result of `function`.

        Raises `ValueError` if another function has the name already.
        """
        known = self._functions.get(name)
        if known is not None:
            if known != function:
                raise ValueError(f"index {name!r} exists already with another function")
            return
        self._functions[name] = function
        if reads_status(function):
            self._status_functions[name] = function
        index: dict[str, dict[str, None]] = {}
        self._indexes[name] = index
        for key, obj in self._objects.items():
            for value in function(obj):
                index.setdefault(value, {})[key] = None

    def put(self, key: str, obj: T) -> T | None:
        """Store an object; return the previous object with its key, or None."""
        old = self._objects.get(key)
        self._objects[key] = obj
        may_skip = old is not None and is_same_but_status(old, obj)
        for name, function in (self._status_functions if may_skip else self._functions).items():
            values = tuple(function(obj))
            before = tuple(function(old)) if old is not None else ()
            if values == before:
                continue
            index = self._indexes[name]
            self._drop(index, key, set(before).difference(values))
            for value in values:
                index.setdefault(value, {})[key] = None
        return old

    def remove(self, key: str) -> T | None:
        """Remove an object and return it; None if there is none."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name, function in self._functions.items():
                self._drop(self._indexes[name], key, function(old))
        return old

    @staticmethod
    def _drop(index: dict[str, dict[str, None]], key: str, values: Iterable[str]) -> None:
        for value in values:
            keys = index.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del index[value]


class Reflector(Generic[T]):
    """The state of a list and watch: the cache that it fills, and the version at which it resumes."""

    def __init__(self, cache: Cache[T], transform: Transform) -> None:
        """Make a reflector that has seen nothing. transform: returns the form in which the cache stores an object."""
        self.cache = cache
        self._transform = transform
        self.version = ""  # everything up to here has been seen; "" requests a list

    def replace_all(self, items: Iterable[T], version: str) -> list[Change[T]]:
        """Replace the content of the cache by a full list of objects; return the changes.

        The changes are the new, changed and deleted objects since the previous list or event.

        items: the objects in the form that the cache stores.
        version: the version of the list.
        """
        current = {key_of(item): item for item in items}
        gone = [key for key in self.cache if key not in current]
        changes: list[Change[T]] = [(self.cache.remove(key), None) for key in gone]
        for key, item in current.items():
            changes += self._put(key, item)
        self.version = version
        return changes

    def apply_event(self, event: WatchEvent[T]) -> list[Change[T]]:
        """Apply one watch event to the cache; return the changes. An outdated event changes nothing."""
        version = event.resource_version
        if NO_REVISION < parse_revision(version) < parse_revision(self.version):
            return []
        if version:
            self.version = version
        if event.type == "BOOKMARK" or event.object is None:
            return []
        key = key_of(event.object)
        if event.type != "DELETED":
            return self._put(key, self._transform(event.object, self.cache.get(key)))
        return [(self.cache.remove(key), None)] if self.cache.get(key) is not None else []

    def handle_error(self, error: ApiError | TransportError) -> None:
        """Handle an error that ended a stream or request: keep the version to resume the watch, or drop it to list.

        A broken connection and a busy server (429, 5xx) keep the version. After any other refusal, above all 410, the
        events since then are unknown, so the objects are listed again. They are also listed again after an event that
        cannot be decoded, because the server would only repeat that event.
        """
        if isinstance(error, ApiError):
            resumable = _is_busy(error) and not _is_version_unknown(error)
        else:
            resumable = not isinstance(error, UnreadableAnswerError)
        if not resumable:
            self.version = ""

    def _put(self, key: str, obj: T) -> list[Change[T]]:
        old = self.cache.get(key)
        if old is None:
            self.cache.put(key, obj)
            return [(None, obj)]
        before, after = meta_of(old), meta_of(obj)
        if before.resource_version == after.resource_version != "" and before.uid == after.uid:
            return []
        if before.uid != after.uid:
            self.cache.remove(key)
            self.cache.put(key, obj)
            return [(old, None), (None, obj)]
        self.cache.put(key, obj)
        return [(old, obj)]


def _is_busy(error: ApiError) -> bool:
    return error.code == 429 or error.code >= 500


def _is_version_unknown(error: ApiError) -> bool:
    """Return whether the server no longer knows the cache's version, because it was restored from a backup."""
    details = error.status.details
    return details is not None and any(cause.reason == "ResourceVersionTooLarge" for cause in details.causes)
