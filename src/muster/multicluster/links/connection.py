"""One worker cluster as its manager sees it: a client, and a cache of the manager's objects in the worker.

`RemoteCluster` supervises its own connection. An error of a worker becomes a sentence in `activity` and never stops the
engine. The cluster is *connected* when all caches are complete and watched. It is *lost* as soon as a watch breaks and
cannot be resumed at once. The cached state then stays readable, because an unreachable object still exists.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from muster.api.kinds import Kind
from muster.api.kueue import Workload
from muster.api.status import ApiError
from muster.multicluster.links.activity import make_connected, make_lost, seconds_until_retry
from muster.multicluster.links.copies import BrokenError, Copies
from muster.multicluster.links.identity import Identity, Register, endpoint_of
from muster.multicluster.links.queues import Queues
from muster.multicluster.links.reach import LEAST_ANSWER_SECONDS, LIMITS, Surroundings, make_unreachable
from muster.multicluster.links.sanitizing import one_line
from muster.queueing.pending.activity import Activity
from muster.runtime.client import Client
from muster.runtime.tasks import cancel
from muster.runtime.transport import Request, TransportError

if TYPE_CHECKING:
    from muster.runtime.kube.kubeconfig import ConnectionConfig

# The time limit until all caches are complete, doubled with each attempt (as upstream).
FIRST_LIMIT_SECONDS, MOST_LIMIT_SECONDS = 60.0, 600.0
# A connection that broke sooner than this does not reset the number of failed attempts.
STEADY_SECONDS = 60.0

FIELD_MANAGER = "muster-multikueue"

log = logging.getLogger(__name__)


class RemoteCluster:
    """A worker cluster.

    client: writes to the cluster; requests fail while it is lost.
    lost_since: None while it is connected. A worker that was never connected counts as lost since this object was made.
    activity: its condition Active; None until it is known.
    """

    def __init__(
        self,
        name: str,
        around: Surroundings,
        register: Register,
        *,
        changed: Callable[[str], None],
        stands: Callable[[], None],
        queued: Callable[[], None],
    ) -> None:
        """Make a cluster that is not connected yet.

        changed: called with the key of a workload whose objects in the worker changed.
        stands: called when the connection changed.
        queued: called when its queues changed, after they are watched.
        """
        self.name = name
        self.lost_since: datetime | None = around.clock.now()
        self.activity: Activity | None = None
        self.client = make_unreachable("there is no connection yet")
        self._around = around
        self._register = register
        self._changed = changed
        self._stands = stands
        self._queued = queued
        self._queues: Queues | None = None
        self._queues_wanted = False
        self._config: ConnectionConfig | None = None
        self._seen: Copies | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def workload(self, key: str) -> Workload | None:
        """Return the clone of the manager's workload with that key from the cache; None if there is none."""
        return self._seen.workloads.get(key) if self._seen is not None else None

    def workloads(self) -> list[Workload]:
        """Return all clones, from the cache."""
        return self._seen.workloads.all() if self._seen is not None else []

    def job(self, kind: Kind[Any], key: str) -> Any | None:
        """Return the worker's copy of the manager's job from the cache; None if there is none."""
        jobs = self._seen.jobs.get(kind) if self._seen is not None else None
        return jobs.get(key) if jobs is not None else None

    def serves(self, kind: Kind[Any]) -> bool:
        """Return whether the worker serves a kind of job and lets this manager list its own jobs."""
        return kind in self.served

    async def is_same_cluster(self) -> bool:
        """Return whether the cluster that now responds is the one that the cache was read from.

        Raises:
            ApiError, TransportError: the request fails.
        """
        return self._seen is not None and await self._seen.is_same_cluster()

    @property
    def is_certain(self) -> bool:
        """Whether all cached objects are from one cluster, which still responds."""
        return self._seen is not None and self._seen.is_certain

    @property
    def served(self) -> frozenset[Kind[Any]]:
        """The kinds of jobs that the worker serves to this manager."""
        return self._seen.served if self._seen is not None else frozenset()

    def jobs_of(self, workload: str) -> list[tuple[Kind[Any], Any]]:
        """Return the manager's jobs that name a workload or own its clone. workload: its key."""
        return self._seen.jobs_of(workload) if self._seen is not None else []

    def follow_queues(self) -> Queues | None:
        """Return the cluster's queues and watch them from now on; None while there is no connection."""
        self._queues_wanted = True
        if self._queues is not None:
            self._queues.follow()
        return self._queues

    def keys(self) -> set[str]:
        """Return the keys of all workloads that have a clone or a job in the worker."""
        return self._seen.keys() if self._seen is not None else set()

    def use(self, config: "ConnectionConfig") -> None:
        """Connect with a kubeconfig. A new kubeconfig takes effect at once.

        New credentials for the same server keep the cached state, until they fail.
        """
        if config == self._config:
            return
        if self._config is None or config.cluster != self._config.cluster:
            self._mark_lost(self._around.clock.now())
        self._config = config
        self._cancel_task()
        self._task = asyncio.create_task(self._keep_connected(config), name=f"multikueue-{self.name}")

    def give_up(self, activity: Activity) -> None:
        """Disconnect, because there is no usable kubeconfig. The cluster is lost until it gets one."""
        self._cancel_task()
        self._config = None
        self.client = make_unreachable(activity.message)
        self._mark_lost(self._around.clock.now())
        self._set_activity(activity)

    async def close(self) -> None:
        """Stop watching the cluster."""
        self._cancel_task()
        while self._ending:
            await asyncio.wait(self._ending)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._ending.add(self._task)
            self._task.add_done_callback(self._ending.discard)
            self._task = None

    async def _keep_connected(self, config: "ConnectionConfig") -> None:
        """Connect repeatedly until cancelled."""
        clock, attempts = self._around.clock, 0
        while True:
            since: float | None = None
            try:
                limit = min(FIRST_LIMIT_SECONDS * 2.0 ** min(attempts, 10), MOST_LIMIT_SECONDS)
                async with self._open_client(config) as client, self._make_copies(client) as copies:
                    await copies.wait_until_complete(limit)
                    await self._check_identity(config, copies)
                    since = clock.monotonic()
                    async with self._provide_queues(client):
                        self._mark_connected(client, copies)
                        await self._wait_until_broken(client, copies)
            except BrokenError as error:
                problem, moment = str(error), error.since
            except Exception as error:  # no answer of a worker may stop the engine, whatever it contains
                log.exception("worker cluster %s: its answers cannot be used", self.name)
                problem = one_line(f"its answers cannot be used: {type(error).__name__}: {error}")
                moment = clock.now()
            steady = since is not None and clock.monotonic() - since >= STEADY_SECONDS
            attempts = 0 if steady else attempts + 1
            delay = seconds_until_retry(attempts)
            self._mark_lost(moment)
            self._set_activity(make_lost(problem, attempts, clock.now() + timedelta(seconds=delay)))
            await clock.sleep(delay)

    async def _wait_until_broken(self, client: Client, copies: Copies) -> NoReturn:
        """Wait until a watch breaks or the worker stops responding. Raises `BrokenError`."""
        seconds = self._around.ping_seconds
        pings = [] if seconds is None else [asyncio.create_task(self._ping_repeatedly(client, copies, seconds))]
        try:
            await copies.raise_when_broken()
        finally:
            await cancel(pings)

    async def _ping_repeatedly(self, client: Client, copies: Copies, seconds: float) -> None:
        """Send a small request at an interval, because the watches of a frozen worker are silent but not broken."""
        clock, limit = self._around.clock, max(seconds, LEAST_ANSWER_SECONDS)
        while True:
            await clock.sleep(seconds)
            since = clock.now()
            try:
                await client.raw(Request("GET", "/version", timeout_seconds=limit))
            except ApiError:
                continue  # the cluster responds
            except TransportError as error:
                copies.fail(BrokenError(f"it does not answer: {error}", since))
                return

    @asynccontextmanager
    async def _open_client(self, config: "ConnectionConfig") -> AsyncIterator[Client]:
        """Yield a client with connections of its own, because those of an earlier client may hang.

        Raises `BrokenError` if no connection is possible.
        """
        clock = self._around.clock
        try:
            transport = self._around.reach(config, clock, self._around.random)
        except TransportError as error:
            raise BrokenError(str(error), clock.now()) from None
        try:
            yield Client(transport, field_manager=FIELD_MANAGER, limits=LIMITS)
        finally:
            await transport.close()

    @asynccontextmanager
    async def _provide_queues(self, client: Client) -> AsyncIterator[None]:
        """Provide `queues` inside the context.

        If `queues` was used before, the queues are watched at once, otherwise from the first use.
        """
        async with Queues(self._around, client, self._queued) as queues:
            self._queues = queues
            if self._queues_wanted:
                queues.follow()
            try:
                yield
            finally:
                if self._queues is queues:
                    self._queues = None

    def _make_copies(self, client: Client) -> Copies:
        return Copies(self._around, client, self._note_change, self._note_served_kinds)

    async def _check_identity(self, config: "ConnectionConfig", copies: Copies) -> None:
        """Raise `BrokenError` if the cluster may be another one than before, or if its identity cannot be stored."""
        identity = Identity(copies.uid or "", endpoint_of(config.cluster))
        try:
            problem = await self._register.admit(self.name, identity, lambda workload: bool(copies.jobs_of(workload)))
        except (ApiError, TransportError) as error:
            problem = f"which cluster it is cannot be stored here: {error}"
        if problem:
            raise BrokenError(problem, self._around.clock.now())

    def _mark_connected(self, client: Client, copies: Copies) -> None:
        before, self._seen, self.lost_since = self.keys(), copies, None
        self.client = client
        log.info("worker cluster %s: connected", self.name)
        self.activity = make_connected(copies.refusals)
        self._stands()
        self._notify_workloads(before - copies.keys())

    def _note_served_kinds(self, copies: Copies) -> None:
        if copies is self._seen and self.lost_since is None:
            self.activity = make_connected(copies.refusals)
            self._stands()

    def _mark_lost(self, moment: datetime) -> None:
        if self.lost_since is None:
            self.lost_since = moment
            self._stands()

    def _note_change(self, copies: Copies, key: str) -> None:
        if copies is self._seen:
            self._changed(key)

    def _notify_workloads(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._changed(key)

    def _set_activity(self, activity: Activity) -> None:
        if activity != self.activity:
            if not activity.active:
                log.warning("worker cluster %s: %s", self.name, activity.message)
            self.activity = activity
            self._stands()
