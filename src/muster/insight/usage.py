"""What pods use now, from the metrics that their nodes report: by pod, by job, and beside what they request. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from muster.api.batch import JOB_NAME_LABEL
from muster.api.core import Pod
from muster.api.jobset.names import JOBSET_NAME
from muster.api.pods import memory_limit, pod_requests, rank_of
from muster.api.server.metrics import PodMetrics
from muster.api.values.quantity import milli, value
from muster.insight.text import format_quantity

Name: TypeAlias = tuple[str, str]
"""The namespace and the name of a pod or a job."""

WORKER_HEADER = ("RANK", "POD", "NODE", "CPU", "MEMORY", "MEMORY LIMIT")
_MEBIBYTE = 1 << 20


class CurrentUsage(Struct, frozen=True):
    """What pods use: CPUs in thousandths, on average of the last moments, and bytes of memory."""

    milli_cpus: int = 0
    memory: int = 0

    def __add__(self, other: "CurrentUsage") -> "CurrentUsage":
        return CurrentUsage(self.milli_cpus + other.milli_cpus, self.memory + other.memory)


def usage_by_pod(metrics: Iterable[PodMetrics]) -> dict[Name, CurrentUsage]:
    """Return what each pod uses."""
    return {(one.metadata.namespace, one.metadata.name): _sum_containers(one) for one in metrics}


def usage_by_job(metrics: Iterable[PodMetrics]) -> dict[Name, CurrentUsage]:
    """Return what the pods of each JobSet, and of each Job without one, use together."""
    usage: dict[Name, CurrentUsage] = {}
    for one in metrics:
        labels = one.metadata.labels
        if name := labels.get(JOBSET_NAME) or labels.get(JOB_NAME_LABEL):
            key = one.metadata.namespace, name
            usage[key] = usage.get(key, CurrentUsage()) + _sum_containers(one)
    return usage


def make_worker_rows(pods: Iterable[Pod], usage: Mapping[Name, CurrentUsage]) -> list[Sequence[str]]:
    """Return a row for each pod of a job, in the order of their ranks: what it uses, and of how much."""
    rows: list[Sequence[str]] = []
    for pod in sorted(pods, key=_order):
        meta, requests = pod.metadata, pod_requests(pod.spec)
        used = usage.get((meta.namespace, meta.name))
        limit = sum(memory_limit(container) for container in pod.spec.containers)
        cpus, memory = format_cpus(used), format_memory(used)
        cpus += f"/{requests['cpu'] / 1000:g}" if requests.get("cpu") else ""
        memory += f"/{format_quantity('memory', requests['memory'])}" if requests.get("memory") else ""
        shown_limit = format_quantity("memory", limit) if limit else "-"
        rows.append((rank_of(pod), meta.name, pod.spec.node_name or "-", cpus, memory, shown_limit))
    return rows


def format_cpus(used: CurrentUsage | None) -> str:
    """Return how many CPUs are used, to a hundredth; "-" if it is not known."""
    return f"{used.milli_cpus / 1000:.2f}" if used is not None else "-"


def format_memory(used: CurrentUsage | None) -> str:
    """Return how much memory is used, to a mebibyte; "-" if it is not known."""
    return format_quantity("memory", -(-used.memory // _MEBIBYTE) * _MEBIBYTE) if used is not None else "-"


def _sum_containers(metrics: PodMetrics) -> CurrentUsage:
    amounts = [container.usage for container in metrics.containers]
    return CurrentUsage(
        sum(milli(one.get("cpu", 0)) for one in amounts), sum(value(one.get("memory", 0)) for one in amounts)
    )


def _order(pod: Pod) -> tuple[int, str]:
    rank = rank_of(pod)
    return int(rank) if rank.isdecimal() else 0, pod.metadata.name
