# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`node.k8s.io/v1`: the container runtimes of nodes."""

from muster.api.core.scheduling import Toleration
from muster.api.kinds import Kind
from muster.api.markers import Required
from muster.api.meta import ObjectMeta, Struct
from muster.api.values.quantity import ResourceList


class Overhead(Struct):
    """The resources that a pod takes in addition to its containers."""

    pod_fixed: ResourceList = {}


class Scheduling(Struct):
    """The nodes that support a container runtime."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Struct):
    """A container runtime that pods can request."""

    metadata: ObjectMeta = ObjectMeta()
    handler: Required[str] = ""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", RuntimeClass, namespaced=False)
