"""Follow the kinds that users define, as they come and go, for controllers that deal with all kinds.

The source are the CustomResourceDefinitions. A kind exists while its definition is established and serves a version. A
kind that is built in, and so always served, does not come or go.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from muster.api.conditions import is_true
from muster.api.kinds import Kind
from muster.api.meta import Object, ObjectMeta, Struct
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION, ESTABLISHED, NAMES_ACCEPTED, NAMESPACED
from muster.runtime.control.manager import Manager
from muster.runtime.informer import Informer

# Called with a kind that has come, gone, or changed its version: as it was (or None), and as it is (or None).
Listener: TypeAlias = Callable[[Kind[Object] | None, Kind[Object] | None], None]


class _Version(Struct):
    """A version without its schema, which may be large."""

    name: str = ""
    served: bool = False
    storage: bool = False


class _Names(Struct):
    """The names in a definition that are needed here."""

    plural: str = ""
    kind: str = ""


class _Spec(Struct):
    """The fields of a definition's spec that are needed here."""

    group: str = ""
    names: _Names = _Names()
    scope: str = ""
    versions: tuple[_Version, ...] = ()


class _Condition(Struct):
    """A condition without its texts."""

    type: str = ""
    status: str = ""


class _Status(Struct):
    """The fields of a definition's status that are needed here."""

    conditions: tuple[_Condition, ...] = ()
    accepted_names: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Definition(Struct):
    """A CustomResourceDefinition without its large parts.

    metadata: its name is that of the resource.
    spec: what the kind is.
    status: whether the kind is accepted and served.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def kind(self) -> Kind[Object] | None:
        """The kind, in its storage version if that is served; None if no version is served.

        While a definition is being deleted, its storage version is served in any case.
        """
        served = [version for version in self.spec.versions if version.served]
        if not served and self.metadata.deletion_timestamp is not None:
            served = [version for version in self.spec.versions if version.storage]
        if not served or not self.holds(ESTABLISHED):
            return None
        version = next((version for version in served if version.storage), served[0])
        spec = self.spec
        namespaced = spec.scope == NAMESPACED
        return Kind(spec.group, version.name, spec.names.kind, spec.names.plural, Object, namespaced=namespaced)

    @property
    def has_its_names(self) -> bool:
        """Whether the definition has the names that it requests, and no other has them."""
        return self.holds(NAMES_ACCEPTED)

    def holds(self, condition: str) -> bool:
        """Return whether a condition is true."""
        return is_true(self.status.conditions, condition)


DEFINITION = CUSTOM_RESOURCE_DEFINITION.seen_as(Definition)


def follow_definitions(manager: Manager) -> Informer[Definition]:
    """Return the informer of all definitions."""
    return manager.informer(DEFINITION)


def follow_custom_kinds(manager: Manager, builtin: Iterable[Kind[Any]], listener: Listener) -> None:
    """Call a listener for each existing custom kind, then for every change; leave out the kinds of `builtin`."""
    names = frozenset(kind.resource for kind in builtin)

    def changed(old: Definition | None, new: Definition | None) -> None:
        before, after = (definition.kind if definition is not None else None for definition in (old, new))
        if before != after and (before or after or DEFINITION).resource not in names:
            listener(before, after)

    follow_definitions(manager).on_change(changed)
