"""Remembers a controller's own writes until its caches show them: else it would decide the same again.

Either the controller decides nothing before it has seen all of them (`Expectations`: a second pod would be created for
an index), or the write counts until it is seen (`MutationCache`: quota is given in quick succession). Versions of one
resource are comparable (kubernetes KEP-5504), so one version stands for any number of writes, and a list after a
lost watch answers the question like an event.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from muster.runtime.objects import NO_REVISION, Revision, key_of, meta_of, revision, revision_of

T = TypeVar("T")


class Expectations(Struct):
    """The controller's own writes to one object and its dependents, which the caches must show before it decides again.

    Kubernetes has the same since 1.36. A deletion has no revision, so the cache must observe the deletion itself.

    owner: the revision of the last write to the object.
    dependents: the newest revision of the writes to dependents.
    going: the UIDs of dependents whose deletion was requested.
    gone: the UIDs of dependents that the server no longer has, and the cache still shows.
    """

    owner: Revision = NO_REVISION
    dependents: Revision = NO_REVISION
    going: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def wrote_owner(self, obj: Any) -> None:
        """Expect the cache to show the owner at this revision or a newer one."""
        self.owner = max(self.owner, revision_of(obj))

    def wrote(self, dependent: Any) -> None:
        """Expect the cache to show the dependent at this revision or a newer one."""
        self.dependents = max(self.dependents, revision_of(dependent))

    def saw(self, uid: str, dependent: Any | None) -> None:
        """Record that the cache shows this state of the dependent, or no longer has it (None)."""
        if dependent is None:
            self.gone.discard(uid)
        if dependent is None or meta_of(dependent).deletion_timestamp is not None:
            self.going.discard(uid)

    def are_met(self, owner: Any, version: str) -> bool:
        """Return whether the caches show every write.

        version: up to where the cache of the dependents goes. Deletions count once `saw` has reported them.
        """
        return (
            revision_of(owner) >= self.owner
            and revision(version) >= self.dependents
            and not self.going
            and not self.gone
        )

    def look(self, dependents: Iterable[Any]) -> None:
        """Compare with all dependents in the cache, in case an event was missed."""
        if self.going or self.gone:
            present = {meta_of(one).uid: one for one in dependents}
            for uid in (*self.going, *self.gone):
                self.saw(uid, present.get(uid))


class MutationCache(Generic[T]):
    """Objects as last seen, or as our own write left them where that is newer (as client-go's).

    seen: returns the object with a key, as an informer has it.
    """

    def __init__(self, seen: Callable[[str], T | None]) -> None:
        self._seen = seen
        self._written: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """Return the object with that key."""
        seen, written = self._seen(key), self._written.get(key)
        return seen if seen is None or written is None else max(seen, written, key=revision_of)

    def wrote(self, obj: T) -> None:
        """Remember this state, which the server stored."""
        if self._seen(key_of(obj)) is not None:
            self._written[key_of(obj)] = obj

    def is_news(self, key: str, seen: T | None) -> bool:
        """Return whether the informer's state is newer than our write.

        Call it at each change that the informer reports.
        """
        written = self._written.get(key)
        if written is None:
            return True
        if seen is None or revision_of(seen) >= revision_of(written):
            del self._written[key]
        return seen is None or revision_of(seen) > revision_of(written)
