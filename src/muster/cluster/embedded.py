"""Run the embedded cluster: a control plane and its nodes in one process.

`run_ephemeral_cluster` is the cluster inside `muster run`. Its containers are killed whenever the process exits, and
its files are removed; the next such cluster removes the files of a killed one. The durable cluster that clients reach
over HTTPS is in `serving`.
"""

import asyncio
import logging
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.config import EMBEDDED, Configuration
from muster.api.core import NODE, Node
from muster.api.nodes import is_ready
from muster.api.ours.embedded import NODE_IDENTITY, NODE_KIND_LABEL, SERVER_MACHINE
from muster.api.status import ApiError, conflict
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.objects.expiry import keep_events_fresh
from muster.cluster.controllers.claims.volumeclaims import ClaimBinder
from muster.cluster.controlplane import ControlPlane, MakeDefinitions, control_plane
from muster.cluster.defaultqueue import create_default_queue
from muster.cluster.memory import give_back
from muster.cluster.nodes.agent import ProcessNode
from muster.cluster.nodes.disk import plainfiles, removal
from muster.cluster.nodes.disk.leftovers import NODES, STATES, VOLUMES, end_everything, forget_absent, remove_all
from muster.cluster.nodes.disk.removal import RemovalError
from muster.cluster.nodes.disk.states import States
from muster.cluster.nodes.disk.storage import seed_of, set_aside
from muster.cluster.nodes.network.addresses import Addresses
from muster.cluster.nodes.network.network import Network
from muster.cluster.nodespec import NodeSpec
from muster.cluster.store import Journal, MemoryJournal, keep_compacted
from muster.cluster.store.directory import DataDirectory
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.process import filelock
from muster.runtime.process.accounts import Account
from muster.runtime.process.descriptors import allow_descriptors, shorten_reports_of_exhaustion

if TYPE_CHECKING:  # this module imports HTTP, which a cluster of one command does not need
    from muster.cluster.entrance import Entrance

log = logging.getLogger(__name__)

NO_VARIABLES: Mapping[str, str] = {}
_REGISTRATION_SECONDS = 30.0
_PRIVATE = "muster-run-"  # the prefix of private clusters' homes


class Running(Struct, frozen=True):
    """A running cluster, and the tasks that must not stop before it does.

    home: the directory of its data.
    complete: the host sets it after everything has started and the host has recorded the start. `/readyz` answers 200
    from then on.
    """

    plane: ControlPlane
    home: Path
    nodes: Sequence[ProcessNode]
    tasks: Sequence[asyncio.Task[None]]
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    async def end(self) -> None:
        """Terminate the pods gracefully, or leave them after `abandon`; then stop the controllers.

        The server answers until the last status is written.
        """
        for node in self.nodes:
            node.leave_pods_running = self.abandoned.is_set()
        await self.plane.manager.stop()

    async def wait_until_started(self, *, default_queue: bool) -> None:
        """Wait until the controllers and the nodes are ready. Raises the error of a failed part.

        default_queue: whether to create the default queue of a fresh cluster.
        """
        plane = self.plane
        await self.until(plane.manager.ready.wait())
        await self.until(_wait_until_registered(plane))
        await self.until(_wait_until_equipped(self.nodes))  # a Node of the last start may be ready before its agent is
        if default_queue:
            await _create_default_queue(plane)

    def abandon(self) -> None:
        """Stop the cluster without waiting for its pods.

        The pods keep running, or are killed at once if they may not outlive this process.
        """
        self.abandoned.set()

    async def until(self, end: Coroutine[Any, Any, Any]) -> None:
        """Wait until the coroutine has finished. Raises the error of a part of the cluster that fails before that."""
        ending = asyncio.ensure_future(end)
        try:
            ended_tasks, _ = await asyncio.wait(
                [ending, self.plane.failed, *self.tasks], return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            ending.cancel()
        for task in ended_tasks:
            task.result()


@asynccontextmanager
async def run_ephemeral_cluster() -> AsyncIterator[Running]:
    """Run a cluster in memory with one process node, in a temporary home, while the context is open."""
    allow_descriptors()
    shorten_reports_of_exhaustion(asyncio.get_running_loop())
    home = Path(tempfile.mkdtemp(prefix=_PRIVATE))
    locked = DataDirectory(home)
    try:
        async with run_cluster(
            MemoryJournal(), home / NODES, (NodeSpec(),), adopt=False, default_queue=True
        ) as running:
            yield running
    finally:
        locked.release()
        await _remove_abandoned(home.parent)


async def _remove_abandoned(directory: Path) -> None:
    """Remove the homes of ephemeral clusters that have stopped: of this process, and of killed processes."""
    for name in plainfiles.list_names(directory):
        if name.startswith(_PRIVATE) and _is_abandoned(home := directory / name):
            await end_everything(home / NODES)
            for trouble in await asyncio.to_thread(remove_all, home, home / NODES):
                log.warning("%s", trouble)


def _is_abandoned(home: Path) -> bool:
    """Return whether a directory belongs to this user, and is the home of a cluster that no longer runs."""
    try:
        with plainfiles.open_plain_file(home / "lock") as lock:
            return home.lstat().st_uid == os.getuid() and not filelock.is_taken(lock)
    except (FileNotFoundError, plainfiles.OddFileError):
        return False


@asynccontextmanager
async def run_cluster(
    journal: Journal,
    state: Path,
    nodes: Sequence[NodeSpec],
    configuration: Configuration = EMBEDDED,
    *,
    adopt: bool,
    default_queue: bool = False,
    entrance: "Entrance | None" = None,
) -> AsyncIterator[Running]:
    """Run a control plane as `start_control_plane` does, and wait until its controllers and nodes have started.

    default_queue: whether to create the default queue of a fresh cluster.
    """
    async with start_control_plane(journal, state, nodes, configuration, adopt=adopt, entrance=entrance) as running:
        await running.wait_until_started(default_queue=default_queue)
        running.complete.set()
        yield running


FindAccount: TypeAlias = Callable[[int], Account]
"""Looks up a Unix account by its id; raises `AccountError`."""

Beside: TypeAlias = Callable[[ControlPlane], AbstractAsyncContextManager[None]]
"""Starts what a host runs beside a control plane whose manager is still to run."""


def _run_nothing_beside(plane: ControlPlane) -> AbstractAsyncContextManager[None]:  # noqa: ARG001  (one of its shape)
    """Return a context that does nothing: the default of `beside`."""
    return nullcontext()


@asynccontextmanager
async def start_control_plane(
    journal: Journal,
    state: Path,
    nodes: Sequence[NodeSpec],
    configuration: Configuration = EMBEDDED,
    *,
    adopt: bool,
    entrance: "Entrance | None" = None,
    beside: Beside = _run_nothing_beside,
    make_definitions: MakeDefinitions = tuple,
    find_account: FindAccount | None = None,
    disks: Sequence[Path] = (),
) -> AsyncIterator[Running]:
    """Run a control plane; enter the context while its controllers and nodes are still starting.

    So users can already query it, and help if the start does not finish.

    adopt: whether containers outlive a killed server, so that the next server finds them in `state`.
    entrance: the addresses and credentials by which clients, including the cluster's pods, reach the server; None for
    no access from outside.
    beside: starts the other services of the host.
    make_definitions: makes the CustomResourceDefinitions of built-in kinds, for clients that look for them.
    find_account: returns the Unix account of a pod by user ID; None unless this is a system server.
    disks: directories besides `state` whose disks need free space before another pod starts.
    """
    inputs, trust = ExternalInputs(RealClock(), Ids(), Random(), zone=None), entrance.trust if entrance else Trust
    configuration = _set_release_address(configuration)
    serving = control_plane(
        journal, inputs, configuration, trust, make_definitions=make_definitions, find_account=find_account
    )
    async with serving as plane, beside(plane):
        plane.add_controllers()
        variables = entrance.variables() if entrance else {}
        if entrance:
            for announcer in entrance.announcers(plane.manager):
                plane.manager.add(announcer)
        process_nodes = await add_nodes(
            plane, state, nodes, adopt=adopt, variables=variables, find_account=find_account, disks=disks
        )
        manager = asyncio.create_task(plane.manager.run(), name="manager")
        clock = plane.inputs.clock
        compacting = keep_compacted(plane.store, clock, partial(asyncio.to_thread, give_back))
        upkeep = [
            asyncio.create_task(compacting, name="store-upkeep"),
            asyncio.create_task(keep_events_fresh(plane.store, clock), name="event-upkeep"),
        ]
        running = Running(plane, state.parent, process_nodes, (manager, *upkeep))
        plane.server.endpoints.ready_checks["start"] = lambda: None if running.complete.is_set() else "it goes on"
        try:
            yield running
            await running.end()
        finally:
            for task in upkeep:
                task.cancel()
            await plane.manager.stop()
            await asyncio.wait([manager, *upkeep])
            for node in process_nodes:  # the start may have failed before the node ran
                await node.end_isolation_trial()


def _set_release_address(configuration: Configuration) -> Configuration:
    """Return the configuration with the address at which pods of a group learn that they may start.

    Unless the configuration sets this address, it is on loopback, because the pods are on this machine. So a group
    starts without delay.
    """
    muster = configuration.muster
    if muster.group_scheduling.bind_address:
        return configuration
    group_scheduling = replace(muster.group_scheduling, bind_address="127.0.0.1:0")
    return replace(configuration, muster=replace(muster, group_scheduling=group_scheduling))


async def _create_default_queue(plane: ControlPlane) -> None:
    try:
        await create_default_queue(plane.manager.client, plane.manager.informer(NODE).all())
    except ApiError as error:  # a user's webhook or policy refuses it: the next start retries
        log.warning("the default queue could not be created: %s", error)


async def _wait_until_registered(plane: ControlPlane) -> None:
    """Wait until every node is ready.

    Before that, a user who submits a job would get an error about missing nodes. The wait is limited: a webhook may
    refuse nodes, and users can remove it only while they are served.
    """
    missing = set(plane.nodes)
    all_there = asyncio.Event()

    def on_node_changed(_: Node | None, node: Node | None) -> None:
        if node is not None and is_ready(node):
            missing.discard(node.metadata.name)
        if not missing:
            all_there.set()

    plane.manager.informer(NODE).on_change(on_node_changed)
    try:
        async with asyncio.timeout(_REGISTRATION_SECONDS):
            await all_there.wait()
    except TimeoutError:
        log.warning("nodes not ready after %g s: %s", _REGISTRATION_SECONDS, ", ".join(sorted(missing)))


async def _wait_until_equipped(nodes: Iterable[ProcessNode]) -> None:
    for node in nodes:
        await node.equipped.wait()


async def add_nodes(
    plane: ControlPlane,
    state: Path,
    nodes: Sequence[NodeSpec],
    *,
    adopt: bool,
    variables: Mapping[str, str] = NO_VARIABLES,
    find_account: FindAccount | None = None,
    disks: Sequence[Path] = (),
) -> list[ProcessNode]:
    """Add the nodes to the manager, connect the server to their pods, and kill leftover pods of earlier servers.

    The parameters are the same as for `start_control_plane`; variables: environment variables for all pods.
    """
    manager = plane.manager
    await asyncio.to_thread(_make_directory, state)
    counts: Counter[str] = Counter()
    shares = sum(spec.count for spec in nodes if spec.kind == "process")
    # Other clusters on this machine assign addresses too, so each cluster begins elsewhere in the range.
    network = Network(manager, Addresses(seed_of(state)), apart=find_account is not None)
    states = States(state.with_name(STATES), shared=find_account is not None)
    process_nodes: list[ProcessNode] = []
    claims = ClaimBinder(manager, plane.events.recorder("claim-binder"), state.with_name(VOLUMES), _remove_directory)
    manager.add(claims)
    if any(spec.kind == "process" for spec in nodes):
        manager.add(network)
    for spec in nodes:
        names = spec.names(taken=counts[spec.kind])
        counts[spec.kind] += spec.count
        if spec.kind == "simulated":
            from muster.cluster.nodes.simulated.nodes import SimulatedNodes  # few clusters have such nodes

            labels = {SERVER_MACHINE: "true"}
            devices = spec.devices
            simulated = SimulatedNodes(manager, names, resources=spec.resources, labels=labels, devices=devices)
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
                disks=disks,
                find_account=find_account,
            )
            # Only a server that is asked to stop terminates the pods. The next server finds the pods that a failed
            # server leaves.
            node.leave_pods_running = adopt
            manager.add(node)
            process_nodes.append(node)
            plane.nodes[name] = node.connection
    await _require_free(manager.client, plane.nodes)
    await forget_absent(manager.client, state, frozenset(plane.nodes))
    for node in process_nodes:
        node.start_isolation_trial()
    return process_nodes


async def _require_free(client: Client, names: Collection[str]) -> None:
    """Raise `ApiError` (409) if a machine that has joined the cluster has the name of one of the server's own nodes."""
    for node in (await client.list(NODE, labels=NODE_KIND_LABEL)).items:
        if node.metadata.name in names and NODE_IDENTITY in node.metadata.annotations:
            why = "a joined machine has this name: start with fewer nodes, or delete it and let it join by another name"
            raise conflict("nodes", node.metadata.name, why)


async def _remove_directory(directory: Path) -> str:
    """Remove a directory; return why some of it could not be removed, or ""."""
    try:
        await asyncio.to_thread(removal.remove, directory)
    except RemovalError as error:
        return str(error)
    return ""


def _make_directory(state: Path) -> None:
    """Make the directory of the nodes; rename anything else at its path. Raises OSError."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        log.warning("%s was not a directory; it was renamed to %s", state, set_aside(state).name)
        state.mkdir(mode=0o700)
