"""Notify controllers of custom kinds that appear and disappear, if they handle all kinds.

The source are the CustomResourceDefinitions. A kind exists while its definition is established and serves a version. A
built-in kind is always served, so this module ignores it.
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

# Called with a kind that appeared, disappeared or changed its version: the old kind and the new kind, or None.
Listener: TypeAlias = Callable[[Kind[Object] | None, Kind[Object] | None], None]


class _Version(Struct):
    """A version without its schema, which may be large."""

    name: str = ""
    served: bool = False
    storage: bool = False


class _Names(Struct):
    """The part of a definition's names that this package needs."""

    plural: str = ""
    kind: str = ""


class _Spec(Struct):
    """The part of a definition's spec that this package needs."""

    group: str = ""
    names: _Names = _Names()
    scope: str = ""
    versions: tuple[_Version, ...] = ()


class _Condition(Struct):
    """A condition of a CustomResourceDefinition: its type and status only."""

    type: str = ""
    status: str = ""


class _Status(Struct):
    """The fields of a definition's status that are needed here."""

    conditions: tuple[_Condition, ...] = ()
    accepted_names: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Definition(Struct):
    """A CustomResourceDefinition without its large parts.

    metadata: its metadata; its name is the name of the resource.
    spec: the definition of the kind.
    status: whether the kind is accepted and served.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def kind(self) -> Kind[Object] | None:
        """The kind, in its storage version if that is served, else in a served version; None without a served version.

        While a definition is being deleted, its storage version counts as served.
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
        """Whether the definition's names are accepted, so that no other definition has them."""
        return self.holds(NAMES_ACCEPTED)

    def holds(self, condition: str) -> bool:
        """Return whether a condition of the definition is true."""
        return is_true(self.status.conditions, condition)


DEFINITION = CUSTOM_RESOURCE_DEFINITION.seen_as(Definition)


def follow_definitions(manager: Manager) -> Informer[Definition]:
    """Return the informer of all definitions."""
    return manager.informer(DEFINITION)


def follow_custom_kinds(manager: Manager, builtin: Iterable[Kind[Any]], listener: Listener) -> None:
    """Call a listener for each existing custom kind, and then for every change. Leave out the kinds of `builtin`."""
    names = frozenset(kind.resource for kind in builtin)

    def changed(old: Definition | None, new: Definition | None) -> None:
        before, after = (definition.kind if definition is not None else None for definition in (old, new))
        if before != after and (before or after or DEFINITION).resource not in names:
            listener(before, after)

    follow_definitions(manager).on_change(changed)
