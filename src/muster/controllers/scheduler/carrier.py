"""`Carrier`: the object of a gang."""

from dataclasses import dataclass
from typing import Any

from muster.api.core import ObjectReference
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta
from muster.runtime.objects import meta_of, reference


@dataclass(frozen=True, slots=True)
class Carrier:
    """The object on which the intent to bind a gang is recorded, and that is told why it waits: a Job, a PodGroup."""

    kind: Kind[Any]
    object: Any

    @property
    def meta(self) -> ObjectMeta:
        """Its metadata."""
        return meta_of(self.object)

    @property
    def reference(self) -> ObjectReference:
        """Names it, for events."""
        return reference(self.kind, self.object)
