"""Combine the rules of metadata, which most kinds share, with the rules of a single kind."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.metadata import changed_metadata, new_metadata
from muster.api.validation.names import NameRule


class Standard(Struct, frozen=True):
    """The rules of a kind, for objects with their defaults.

    whole: the rule of every version of an object.
    change: the rule of a change, from the new and the old object.
    name: the rule of names.
    custom: whether the kind is a CRD upstream, whose finalizers need no domain.
    """

    whole: Callable[[Any], Iterable[FieldError]] = lambda _: ()
    change: Callable[[Any, Any], Iterable[FieldError]] = lambda _new, _old: ()
    name: NameRule = names.dns_subdomain
    namespaced: bool = True
    custom: bool = False

    def create(self, obj: Any) -> list[FieldError]:
        """Return the errors in a new object."""
        meta = new_metadata(obj.metadata, self.name, namespaced=self.namespaced, custom=self.custom)
        return [*meta, *self.whole(obj)]

    def update(self, new: Any, old: Any) -> list[FieldError]:
        """Return the errors in a change of an object."""
        return [*self.update_status(new, old), *self.change(new, old), *self.whole(new)]

    def update_status(self, new: Any, old: Any) -> list[FieldError]:
        """Return the errors in the metadata of a status update.

        The rest is not checked, because the server trusts controllers.
        """
        return list(changed_metadata(new.metadata, old.metadata, custom=self.custom))
