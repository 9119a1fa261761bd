"""Remember a controller's own writes until its caches show them. Otherwise the controller would decide the same again.

There are two ways. With `Expectations`, the controller decides nothing before its caches show all its writes, so that
it does not create a second pod for an index. With `MutationCache`, the written state counts until the cache shows it,
so that quota can be given in quick succession. Versions of one resource are comparable (kubernetes KEP-5504), so one
version stands for any number of writes. A list after a lost watch shows the writes as well as events do.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from muster.runtime.objects import NO_REVISION, Revision, key_of, meta_of, parse_revision, revision_of

T = TypeVar("T")


class Expectations(Struct):
    """The writes of a controller, to one object and its dependents, that its caches must show before it decides again.

    Kubernetes has the same since 1.36. A deletion has no revision, so the cache must observe the deletion itself.

    owner: the revision of the last write to the object.
    dependents: the newest revision of the writes to dependents.
    going: the UIDs of dependents whose deletion was requested.
    gone: the UIDs of dependents that the server no longer has and the cache still shows.
    """

    owner: Revision = NO_REVISION
    dependents: Revision = NO_REVISION
    going: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def wrote_owner(self, obj: Any) -> None:
        """Record a write to the owner: the cache must show this revision of the owner or a newer one."""
        self.owner = max(self.owner, revision_of(obj))

    def wrote(self, dependent: Any) -> None:
        """Record a write to a dependent: the cache must show this revision of the dependent or a newer one."""
        self.dependents = max(self.dependents, revision_of(dependent))

    def saw(self, uid: str, dependent: Any | None) -> None:
        """Record that the cache now shows this state of the dependent; None if it no longer shows the dependent."""
        if dependent is None:
            self.gone.discard(uid)
        if dependent is None or meta_of(dependent).deletion_timestamp is not None:
            self.going.discard(uid)

    def are_met(self, owner: Any, version: str) -> bool:
        """Return whether the caches show every recorded write.

        owner: the cached owner.
        version: the version up to which the cache of the dependents is complete. Report deletions with `saw` before.
        """
        return (
            revision_of(owner) >= self.owner
            and parse_revision(version) >= self.dependents
            and not self.going
            and not self.gone
        )

    def check_cache(self, dependents: Iterable[Any]) -> None:
        """Report with `saw` which deleted dependents the cache no longer contains, because an event may be lost.

        dependents: all dependents in the cache.
        """
        if self.going or self.gone:
            present = {meta_of(one).uid: one for one in dependents}
            for uid in (*self.going, *self.gone):
                self.saw(uid, present.get(uid))


class MutationCache(Generic[T]):
    """A view of an informer's objects in which this process's own newer writes replace the informer's state.

    client-go has the same.

    seen: returns the informer's object with a key; None if there is none.
    """

    def __init__(self, seen: Callable[[str], T | None]) -> None:
        self._seen = seen
        self._written: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """Return the newest known state of the object with that key; None if the informer has no such object."""
        seen, written = self._seen(key), self._written.get(key)
        return seen if seen is None or written is None else max(seen, written, key=revision_of)

    def wrote(self, obj: T) -> None:
        """Record the stored state of an object after a write of this process, unless the informer lacks the object."""
        if self._seen(key_of(obj)) is not None:
            self._written[key_of(obj)] = obj

    def is_news(self, key: str, seen: T | None) -> bool:
        """Return whether a state from the informer tells more than this process's last write to the object.

        Call it for each change that the informer reports: a write that the informer shows is forgotten here. A deletion
        is always news.
        """
        written = self._written.get(key)
        if written is None:
            return True
        if seen is None or revision_of(seen) >= revision_of(written):
            del self._written[key]
        return seen is None or revision_of(seen) > revision_of(written)
