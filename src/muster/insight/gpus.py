"""The GPUs of process nodes: their health, and the job that uses each. Pure."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from muster.api.core import Node, Pod
from muster.api.ours.gpus import GPUS_ANNOTATION, is_gpu, parse_gpus
from muster.api.pods import is_finished, job_of
from muster.api.values.quantity import Quantity, parse_whole_units
from muster.insight.text import format_quantity

HEADER = ("NODE", "GPU", "MODEL", "MEMORY", "STATE", "JOB")


class GpuRow(Struct, frozen=True):
    """One GPU of a node.

    job: the job that uses it, as NAMESPACE/NAME; "" if none does.
    memory: its size in bytes; 0 if unknown.
    shared: whether the reader may not see all pods, so that a GPU without a visible job may be in use.
    """

    node: str
    gpu: str
    model: str
    memory: int
    ill: bool
    job: str
    shared: bool = False

    @property
    def state(self) -> str:
        """The GPU's state: Ill, Used, Free, or Unknown if a job that the reader may not see could use it."""
        return "Ill" if self.ill else "Used" if self.job else "Unknown" if self.shared else "Free"

    def cells(self) -> list[str]:
        """Return the cells of the GPU's row in a table."""
        size = format_quantity("memory", self.memory) if self.memory else "-"
        state = "-" if self.state == "Unknown" else self.state
        return [self.node, self.gpu, self.model or "-", size, state, self.job or "-"]


def make_gpu_rows(nodes: Iterable[Node], pods: Iterable[Pod], *, shared: bool = False) -> list[GpuRow]:
    """Return a row for each GPU that nodes report, ordered by node.

    shared: whether there may be pods that the reader does not see, so that a GPU without a visible job may be in use.
    """
    users = _find_users(pods)
    return [
        GpuRow(
            name := node.metadata.name,
            gpu.name,
            gpu.model,
            gpu.memory,
            gpu.ill,
            users.get((name, gpu.name), ""),
            shared,
        )
        for node in sorted(nodes, key=lambda node: node.metadata.name)
        for gpu in parse_gpus(node.metadata.annotations.get(GPUS_ANNOTATION, ""))
    ]


class GpuCount(Struct, frozen=True):
    """The number of a cluster's GPUs in each state.

    used: how many GPUs pods use; None if the reader may not see all pods.
    total: the number of healthy and unhealthy GPUs.
    """

    total: int
    ill: int
    used: int | None

    @property
    def free(self) -> int:
        """The number of healthy GPUs that no pod uses; 0 if the use is unknown."""
        return max(0, self.total - self.ill - (self.used or 0)) if self.used is not None else 0


def count_gpus(nodes: Iterable[Node], used: int | None) -> GpuCount:
    """Return the number of the nodes' GPUs in each state.

    Unhealthy GPUs are the difference between a node's capacity and its allocatable amount.

    used: how many GPUs the pods request; None if the reader may not see all pods.
    """
    healthy = capacity = 0
    pairs = ((tuple(node.status.allocatable.items()), tuple(node.status.capacity.items())) for node in nodes)
    for (allocatable, whole), count in Counter(pairs).items():  # most nodes are like many others
        free = _sum_gpus(allocatable)
        healthy += free * count
        capacity += max(_sum_gpus(whole), free) * count
    return GpuCount(capacity, capacity - healthy, used)


def _sum_gpus(resources: Iterable[tuple[str, Quantity]]) -> int:
    return sum(parse_whole_units(quantity) for resource, quantity in resources if is_gpu(resource))


def _find_users(pods: Iterable[Pod]) -> dict[tuple[str, str], str]:
    """Return the job (`namespace/name`) to which each used GPU is allocated, by the node's name and the GPU's id."""
    return {
        (pod.spec.node_name, device.resource_id): f"{pod.metadata.namespace}/{job_of(pod)[1]}"
        for pod in pods
        if pod.spec.node_name and not is_finished(pod)
        for container in pod.status.container_statuses
        for devices in container.allocated_resources_status
        if is_gpu(devices.name)
        for device in devices.resources
    }
