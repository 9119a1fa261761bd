"""Notify a node of changes of ConfigMaps and Secrets. The node reads their contents when needed and caches none.

In its own cluster, a node watches all of them. A guest (a node in another cluster) may read no more than a kubelet may.
So it watches only the objects in volumes of its pods, each by its name.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

from muster.api.core import CONFIG_MAP, SECRET, Pod
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.cluster.nodes.container.environment import Names
from muster.cluster.nodes.volumes.pod_volumes import PodVolumes
from muster.runtime.control.manager import Manager

# A function that takes the namespace and the names of objects that were created, changed or deleted.
Told: TypeAlias = Callable[[str, Names], None]

_KINDS = (CONFIG_MAP.seen_as(Object), SECRET.seen_as(Object))
_Key: TypeAlias = tuple[Kind[Object], str, str]  # kind, namespace, name


class ShownObjects(Protocol):
    """A watch on the ConfigMaps and Secrets in the volumes of a node's pods."""

    def enter(self, pod: Pod) -> None:
        """Start to report changes of the objects in the pod's volumes. A second call changes nothing."""
        ...

    def leave(self, uid: str) -> None:
        """Stop watching the objects of a terminated pod. uid: the UID of the pod."""
        ...


class AllObjects:
    """A watch on all ConfigMaps and Secrets. It must be made before the manager runs."""

    def __init__(self, manager: Manager, on_change: Told) -> None:
        for kind in _KINDS:
            manager.informer(kind).on_change(partial(_report_change, kind, on_change))

    def enter(self, pod: Pod) -> None:
        """Do nothing, because all objects are watched already."""

    def leave(self, uid: str) -> None:
        """Do nothing: all objects stay watched."""


class NamedObjects:
    """A watch on only the objects in volumes of entered pods, by their names.

    Pods enter after the manager has started.
    """

    def __init__(self, manager: Manager, on_change: Told) -> None:
        self._manager = manager
        self._on_change = on_change
        self._users: dict[_Key, set[str]] = {}  # uids of the pods that use the object

    def enter(self, pod: Pod) -> None:
        """Watch the objects in the pod's volumes."""
        names = PodVolumes.references(pod)
        for kind, shown in zip(_KINDS, (names.config_maps, names.secrets), strict=True):
            for name in shown:
                self._follow((kind, pod.metadata.namespace, name), pod.metadata.uid)

    def leave(self, uid: str) -> None:
        """Stop watching the pod's objects that no other pod uses. uid: the UID of the pod."""
        for key in [key for key, users in self._users.items() if uid in users]:
            self._users[key].discard(uid)
            if not self._users[key]:
                del self._users[key]
                kind, namespace, name = key
                self._manager.forget(kind, namespace=namespace, fields=_name_selector(name))

    def _follow(self, key: _Key, uid: str) -> None:
        users = self._users.setdefault(key, set())
        if not users:
            kind, namespace, name = key
            informer = self._manager.informer(kind, namespace=namespace, fields=_name_selector(name))
            informer.on_change(partial(_report_change, kind, self._on_change))
        users.add(uid)


def _name_selector(name: str) -> str:
    return f"metadata.name={name}"


def _report_change(kind: Kind[Object], on_change: Told, old: Object | None, new: Object | None) -> None:
    changed = new or old
    if changed is not None:
        names = frozenset({changed.metadata.name})
        names_by_kind = Names(config_maps=names) if kind.plural == CONFIG_MAP.plural else Names(secrets=names)
        on_change(changed.metadata.namespace, names_by_kind)
