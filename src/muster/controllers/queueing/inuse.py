"""Protect ResourceFlavors and AdmissionChecks that ClusterQueues name, and Topologies that ResourceFlavors name."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    AdmissionCheck,
    ClusterQueue,
    ResourceFlavor,
    Topology,
)
from muster.controllers.queueing.writing import maintain_finalizer
from muster.queueing.workload.checks import of_queue
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of

T = TypeVar("T")
U = TypeVar("U")


class InUseController(Reconciler, Generic[T, U]):
    """The reconciler that protects objects of one kind from deletion while objects of another kind name them."""

    def __init__(
        self, manager: Manager, kind: Kind[T], by: Kind[U], names: Callable[[U], Iterable[str]], name: str
    ) -> None:
        """Create the controller.

        names: returns the names of the protected objects that an object of kind `by` names.
        name: the name of the controller.
        """
        self.name = name
        super().__init__(manager)
        self._kind = kind
        self._index = f"{name}-of"
        self._objects = manager.informer(kind)
        self._users = manager.informer(by, indexes={self._index: names})
        self._controller.watch(self._objects)
        self._controller.watch(
            self._users,
            names,
            when=lambda old, new: old is None or new is None or list(names(old)) != list(names(new)),
        )

    async def _reconcile(self, key: str) -> Result:
        obj = self._objects.get(key)
        if obj is not None:
            await maintain_finalizer(
                self._client, self._kind, obj, in_use=bool(self._users.by(self._index, key_of(obj)))
            )
        return None


def flavors_in_use(manager: Manager) -> InUseController[ResourceFlavor, ClusterQueue]:
    """Return the controller that protects ResourceFlavors."""
    return InUseController(manager, RESOURCE_FLAVOR, CLUSTER_QUEUE, _list_flavors, "resourceflavor")


def checks_in_use(manager: Manager) -> InUseController[AdmissionCheck, ClusterQueue]:
    """Return the controller that protects AdmissionChecks."""
    return InUseController(manager, ADMISSION_CHECK, CLUSTER_QUEUE, _list_checks, "admissioncheck")


def topologies_in_use(manager: Manager) -> InUseController[Topology, ResourceFlavor]:
    """Return the controller that protects Topologies."""
    return InUseController(manager, TOPOLOGY, RESOURCE_FLAVOR, _list_topologies, "topology")


def _list_flavors(queue: ClusterQueue) -> list[str]:
    return [flavor.name for group in queue.spec.resource_groups for flavor in group.flavors]


def _list_checks(queue: ClusterQueue) -> list[str]:
    return sorted(of_queue(queue.spec))


def _list_topologies(flavor: ResourceFlavor) -> list[str]:
    return [flavor.spec.topology_name] if flavor.spec.topology_name else []
