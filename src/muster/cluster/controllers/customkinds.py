"""The kinds that users bring, as they come and go: for parts of a cluster that deal with all kinds.

Everything is seen through definitions. A kind is there while its definition is established and serves a version;
what is served anyway (because it is built in) does not come or go.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from muster.api.conditions import is_true
from muster.api.kinds import Kind
from muster.api.meta import Object, ObjectMeta, Struct
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION, ESTABLISHED, NAMES_ACCEPTED, NAMESPACED
from muster.runtime.informer import Informer
from muster.runtime.manager import Manager

# Is told of a kind that has come, gone, or is now seen in another version: as it was (or None), and as it is.
Listener: TypeAlias = Callable[[Kind[Object] | None, Kind[Object] | None], None]


class _Version(Struct):
    """A version without its schema, which may be big."""

    name: str = ""
    served: bool = False
    storage: bool = False


class _Names(Struct):
    """What matters here of the names."""

    plural: str = ""
    kind: str = ""


class _Spec(Struct):
    """What matters here of the spec."""

    group: str = ""
    names: _Names = _Names()
    scope: str = ""
    versions: tuple[_Version, ...] = ()


class _Condition(Struct):
    """A condition without its words."""

    type: str = ""
    status: str = ""


class _Status(Struct):
    """What matters here of the status."""

    conditions: tuple[_Condition, ...] = ()
    accepted_names: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Definition(Struct):
    """A definition, seen without what is big.

    metadata: its name is that of the resource.
    spec: what the kind is.
    status: what has become of it.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def kind(self) -> Kind[Object] | None:
        """The kind, in the version in which it is stored if that is served; None if it is not served.

        While a definition is being deleted, that version is served in any case.
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
        """Whether no other definition has the names that it asks for."""
        return self.holds(NAMES_ACCEPTED)

    def holds(self, condition: str) -> bool:
        """Whether a condition is true."""
        return is_true(self.status.conditions, condition)


DEFINITION = CUSTOM_RESOURCE_DEFINITION.seen_as(Definition)


def definitions(manager: Manager) -> Informer[Definition]:
    """All definitions."""
    return manager.informer(DEFINITION)


def follow_custom_kinds(manager: Manager, builtin: Iterable[Kind[Any]], listener: Listener) -> None:
    """Tell a listener of the kinds that are there, and then of every change."""
    names = frozenset(kind.resource for kind in builtin)

    def changed(old: Definition | None, new: Definition | None) -> None:
        before, after = (definition.kind if definition is not None else None for definition in (old, new))
        if before != after and (before or after or DEFINITION).resource not in names:
            listener(before, after)

    definitions(manager).on_change(changed)
