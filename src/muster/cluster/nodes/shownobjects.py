"""Who tells a node that ConfigMaps and Secrets have changed: what is in them is read when it is needed, and not held.

In a cluster that is its own, a node hears of all of them. A guest in a cluster of others hears of those that volumes of
its pods show, each followed by its name, as a kubelet does: it may see no more.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

from muster.api.core import CONFIG_MAP, SECRET, Pod
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.cluster.nodes.container.environment import Names
from muster.cluster.nodes.volumes.pod_volumes import PodVolumes
from muster.runtime.manager import Manager

# Told the namespace and the names of what has come, changed or gone.
Told: TypeAlias = Callable[[str, Names], None]

_KINDS = (CONFIG_MAP.seen_as(Object), SECRET.seen_as(Object))
_Key: TypeAlias = tuple[Kind[Object], str, str]  # kind, namespace, name


class ShownObjects(Protocol):
    """Follows objects for the pods of a node."""

    def enter(self, pod: Pod) -> None:
        """The pod is here: changes of what its volumes show are told. Entering twice is fine."""
        ...

    def leave(self, uid: str) -> None:
        """The pod is over."""
        ...


class AllObjects:
    """All that there are, whatever pods show. Made before the manager runs."""

    def __init__(self, manager: Manager, told: Told) -> None:
        for kind in _KINDS:
            manager.informer(kind).on_change(partial(_changed, kind, told))

    def enter(self, pod: Pod) -> None:
        """Nothing to do."""

    def leave(self, uid: str) -> None:
        """Nothing to do."""


class NamedObjects:
    """Those that are shown, by their names. Pods enter once the manager runs."""

    def __init__(self, manager: Manager, told: Told) -> None:
        self._manager = manager
        self._told = told
        self._users: dict[_Key, set[str]] = {}  # uids of the pods that show it

    def enter(self, pod: Pod) -> None:
        """Follow what the pod's volumes show."""
        names = PodVolumes.references(pod)
        for kind, shown in zip(_KINDS, (names.config_maps, names.secrets), strict=True):
            for name in shown:
                self._follow((kind, pod.metadata.namespace, name), pod.metadata.uid)

    def leave(self, uid: str) -> None:
        """Follow no more what no other pod shows."""
        for key in [key for key, users in self._users.items() if uid in users]:
            self._users[key].discard(uid)
            if not self._users[key]:
                del self._users[key]
                kind, namespace, name = key
                self._manager.forget(kind, namespace=namespace, fields=_selector(name))

    def _follow(self, key: _Key, uid: str) -> None:
        users = self._users.setdefault(key, set())
        if not users:
            kind, namespace, name = key
            informer = self._manager.informer(kind, namespace=namespace, fields=_selector(name))
            informer.on_change(partial(_changed, kind, self._told))
        users.add(uid)


def _selector(name: str) -> str:
    return f"metadata.name={name}"


def _changed(kind: Kind[Object], told: Told, old: Object | None, new: Object | None) -> None:
    changed = new or old
    if changed is not None:
        names = frozenset({changed.metadata.name})
        found = Names(config_maps=names) if kind.plural == CONFIG_MAP.plural else Names(secrets=names)
        told(changed.metadata.namespace, found)
