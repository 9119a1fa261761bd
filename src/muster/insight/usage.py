"""Compute the current usage of pods from their nodes' metrics: by pod, by job, and next to their requests. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from muster.api.batch import JOB_NAME_LABEL
from muster.api.core import Pod
from muster.api.jobset.names import JOBSET_NAME
from muster.api.kinds import Kind
from muster.api.ours.gpus import GPU_MEMORY_USE, GPU_USE
from muster.api.pods import memory_limit, pod_requests, rank_of
from muster.api.server.metrics import POD_METRICS
from muster.api.values.quantity import Quantity, parse_thousandths, parse_whole_units
from muster.insight.text import format_quantity

Name: TypeAlias = tuple[str, str]
"""The namespace and the name of a pod or a job."""

WORKER_HEADER = ("RANK", "POD", "NODE", "CPU", "MEMORY", "MEMORY LIMIT")
GPU_HEADER = ("GPU USED", "GPU MEMORY")
_MEBIBYTE = 1 << 20


class _JobNames(Struct, frozen=True, gc=False):
    """The labels of a pod that name its job."""

    job: str = field(name=JOB_NAME_LABEL, default="")
    job_set: str = field(name=JOBSET_NAME, default="")


class _Identity(Struct, frozen=True, gc=False):
    namespace: str = ""
    name: str = ""
    labels: _JobNames = _JobNames()


class _Amounts(Struct, frozen=True, gc=False):
    cpu: Quantity = 0
    memory: Quantity = 0
    gpus: Quantity | None = field(name=GPU_USE, default=None)
    gpu_memory: Quantity = field(name=GPU_MEMORY_USE, default=0)


class _ContainerUsage(Struct, frozen=True, gc=False):
    usage: _Amounts = _Amounts()


class PodUsage(Struct, frozen=True, gc=False):
    """The parts of a pod's metrics that identify its job, and the usage of its containers."""

    metadata: _Identity = _Identity()
    containers: tuple[_ContainerUsage, ...] = ()


POD_USAGE: Kind[PodUsage] = POD_METRICS.seen_as(PodUsage)


class CurrentUsage(Struct, frozen=True):
    """The average usage of pods over the last moments: thousandths of CPUs, bytes of memory, and the same of GPUs.

    milli_gpus: thousandths of GPUs; None if the usage of GPUs is unknown.
    """

    milli_cpus: int = 0
    memory: int = 0
    milli_gpus: int | None = None
    gpu_memory: int = 0

    def __add__(self, other: "CurrentUsage") -> "CurrentUsage":
        measured = [one.milli_gpus for one in (self, other) if one.milli_gpus is not None]
        return CurrentUsage(
            self.milli_cpus + other.milli_cpus,
            self.memory + other.memory,
            sum(measured) if measured else None,
            self.gpu_memory + other.gpu_memory,
        )


def usage_by_pod(metrics: Iterable[PodUsage]) -> dict[Name, CurrentUsage]:
    """Return the usage of each pod, summed over its containers, by namespace and name."""
    return {(one.metadata.namespace, one.metadata.name): _sum_containers(one) for one in metrics}


def usage_by_job(metrics: Iterable[PodUsage]) -> dict[Name, CurrentUsage]:
    """Return the usage of each JobSet, and of each Job outside one, summed over its pods, by namespace and name."""
    usage: dict[Name, CurrentUsage] = {}
    for one in metrics:
        labels = one.metadata.labels
        if name := labels.job_set or labels.job:
            key = one.metadata.namespace, name
            usage[key] = usage.get(key, CurrentUsage()) + _sum_containers(one)
    return usage


def make_worker_table(pods: Iterable[Pod], usage: Mapping[Name, CurrentUsage]) -> tuple[list[str], list[list[str]]]:
    """Return a table of the usage and requests of a job's pods: a header, and a row for each pod by rank.

    There are columns for GPUs if their usage is known for any pod.
    """
    workers = sorted(pods, key=_make_order_key)
    used = [usage.get((pod.metadata.namespace, pod.metadata.name)) for pod in workers]
    has_gpus = knows_gpus(used)
    rows = [
        [*row, *(format_gpus(one) if has_gpus else ())]
        for row, one in zip(make_worker_rows(workers, usage), used, strict=True)
    ]
    return [*WORKER_HEADER, *(GPU_HEADER if has_gpus else ())], rows


def make_worker_rows(pods: Iterable[Pod], usage: Mapping[Name, CurrentUsage]) -> list[Sequence[str]]:
    """Return a row for each pod of a job by rank: its rank, name, node, CPUs, memory and memory limit.

    CPUs and memory are the use and, if there is one, the request; `-` for an unknown use.
    """
    rows: list[Sequence[str]] = []
    for pod in sorted(pods, key=_make_order_key):
        meta, requests = pod.metadata, pod_requests(pod.spec)
        used = usage.get((meta.namespace, meta.name))
        limit = sum(memory_limit(container) for container in pod.spec.containers)
        cpus, memory = format_cpus(used), format_memory(used)
        cpus += f"/{requests['cpu'] / 1000:g}" if requests.get("cpu") else ""
        memory += f"/{format_quantity('memory', requests['memory'])}" if requests.get("memory") else ""
        shown_limit = format_quantity("memory", limit) if limit else "-"
        rows.append((rank_of(pod), meta.name, pod.spec.node_name or "-", cpus, memory, shown_limit))
    return rows


def knows_gpus(usage: Iterable[CurrentUsage | None]) -> bool:
    """Return whether the usage of GPUs is known for any pod."""
    return any(one is not None and one.milli_gpus is not None for one in usage)


def format_gpus(used: CurrentUsage | None) -> tuple[str, str]:
    """Return the number of busy GPUs, to a hundredth, and their used memory; "-" if these are unknown."""
    if used is None or used.milli_gpus is None:
        return "-", "-"
    return f"{used.milli_gpus / 1000:.2f}", _format_mebibytes(used.gpu_memory)


def format_cpus(used: CurrentUsage | None) -> str:
    """Return how many CPUs are used, to a hundredth; "-" if that is unknown."""
    return f"{used.milli_cpus / 1000:.2f}" if used is not None else "-"


def format_memory(used: CurrentUsage | None) -> str:
    """Return how much memory is used, to a mebibyte; "-" if that is unknown."""
    return _format_mebibytes(used.memory) if used is not None else "-"


def _sum_containers(metrics: PodUsage) -> CurrentUsage:
    return sum((_read_container(container.usage) for container in metrics.containers), CurrentUsage())


def _read_container(usage: _Amounts) -> CurrentUsage:
    return CurrentUsage(
        parse_thousandths(usage.cpu),
        parse_whole_units(usage.memory),
        parse_thousandths(usage.gpus) if usage.gpus is not None else None,
        parse_whole_units(usage.gpu_memory),
    )


def _format_mebibytes(size: int) -> str:
    return format_quantity("memory", -(-size // _MEBIBYTE) * _MEBIBYTE)


def _make_order_key(pod: Pod) -> tuple[int, str]:
    rank = rank_of(pod)
    return int(rank) if rank.isdecimal() else 0, pod.metadata.name
