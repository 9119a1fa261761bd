"""Rules that most kinds have: of their metadata, and beside them a few of their own."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.metadata import changed_metadata, new_metadata
from muster.api.validation.names import NameRule


class Standard(Struct, frozen=True):
    """The rules of a kind; objects come with their defaults.

    whole: of every version of an object.
    change: of a change: the new object, then the old one.
    name: what names look like.
    custom: of what is a CRD upstream: finalizers need no domain.
    """

    whole: Callable[[Any], Iterable[FieldError]] = lambda _: ()
    change: Callable[[Any, Any], Iterable[FieldError]] = lambda _new, _old: ()
    name: NameRule = names.dns_subdomain
    namespaced: bool = True
    custom: bool = False

    def create(self, obj: Any) -> list[FieldError]:
        """Return what is wrong with a new object."""
        meta = new_metadata(obj.metadata, self.name, namespaced=self.namespaced, custom=self.custom)
        return [*meta, *self.whole(obj)]

    def update(self, new: Any, old: Any) -> list[FieldError]:
        """Return what is wrong with a change of an object."""
        return [*self.update_status(new, old), *self.change(new, old), *self.whole(new)]

    def update_status(self, new: Any, old: Any) -> list[FieldError]:
        """Yield what is wrong with a change of the status, for which the controller answers."""
        return list(changed_metadata(new.metadata, old.metadata, custom=self.custom))
