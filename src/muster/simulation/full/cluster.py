"""Run a scenario's complete cluster in virtual time: its server, its controllers and its simulated nodes."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.config import Configuration
from muster.api.core import NODE, POD, Node, NodeCondition, Pod
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS, WorkloadPriorityClass
from muster.api.meta import ObjectMeta
from muster.api.nodes import is_ready
from muster.api.pods import is_deleting, is_finished
from muster.cluster.apiserver.objects.expiry import keep_events_fresh
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.cluster.store import keep_compacted
from muster.controllers.engine import Part
from muster.controllers.scheduler.evicting import make_eviction
from muster.multicluster.links.reach import Reach, over_https
from muster.runtime.clock import VirtualClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Random
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, Request
from muster.simulation.engine.changing.redefinitions import Definition
from muster.simulation.engine.site import Site, store_manifests
from muster.simulation.full.engineprocess import EngineProcess
from muster.simulation.full.manifests import name_job, name_priority_class
from muster.simulation.full.pacing import PacedJournal
from muster.simulation.full.serialids import SerialIds
from muster.simulation.full.unbounded import UnboundedBinder, make_unbounded_node
from muster.simulation.scenario.reading import Reading

_READY = (NodeCondition(type="Ready", status="True"),)
# The maximum number of seconds until an evicted pod is deleted.
_EVICTION_SECONDS = 0.05
# The parts of a Kubernetes cluster other than the engine, which keep running while the engine restarts.
_OF_THE_CLUSTER = frozenset((Part.JOBS, Part.JOBSETS))
# The number of seconds by which the cluster starts before the scenario.
_WARM_UP_SECONDS = 60.0
# The number of bits of a scenario's seed that clusters share.
_SEED_BITS = 64
# The number of decimal places of times, because messages take microseconds even of virtual time.
_DIGITS = 3

_STRICT = {"fieldValidation": "Strict"}


class Cluster:
    """A complete cluster, with its server, in virtual time.

    Times are seconds from the start of the scenario.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._client = plane.client()
        self._priorities: set[int] = set()  # the priorities that have a class already
        self._jobs: dict[int, tuple[Kind[Any], str]] = {}  # the kind and namespace of each job, by its number
        self.tasks: list[asyncio.Task[Any]] = []
        self._workers: tuple[Cluster, ...] = ()
        self._engine: EngineProcess | None = None

    def tell_time(self) -> float:
        """Return the seconds since the start of the scenario, to the millisecond; negative before it."""
        return round(self.plane.inputs.clock.monotonic() - _WARM_UP_SECONDS, _DIGITS)

    async def sleep_until(self, at: float) -> None:
        """Wait until a time, in seconds from the start; return immediately if it has passed.

        If a part of the cluster or of a worker cluster fails during the wait, its error is raised.
        """
        seconds = max(0.0, at + _WARM_UP_SECONDS - self.plane.inputs.clock.monotonic())
        watched = [task for one in (self, *self._workers) for task in (*one.tasks, one.plane.failed)]
        ended, _ = await asyncio.wait(watched, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()

    @asynccontextmanager
    async def controlled(self) -> AsyncIterator[None]:
        """Run the controllers and the engine within the context, and stop them at its end."""
        manager, clock = self.plane.manager, self.plane.inputs.clock
        managing = asyncio.create_task(manager.run(), name="manager")
        upkeep = [
            asyncio.create_task(keep_compacted(self.plane.store, clock), name="store-upkeep"),
            asyncio.create_task(keep_events_fresh(self.plane.store, clock), name="event-upkeep"),
        ]
        self.tasks = [managing, *upkeep]
        try:
            if self._engine is not None:
                self._engine.start()
            yield
        finally:
            for task in upkeep:
                task.cancel()
            if self._engine is not None:
                await self._engine.stop()
            await manager.stop()
            await asyncio.wait(self.tasks)

    def watch_workers(self, workers: Iterable["Cluster"]) -> None:
        """Make `sleep_until` raise the errors of these worker clusters, too."""
        self._workers = tuple(workers)

    def set_engine(self, engine: EngineProcess) -> None:
        """Register the engine process of this cluster, which can be stopped while the other controllers continue."""
        self._engine = engine

    async def stop_engine(self) -> None:
        """Stop the engine, so that no decisions are made until `start_engine`.

        The cluster must have a separate engine process.
        """
        assert self._engine is not None, "a scenario with restarts has an engine of its own"
        await self._engine.stop()

    async def start_engine(self) -> None:
        """Start the engine again. It knows only what the server has stored."""
        assert self._engine is not None, "a scenario with restarts has an engine of its own"
        self._engine.start()

    async def create_job(self, kind: Kind[Any], namespace: str, number: int, manifest: Mapping[str, Any]) -> None:
        """Submit a job, and remember it by its number. Raises `ApiError`."""
        await self._client.raw(Request("POST", kind.path(namespace), _STRICT, msgspec.json.encode(manifest)))
        self._jobs[number] = kind, namespace

    async def create_priority(self, priority: int) -> None:
        """Create the WorkloadPriorityClass for a priority that the scenario draws, unless it exists.

        Raises `ApiError`.
        """
        if priority not in self._priorities:
            meta = ObjectMeta(name=name_priority_class(priority))
            await self._client.create(WORKLOAD_PRIORITY_CLASS, WorkloadPriorityClass(metadata=meta, value=priority))
            self._priorities.add(priority)

    async def delete_jobs(self, numbers: Iterable[int]) -> None:
        """Delete ended jobs with all their objects, to bound the memory of a long simulation.

        Raises `ApiError`.
        """
        for number in numbers:
            kind, namespace = self._jobs.pop(number)
            with ignoring("NotFound"):  # its manifest may have had it deleted already
                await self._client.delete(kind, name_job(number), namespace)

    async def set_node(self, node: Node) -> None:
        """Add a node, or update whether it accepts new pods: a node that is not ready accepts none.

        Raises `ApiError`.
        """
        name, closed = node.metadata.name, node.spec.unschedulable or not is_ready(node)
        if await self._client.find(NODE, name) is None:
            await self.create_nodes([replace(node, status=replace(node.status, conditions=_READY))])
        await self._client.patch(NODE, name, {"spec": {"unschedulable": closed}})

    async def cordon_node(self, name: str) -> None:
        """Mark a node as unschedulable. Raises `ApiError`."""
        await self._client.patch(NODE, name, {"spec": {"unschedulable": True}})

    async def evict_pods(self, nodes: Collection[str]) -> None:
        """Evict all unfinished pods on some nodes, and wait until these pods are deleted. Raises `ApiError`."""
        while pods := [pod for pod in (await self._client.list(POD)).items if _runs_on(pod, nodes)]:
            for pod in pods:
                if not is_deleting(pod):
                    meta = pod.metadata
                    with ignoring("NotFound"):
                        await self._client.post(POD, meta.name, meta.namespace, "eviction", make_eviction(pod))
            await self.plane.inputs.clock.sleep(_EVICTION_SECONDS)

    async def delete_nodes(self, names: Iterable[str]) -> None:
        """Delete nodes. Raises `ApiError`."""
        for name in names:
            await self._client.delete(NODE, name)

    async def redefine(self, definition: Definition) -> None:
        """Create a queue or Cohort, or replace its spec and annotations. Raises `ApiError`."""
        kind: Kind[Any] = next(one for one in (CLUSTER_QUEUE, COHORT, LOCAL_QUEUE) if one.type is type(definition))
        meta = definition.metadata
        before = await self._client.find(kind, meta.name, meta.namespace)
        if before is None:
            await self._client.create(kind, replace(definition, metadata=replace(meta, uid="", resource_version="")))
            return
        merged = replace(before.metadata, annotations=meta.annotations)
        await self._client.update(kind, replace(before, spec=definition.spec, metadata=merged))

    async def create_nodes(self, nodes: Iterable[Node]) -> None:
        """Create the nodes of a scenario that are not in its manifests, and set the status of all nodes.

        Raises `ApiError`.
        """
        manifests = {one.metadata.name for one in (await self._client.list(NODE)).items}
        for node in nodes:
            name = node.metadata.name
            if name not in manifests:
                await self._client.create(NODE, node)
            status = {"status": msgspec.to_builtins(node.status)}
            await self._client.patch(NODE, name, status, type=STRATEGIC_MERGE_PATCH, subresource="status")


@asynccontextmanager
async def run_cluster(
    reading: Reading, site: Site, configuration: Configuration, *, reach: Reach = over_https, serial: int = 0
) -> AsyncIterator[Cluster]:
    """Run a server with the objects of a scenario within the context. The caller then runs the controllers.

    reach: opens transports to worker clusters.
    serial: distinguishes the random numbers and names of several clusters.

    Without nodes, only quotas decide, and a single node accepts every pod. Raises `ScenarioError`.
    """
    spec = reading.scenario.spec
    clock = VirtualClock(spec.start - timedelta(seconds=_WARM_UP_SECONDS))
    seed = spec.seed + (serial << _SEED_BITS)
    inputs = ExternalInputs(clock, SerialIds(seed), Random(seed))
    async with control_plane(PacedJournal(clock), inputs, configuration) as plane:
        cluster = Cluster(plane)
        await store_manifests(plane, plane.client(), reading.manifests)
        bounded = bool(site.nodes or spec.nodes)
        nodes = site.nodes if bounded else (make_unbounded_node(),)
        await cluster.create_nodes(nodes)
        parts = [part for part in Part if bounded or part is not Part.SCHEDULING]
        binders = [] if bounded else [UnboundedBinder]
        if any(change.restart for change in spec.changes):
            engine = [part for part in parts if part not in _OF_THE_CLUSTER]
            cluster.set_engine(EngineProcess(plane, engine, reach, binders))
            plane.add_controllers(_OF_THE_CLUSTER)
        else:
            plane.add_controllers(parts, reach)
            for binder in binders:
                plane.manager.add(binder(plane.manager))
        if names := [node.metadata.name for node in (*nodes, *site.later_nodes)]:
            played = SimulatedNodes(plane.manager, names, registers=False)
            plane.manager.add(played)
            plane.nodes.update(dict.fromkeys(names, played.connection))
        yield cluster


def _runs_on(pod: Pod, nodes: Collection[str]) -> bool:
    return pod.spec.node_name in nodes and not is_finished(pod)
