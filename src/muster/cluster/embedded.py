"""The embedded cluster: a control plane and its nodes in one process.

`ephemeral` is the cluster inside `muster run`: its containers end with the process, however that ends, and nothing on
disk outlives it: what a killed one leaves is removed by the next one. The cluster that stays and is reached over HTTPS
is in `serving`.
"""

import asyncio
import logging
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from muster.api.config import EMBEDDED, Configuration
from muster.api.core import NODE, Node
from muster.api.nodes import is_ready
from muster.api.status import ApiError
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.objects.expiry import keep_events_fresh
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.defaultqueue import create_default_queue
from muster.cluster.memory import give_back
from muster.cluster.nodes.agent import ProcessNode
from muster.cluster.nodes.disk import plainfiles
from muster.cluster.nodes.disk.leftovers import NODES, STATES, end_everything, forget_absent, remove_all
from muster.cluster.nodes.disk.states import States
from muster.cluster.nodes.disk.storage import seed_of, set_aside
from muster.cluster.nodes.network.addresses import Addresses
from muster.cluster.nodes.network.network import Network
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.cluster.nodespec import NodeSpec
from muster.cluster.store import Journal, MemoryJournal, keep_compacted
from muster.cluster.store.directory import DataDirectory
from muster.controllers.jobset.stopped import renew_stopped
from muster.runtime.clock import RealClock
from muster.runtime.givens import Givens
from muster.runtime.ids import Ids, Random
from muster.runtime.process import filelock

if TYPE_CHECKING:  # it brings all that speaks HTTP, which a cluster of one command does without
    from muster.cluster.entrance import Entrance

log = logging.getLogger(__name__)

NO_VARIABLES: Mapping[str, str] = {}
_REGISTRATION_SECONDS = 30.0
_PRIVATE = "muster-run-"  # what the homes of private clusters begin with


@dataclass(frozen=True, slots=True)
class Running:
    """A cluster that runs, and the tasks that must not end before it is told to. home: where its data are."""

    plane: ControlPlane
    home: Path
    nodes: Sequence[ProcessNode]
    tasks: Sequence[asyncio.Task[None]]
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)

    async def end(self) -> None:
        """End the pods gracefully, then the controllers; the server answers until all has been said."""
        for node in self.nodes:
            node.leave_pods_running = self.abandoned.is_set()
        await self.plane.manager.stop()

    async def started(self, *, default_queue: bool) -> None:
        """Wait until the controllers know what there is and the nodes are there; raises what made a part fail.

        With `default_queue` a fresh cluster gets one.
        """
        plane = self.plane
        await self.until(plane.manager.ready.wait())
        await self.until(_registered(plane))
        if default_queue:
            await _create_default_queue(plane)

    def abandon(self) -> None:
        """Do not wait for the pods at the end: they are left, or killed at once if they end with this process."""
        self.abandoned.set()

    async def until(self, end: Coroutine[Any, Any, Any]) -> None:
        """Wait for the end; raises what made a part fail before it."""
        ending = asyncio.ensure_future(end)
        try:
            done, _ = await asyncio.wait([ending, self.plane.failed, *self.tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
        for task in done:
            task.result()


@asynccontextmanager
async def ephemeral() -> AsyncIterator[Running]:
    """A cluster with one process node for as long as the context lasts."""
    home = Path(tempfile.mkdtemp(prefix=_PRIVATE))
    held = DataDirectory(home)
    try:
        async with cluster(MemoryJournal(), home / NODES, (NodeSpec(),), adopt=False, default_queue=True) as running:
            yield running
    finally:
        held.release()
        await _remove_abandoned(home.parent)


async def _remove_abandoned(directory: Path) -> None:
    """Remove the homes of private clusters that have ended: this process's, and those of killed ones."""
    for name in plainfiles.names(directory):
        home = directory / name
        if name.startswith(_PRIVATE) and _is_abandoned(home):
            await end_everything(home / NODES)
            for trouble in await asyncio.to_thread(remove_all, home, home / NODES):
                log.warning("%s", trouble)


def _is_abandoned(home: Path) -> bool:
    """Whether a directory is ours, was a cluster's, and is no more."""
    try:
        with plainfiles.opened(home / "lock") as lock:
            return home.lstat().st_uid == os.getuid() and not filelock.is_taken(lock)
    except (FileNotFoundError, plainfiles.OddFileError):
        return False


@asynccontextmanager
async def cluster(
    journal: Journal,
    state: Path,
    nodes: Sequence[NodeSpec],
    configuration: Configuration = EMBEDDED,
    *,
    adopt: bool,
    default_queue: bool = False,
    entrance: "Entrance | None" = None,
) -> AsyncIterator[Running]:
    """A control plane whose controllers and nodes have started; as `begun`, and with `default_queue` it has a queue."""
    async with begun(journal, state, nodes, configuration, adopt=adopt, entrance=entrance) as running:
        await running.started(default_queue=default_queue)
        yield running


Beside: TypeAlias = Callable[[ControlPlane], AbstractAsyncContextManager[None]]
"""What a host keeps beside a control plane whose manager is still to run."""


def _nothing(plane: ControlPlane) -> AbstractAsyncContextManager[None]:  # noqa: ARG001  (one of its shape)
    """There is nothing."""
    return nullcontext()


@asynccontextmanager
async def begun(
    journal: Journal,
    state: Path,
    nodes: Sequence[NodeSpec],
    configuration: Configuration = EMBEDDED,
    *,
    adopt: bool,
    entrance: "Entrance | None" = None,
    beside: Beside = _nothing,
) -> AsyncIterator[Running]:
    """A control plane whose controllers and nodes are starting: it can be asked, and helped if that does not end.

    With `adopt` containers outlive a killed server, and the next one finds them in `state`; without it they end with
    this process. With an entrance its pods too can reach the server. beside: what else the host keeps with it.
    """
    surroundings, trust = Givens(RealClock(), Ids(), Random()), entrance.trust if entrance else Trust
    configuration = _with_release(configuration)
    async with control_plane(journal, surroundings, configuration, trust) as plane, beside(plane):
        plane.add_controllers()
        variables = entrance.variables() if entrance else {}
        if entrance:
            for announcer in entrance.announcers(plane.manager):
                plane.manager.add(announcer)
        process_nodes = await add_nodes(plane, state, nodes, adopt=adopt, variables=variables)
        await renew_stopped(plane.manager.client)
        manager = asyncio.create_task(plane.manager.run(), name="manager")
        clock = plane.surroundings.clock
        compacting = keep_compacted(plane.store, clock, partial(asyncio.to_thread, give_back))
        upkeep = [
            asyncio.create_task(compacting, name="store-upkeep"),
            asyncio.create_task(keep_events_fresh(plane.store, clock), name="event-upkeep"),
        ]
        running = Running(plane, state.parent, process_nodes, (manager, *upkeep))
        try:
            yield running
            await running.end()
        finally:
            for task in upkeep:
                task.cancel()
            await plane.manager.stop()
            await asyncio.wait([manager, *upkeep])


def _with_release(configuration: Configuration) -> Configuration:
    """Pods of ours are on this machine: groups of them hear at once that they may start, unless it is said where."""
    muster = configuration.muster
    if muster.group_scheduling.bind_address:
        return configuration
    group_scheduling = replace(muster.group_scheduling, bind_address="127.0.0.1:0")
    return replace(configuration, muster=replace(muster, group_scheduling=group_scheduling))


async def _create_default_queue(plane: ControlPlane) -> None:
    try:
        await create_default_queue(plane.manager.client, plane.manager.informer(NODE).all())
    except ApiError as error:  # what a user's webhook or policy refuses is made at another start
        log.warning("the default queue could not be made: %s", error)


async def _registered(plane: ControlPlane) -> None:
    """Until every node has said that it is there: before that, a user who submits is told that there are none.

    Not for ever: a webhook that refuses what nodes say could only be removed by a user who is served.
    """
    missing = set(plane.nodes)
    all_there = asyncio.Event()

    def seen(_: Node | None, node: Node | None) -> None:
        if node is not None and is_ready(node):
            missing.discard(node.metadata.name)
        if not missing:
            all_there.set()

    plane.manager.informer(NODE).on_change(seen)
    try:
        async with asyncio.timeout(_REGISTRATION_SECONDS):
            await all_there.wait()
    except TimeoutError:
        log.warning("not ready after %g s: %s", _REGISTRATION_SECONDS, ", ".join(sorted(missing)))


async def add_nodes(
    plane: ControlPlane,
    state: Path,
    nodes: Sequence[NodeSpec],
    *,
    adopt: bool,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> list[ProcessNode]:
    """Put the nodes under the manager, tell the server how to reach into their pods, and end what others have left."""
    manager = plane.manager
    await asyncio.to_thread(_make, state)
    counts: Counter[str] = Counter()
    shares = sum(spec.count for spec in nodes if spec.kind == "process")
    # Other clusters of this machine give out addresses too: each begins somewhere else.
    network = Network(manager, Addresses(seed_of(state)))
    states = States(state.with_name(STATES))
    process_nodes: list[ProcessNode] = []
    if any(spec.kind == "process" for spec in nodes):
        manager.add(network)
    for spec in nodes:
        names = spec.names(taken=counts[spec.kind])
        counts[spec.kind] += spec.count
        if spec.kind == "simulated":
            simulated = SimulatedNodes(manager, names, resources=spec.resources)
            manager.add(simulated)
            plane.nodes.update(dict.fromkeys(names, simulated.connection))
            continue
        for name in names:
            node = ProcessNode(
                manager,
                plane.events.recorder("kubelet", name),
                network,
                name=name,
                state=state / name,
                resources=spec.resources,
                outlive_server=adopt,
                defaults=variables,
                states=states,
                share=(len(process_nodes), shares),
                played_gpus=spec.played_gpus,
            )
            # Only who is asked to stop ends the pods: the next server finds those that one in trouble leaves.
            node.leave_pods_running = adopt
            manager.add(node)
            process_nodes.append(node)
            plane.nodes[name] = node.connection
    await forget_absent(manager.client, state, frozenset(plane.nodes))
    return process_nodes


def _make(state: Path) -> None:
    """Make the directory of the nodes, in place of whatever else is there. Raises OSError."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        log.warning("%s is no directory; it is %s now", state, set_aside(state).name)
        state.mkdir(mode=0o700)
