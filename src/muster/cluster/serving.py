"""Run `muster up`: a durable embedded cluster that any Kubernetes client reaches over HTTPS."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from importlib import import_module
from pathlib import Path

from msgspec import Struct

from muster.api.config import EMBEDDED, Configuration
from muster.cluster import backups, decisions, history
from muster.cluster.apiserver.access.audit import Audit, AuditLog
from muster.cluster.apiserver.access.audit_policy import Policy
from muster.cluster.apiserver.answers import Stream
from muster.cluster.controlplane import ControlPlane, MakeDefinitions
from muster.cluster.embedded import Running, start_control_plane
from muster.cluster.entrance import Entrance, MakePages, find_free_port
from muster.cluster.exposure import UNEXPOSED, Exposure
from muster.cluster.memory import give_back
from muster.cluster.nodes.disk.leftovers import NODES, end_everything, find_shared, prepare_for_accounts
from muster.cluster.nodespec import NodeSpec
from muster.cluster.store.directory import PKI
from muster.cluster.store.sqlite import SqliteJournal
from muster.runtime.clock import Clock, RealClock
from muster.runtime.process.accounts import find_account
from muster.runtime.process.descriptors import allow_descriptors, shorten_reports_of_exhaustion
from muster.runtime.process.garbage import settle
from muster.runtime.process.ownership import require_file

log = logging.getLogger(__name__)

AUDIT_LOG = "audit.log"

# The modules that only some requests import, except those that load a library of their own, such as aiohttp.
LATE_MODULES = (
    "muster.cluster.apiserver.cel.evaluate",
    "muster.cluster.apiserver.cel.front",
    "muster.cluster.apiserver.cel.library.quantities",
    "muster.cluster.apiserver.cel.library.semver",
    "muster.cluster.apiserver.cel.rules",
    "muster.cluster.apiserver.cel.shapes",
    "muster.cluster.apiserver.openapi",
    "muster.cluster.apiserver.pods.tunnels.command",
    "muster.cluster.apiserver.pods.tunnels.forward",
    "muster.queueing.scheduling.estimate",
)
_LATE_SECONDS = 5.0


class Options(Struct, frozen=True):
    """The options of `muster up`.

    audit_policy: None for no audit log.
    exposure: where other machines reach the server; by default nowhere.
    local_socket: where a system server serves the users of this machine; it runs each pod as the Unix user who owns its
    namespace. None for a server that runs its pods as its own user.
    make_pages: makes the pages for people that are served next to the API.
    make_definitions: makes CustomResourceDefinitions for kinds that the server serves anyway, such as Kueue's.
    """

    home: Path
    port: int
    nodes: Sequence[NodeSpec] = (NodeSpec(),)
    configuration: Configuration = EMBEDDED
    audit_policy: Policy | None = None
    exposure: Exposure = UNEXPOSED
    make_definitions: MakeDefinitions = tuple
    local_socket: Path | None = None
    make_pages: MakePages | None = None


async def serve(options: Options, ready: Callable[[str, str, str, str], None]) -> None:
    """Run until SIGTERM or SIGINT, then terminate all pods and stop.

    ready: called after everything has started, before `/readyz` answers 200. Its arguments are the URL for this
    machine, the URL for other machines ("" for none), how process nodes enforce the limits of containers ("" without
    such nodes), and which requested resources they lack.

    Raises `DataDirectoryError`, `AddressUnusable`, `CredentialError`, `NotOursError`, or the error of a failed part.
    """
    allow_descriptors()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    shorten_reports_of_exhaustion(loop)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            loop.add_signal_handler(number, stopping.set)
    journal = SqliteJournal(options.home, is_used=(options.home / PKI).exists())
    state, other_state = options.home / NODES, find_shared(options.home) / NODES
    if options.local_socket is not None:
        prepare_for_accounts(other_state)
        state, other_state = other_state, state
    with closing(await _make_entrance(options)) as entrance:
        beside = partial(_keep_records, home=options.home)
        async with start_control_plane(
            journal,
            state,
            options.nodes,
            options.configuration,
            adopt=True,
            entrance=entrance,
            beside=beside,
            make_definitions=options.make_definitions,
            find_account=find_account if options.local_socket is not None else None,
            disks=(options.home,),
        ) as running:
            await end_everything(other_state)  # the pods of a server that ran its pods as other users
            if options.audit_policy is not None:
                _keep_audit(running.plane, options.audit_policy, options.home / AUDIT_LOG)
            _give_backups(running.plane)
            front = await entrance.open(running.plane)
            try:
                entrance.credentials.write_kubeconfig(options.home / "kubeconfig", entrance.url)
                await _wait_until_started(running, stopping)
                if not stopping.is_set():
                    ready(entrance.url, entrance.outside, _describe_enforcement(running), _describe_shortages(running))
                    running.complete.set()  # not before: who sees the server ready reads what `ready` has written
                    loading = asyncio.create_task(_load_late_modules(running.plane.inputs.clock), name="late modules")
                    try:
                        await running.until(stopping.wait())
                    finally:
                        loading.cancel()
                await running.end()  # before the front stops, so that clients see how their jobs end
            finally:
                await front.stop()


async def _load_late_modules(clock: Clock) -> None:
    """Import the modules that only some requests need, after a pause in which the first jobs can start.

    Muster may be upgraded while a server runs, and the new files may not fit the modules that the server has loaded.
    """
    await clock.sleep(_LATE_SECONDS)
    for name in LATE_MODULES:
        try:
            await asyncio.to_thread(import_module, name)
        except Exception:  # files of two versions fail in any way
            log.warning("some requests will fail until muster restart: cannot load %s", name, exc_info=True)


async def _make_entrance(options: Options) -> Entrance:
    port = options.port or await find_free_port(options.home, options.exposure, RealClock())
    return Entrance(options.home, port, options.exposure, options.local_socket, options.make_pages)


@asynccontextmanager
async def _keep_records(plane: ControlPlane, home: Path) -> AsyncIterator[None]:
    """Record the history of jobs and the decisions of the engine within the context."""
    async with history.record_history(plane, home), decisions.keep_decisions(plane, home):
        yield


async def _wait_until_started(running: Running, stopping: asyncio.Event) -> None:
    """Wait until everything has started, or until the user stops the server."""
    starting = asyncio.create_task(running.wait_until_started(default_queue=True))
    ending = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            settle()
            give_back()  # the memory that only the start needed: 2 MB, and 5 MB the first time
    finally:
        starting.cancel()
        ending.cancel()


def _describe_enforcement(running: Running) -> str:
    return "; ".join(dict.fromkeys(node.enforcement for node in running.nodes))


def _describe_shortages(running: Running) -> str:
    return "\n".join(f"{node.node_name} offers {node.shortage}" for node in running.nodes if node.shortage)


def _give_backups(plane: ControlPlane) -> None:
    plane.server.endpoints.streams[backups.PATH] = lambda: Stream(backups.send(plane.store), backups.CONTENT_TYPE)


def _keep_audit(plane: ControlPlane, policy: Policy, path: Path) -> None:
    """Write the audit log of the server's requests from now on. Raises `NotOursError`, `OSError`."""
    require_file(path)
    around = plane.inputs
    plane.server.audit = Audit(policy, AuditLog(path).write, plane.access.rbac.decide, around.clock, around.ids)
