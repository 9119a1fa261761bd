"""Answer `metrics.k8s.io`: the current usage of nodes and pods, as `kubectl top` shows it.

Nothing is written to the store, and nothing is measured between requests. CPU is the difference of two readings, and
memory is the value of the second. The second reading is made during the request, or was made for another request less
than a second ago. The first is the last reading of an earlier request. If that is older than a minute, the first
reading is made now, and the answer takes a second. Nodes on other machines are left out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from muster.api.core import NODE, POD, Node, Pod
from muster.api.meta import ObjectMeta
from muster.api.ours.gpus import GPU_MEMORY_USE, GPU_USE
from muster.api.server.metrics import NODE_METRICS, POD_METRICS, ContainerMetrics, NodeMetrics, PodMetrics
from muster.api.status import not_found
from muster.api.values.quantity import ResourceList
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.paging import NEWEST, decode_token, encode_token, find_index_after
from muster.cluster.apiserver.request.requestinfo import list_options
from muster.cluster.apiserver.request.selection import FieldLabels, parse_selection
from muster.cluster.apiserver.verbs.read import take_page
from muster.cluster.nodeconnection import NodeConnection, Reading
from muster.cluster.store import Entry, Key, Store
from muster.runtime.clock import Clock
from muster.runtime.transport import JSON, Response

# The least and the most time between the two readings of an answer.
_LEAST_SECONDS, _MOST_SECONDS = 1.0, 60.0
_NO_FIELDS = FieldLabels({"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"})

# How many pods are decoded before other tasks of the event loop run.
_BURST = 500

_Container = tuple[str, str]  # the pod's UID, and the container's name
_Readings = Mapping[_Container, Reading]


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Meta(msgspec.Struct, frozen=True):
    uid: str


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    init_containers: tuple[_Named, ...] = ()
    containers: tuple[_Named, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _PodParts(msgspec.Struct, frozen=True):
    """The parts of a stored pod that the sum of a node needs. Decoding only these takes 40 % of the time."""

    metadata: _Meta
    spec: _Spec
    status: _Status = _Status()


_CONTAINERS_OF = msgspec.json.Decoder(_PodParts)


class Rates(msgspec.Struct, frozen=True):
    """The usage of containers per second, averaged over `seconds`."""

    usage: Mapping[_Container, ResourceList]
    seconds: float


def compute_rates(before: _Readings, after: _Readings, seconds: float) -> Rates:
    """Return the rates between two readings. A container that is missing in the first counts as unused until then."""
    nothing = Reading(0.0, 0)
    usage: dict[_Container, ResourceList] = {}
    for container, reading in after.items():
        used = max(reading.cpu_seconds - before.get(container, nothing).cpu_seconds, 0.0)
        usage[container] = {"cpu": f"{round(used / seconds * 1e9)}n", "memory": f"{reading.memory_bytes // 1024}Ki"}
        if (gpus := reading.gpus) is not None:
            usage[container] |= {GPU_USE: f"{gpus.milli_gpus}m", GPU_MEMORY_USE: f"{gpus.memory_bytes // 1024}Ki"}
    return Rates(usage, seconds)


def sum_usage(usages: Iterable[ResourceList]) -> ResourceList:
    """Return the sum of the CPU and memory usage of containers. Other resources are left out.

    usages: CPU in nanocores (`n`) and memory in `Ki`, as `compute_rates` returns them.
    """
    amounts = list(usages)
    return {
        name: f"{sum(int(str(one[name]).removesuffix(unit)) for one in amounts)}{unit}"
        for name, unit in (("cpu", "n"), ("memory", "Ki"))
    }


class Meter:
    """The meter of the usage on all nodes. It reads the nodes at most once a second, however many clients ask."""

    def __init__(self, nodes: Mapping[str, NodeConnection], clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._turn = asyncio.Lock()
        self._last: tuple[float, _Readings] | None = None
        self._known: Rates | None = None

    async def read(self, containers: Collection[_Container] = ()) -> Rates:
        """Return the current rates. The call takes a second if the last reading is more than a minute old.

        containers: running containers. If the rates lack one of them, because it has started since, the meter reads
        again, a second after the last reading or later.
        """
        async with self._turn:
            age = self._compute_age()
            if self._known is not None and age < _LEAST_SECONDS and self._known.usage.keys() >= set(containers):
                return self._known
            if self._last is None or age > _MOST_SECONDS:
                self._last = self._clock.monotonic(), await self._collect_readings()
            if (left := _LEAST_SECONDS - self._compute_age()) > 0:
                await self._clock.sleep(left)
            since, before = self._last
            after = await self._collect_readings()
            now = self._clock.monotonic()
            self._last, self._known = (now, after), compute_rates(before, after, now - since)
            return self._known

    def _compute_age(self) -> float:
        return self._clock.monotonic() - self._last[0] if self._last is not None else 0.0

    async def _collect_readings(self) -> _Readings:
        connections = {id(one): one for one in self._nodes.values()}  # several nodes may share a connection
        readings: dict[_Container, Reading] = {}
        for connection in connections.values():
            readings |= await connection.measure_usage()
        return readings


def metrics_actions(
    store: Store, nodes: Mapping[str, NodeConnection], clock: Clock
) -> dict[str, Callable[[Call], Awaitable[Response]]]:
    """Return the actions that answer with the usage of nodes and of pods (`metrics.k8s.io`), by resource."""
    meter = Meter(nodes, clock)

    async def of_nodes(call: Call) -> Response:
        entries, next_page = _find_requested(store, call, NODE.resource)
        rates_now = await meter.read()
        by_node: dict[str, list[ResourceList]] = {name: [] for name in nodes}
        for number, entry in enumerate(store.list(POD.resource, "").entries, 1):
            pod = _CONTAINERS_OF.decode(entry.body)
            if pod.status.phase == "Running" and pod.spec.node_name:
                usage = [rates_now.usage[key] for key in _list_containers(pod) if key in rates_now.usage]
                by_node.setdefault(pod.spec.node_name, []).extend(usage)
            if number % _BURST == 0:
                await clock.sleep(0)
        known: Sequence[Node] = [NODE.decode(entry.body) for entry in entries if entry.key.name in nodes]
        metrics = [
            NodeMetrics(
                metadata=_copy_identity(node.metadata),
                timestamp=clock.now(),
                window=_format_window(rates_now),
                usage=sum_usage(by_node[node.metadata.name]),
            )
            for node in known
        ]
        return _make_answer(call, metrics, next_page)

    async def of_pods(call: Call) -> Response:
        entries, next_page = _find_requested(store, call, POD.resource)
        pods = list(_list_running_pods(entries))
        # The pages of a list share a reading, which contains all containers that existed when the list began.
        is_first = not list_options(call.request.query).continue_
        measured = [pod for pod in pods if is_first and pod.spec.node_name in nodes]
        rates_now = await meter.read([(pod.metadata.uid, one.name) for pod in measured for one in pod.spec.containers])
        metrics = []
        for pod in pods:
            used = [(name, rates_now.usage.get((uid, name))) for uid, name in _list_containers(pod)]
            containers = tuple(ContainerMetrics(name=name, usage=usage) for name, usage in used if usage is not None)
            if containers:
                meta, moment = _copy_identity(pod.metadata), clock.now()
                metrics.append(
                    PodMetrics(metadata=meta, timestamp=moment, window=_format_window(rates_now), containers=containers)
                )
        return _make_answer(call, metrics, next_page)

    return {NODE_METRICS.resource: of_nodes, POD_METRICS.resource: of_pods}


def _find_requested(store: Store, call: Call, resource: str) -> tuple[Sequence[Entry], str]:
    """Return the objects that a request names or selects, and the token of the next page; "" for the last page.

    Each page shows the newest state, because every page is measured again. Raises `ApiError` (400, 404).
    """
    if call.name:
        entry = store.get(Key(resource, call.namespace, call.name))
        if entry is None:
            raise not_found(call.resource.name, call.name)
        return [entry], ""
    options = list_options(call.request.query)
    chosen = parse_selection(options.label_selector, options.field_selector, _NO_FIELDS)
    entries = store.list(resource, call.namespace).entries
    first = find_index_after(entries, decode_token(options.continue_).start) if options.continue_ else 0
    page, end = take_page(entries, first, chosen, options.limit)
    return page, encode_token(NEWEST, page[-1].key) if end < len(entries) else ""


def _list_running_pods(entries: Iterable[Entry]) -> Iterable[Pod]:
    pods = (POD.decode(entry.body) for entry in entries)
    return (pod for pod in pods if pod.status.phase == "Running" and pod.spec.node_name)


def _list_containers(pod: "Pod | _PodParts") -> Iterable[_Container]:
    return ((pod.metadata.uid, container.name) for container in (*pod.spec.init_containers, *pod.spec.containers))


def _copy_identity(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=meta.name, namespace=meta.namespace, labels=meta.labels, creation_timestamp=meta.creation_timestamp
    )


def _format_window(measured: Rates) -> str:
    return f"{measured.seconds:.3f}s"


def _make_answer(call: Call, metrics: Sequence[Any], next_page: str) -> Response:
    """Return the response with the metrics of the named object, or of a list.

    Raises `ApiError` (404) if there are none.

    next_page: the token of the page after the list; "" for none.
    """
    kind = call.view.kind
    if call.name:
        if not metrics:
            raise not_found(call.resource.name, call.name)
        return Response(200, kind.encode(metrics[0]), JSON)
    meta = {"continue": next_page} if next_page else {}
    items = [msgspec.Raw(kind.encode(one)) for one in metrics]
    whole = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": meta, "items": items}
    return Response(200, msgspec.json.encode(whole), JSON)
