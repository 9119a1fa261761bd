"""What a controller has written itself and its caches do not show yet: without it, it would decide the same again.

Either nothing is decided before all of it is seen (`Expectations`: a second pod would be made for an index), or it
counts until it is seen (`MutationCache`: quota is given in quick succession). Versions of one resource are comparable
(KEP-5504), so one stands for any count of writes, and a list after a lost watch answers the question like an event.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from muster.runtime.objects import NO_REVISION, Revision, key_of, meta_of, revision, revision_of

T = TypeVar("T")


class Expectations(Struct):
    """Of one object and its dependents (as in Kubernetes since 1.36). A deletion has no version: it must be seen.

    owner: the last state that was written. dependents: the newest.
    going: UIDs of dependents that were asked to be deleted. gone: of those that the server no longer knows.
    """

    owner: Revision = NO_REVISION
    dependents: Revision = NO_REVISION
    going: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def wrote_owner(self, obj: Any) -> None:
        """The server stored this."""
        self.owner = max(self.owner, revision_of(obj))

    def wrote(self, dependent: Any) -> None:
        """The server stored this."""
        self.dependents = max(self.dependents, revision_of(dependent))

    def saw(self, uid: str, dependent: Any | None) -> None:
        """The cache has the dependent like this now, or no more."""
        if dependent is None:
            self.gone.discard(uid)
        if dependent is None or meta_of(dependent).deletion_timestamp is not None:
            self.going.discard(uid)

    def are_met(self, owner: Any, version: str) -> bool:
        """Whether the caches show all of it, that of the dependents up to the version; deletions as `saw` was told."""
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
    """Objects as they were seen last, or as our own write made them, where that is newer (as client-go's).

    seen: the object with a key, as an informer has it.
    """

    def __init__(self, seen: Callable[[str], T | None]) -> None:
        self._seen = seen
        self._written: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """The object with that key."""
        seen, written = self._seen(key), self._written.get(key)
        return seen if seen is None or written is None else max(seen, written, key=revision_of)

    def wrote(self, obj: T) -> None:
        """The server stored this."""
        if self._seen(key_of(obj)) is not None:
            self._written[key_of(obj)] = obj

    def is_news(self, key: str, seen: T | None) -> bool:
        """Whether what the informer shows now is newer than what we wrote; to be asked at each of its changes."""
        written = self._written.get(key)
        if written is None:
            return True
        if seen is None or revision_of(seen) >= revision_of(written):
            del self._written[key]
        return seen is None or revision_of(seen) > revision_of(written)
