# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`node.k8s.io/v1`: container runtimes that nodes may have."""

from muster.api.core.scheduling import Toleration
from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class Overhead(Struct):
    """What running a pod takes beside its containers."""

    pod_fixed: ResourceList = {}


class Scheduling(Struct):
    """Which nodes have a way of running containers."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Struct):
    """A way of running containers that pods can ask for."""

    metadata: ObjectMeta = ObjectMeta()
    handler: Required[str] = ""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", RuntimeClass, namespaced=False)
