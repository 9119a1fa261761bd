# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`node.k8s.io/v1`: ways of running containers that nodes may have."""

from typing import Annotated

from muster.api.core.scheduling import Toleration
from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, ATOMIC_MAP, Required
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class Overhead(Struct):
    """What running a pod takes beside its containers.

    pod_fixed: resources for each pod.
    """

    pod_fixed: ResourceList = {}


class Scheduling(Struct):
    """Which nodes have a way of running containers.

    node_selector: labels that they have.
    tolerations: taints of theirs that the pods bear.
    """

    node_selector: Annotated[dict[str, str], ATOMIC_MAP] = {}
    tolerations: Annotated[tuple[Toleration, ...], ATOMIC] = ()


class RuntimeClass(Struct):
    """A way of running containers that pods can ask for.

    metadata: what every object carries.
    handler: name of the way on the nodes; never changes.
    overhead: what running a pod takes beside its containers.
    scheduling: which nodes have it.
    """

    metadata: ObjectMeta = ObjectMeta()
    handler: Required[str] = ""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", RuntimeClass, namespaced=False)
