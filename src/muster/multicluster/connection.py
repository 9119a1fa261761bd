"""One worker cluster as its manager sees it: a client, and copies of what is the manager's there.

`RemoteCluster` supervises itself: whatever a worker answers, or does not, becomes a sentence in `activity`, and never
an error of the engine. It is *connected* once all its copies are complete and followed, and *lost* as soon as one of
them is broken off and cannot be followed again at once. What was known then stays: unreachable is not absent.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from muster.api.kinds import Kind
from muster.api.kueue import Workload
from muster.api.status import ApiError
from muster.multicluster.activity import connected, lost, retry_after
from muster.multicluster.copies import BrokenError, Copies
from muster.multicluster.identity import Identity, Register, endpoint_of
from muster.multicluster.queues import Queues
from muster.multicluster.reach import LIMITS, Surroundings, unreachable
from muster.multicluster.words import one_line
from muster.queueing.pending.activity import Activity
from muster.runtime.client import Client
from muster.runtime.transport import TransportError

if TYPE_CHECKING:
    from muster.runtime.kube.kubeconfig import ConnectionConfig

# For all copies to be complete, doubled with each try (upstream's).
FIRST_LIMIT_SECONDS, MOST_LIMIT_SECONDS = 60.0, 600.0
# A connection that broke sooner was none: what follows is another try, not a first one.
STEADY_SECONDS = 60.0

FIELD_MANAGER = "muster-multikueue"

log = logging.getLogger(__name__)


class RemoteCluster:
    """A worker cluster.

    client: writes to it; what is asked while it is lost fails.
    lost_since: None while it is connected. A worker that was never connected counts as lost since it was made.
    activity: of its condition Active, once that is known.
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
        """changed: told the key of a workload of which something changed there. stands: told that this one has.

        queued: told that its queues have, once they are wanted.
        """
        self.name = name
        self.lost_since: datetime | None = around.clock.now()
        self.activity: Activity | None = None
        self.client = unreachable("there is no connection yet")
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
        """The clone of the manager's workload, as last seen."""
        return self._seen.workloads.get(key) if self._seen is not None else None

    def workloads(self) -> list[Workload]:
        """All clones."""
        return self._seen.workloads.all() if self._seen is not None else []

    def job(self, kind: Kind[Any], key: str) -> Any | None:
        """The manager's job of that kind, as last seen."""
        jobs = self._seen.jobs.get(kind) if self._seen is not None else None
        return jobs.get(key) if jobs is not None else None

    def serves(self, kind: Kind[Any]) -> bool:
        """Whether there can be jobs of a kind: the worker has such, and shows us ours."""
        return kind in self.served

    async def is_itself(self) -> bool:
        """Whether the cluster that answers now is the one that has been followed. Raises as a request does."""
        return self._seen is not None and await self._seen.is_itself()

    @property
    def served(self) -> frozenset[Kind[Any]]:
        """The kinds of jobs that there can be."""
        return self._seen.served if self._seen is not None else frozenset()

    def jobs_of(self, workload: str) -> list[tuple[Kind[Any], Any]]:
        """The manager's jobs that name a workload as theirs, or own its clone; `workload` is a key."""
        return self._seen.jobs_of(workload) if self._seen is not None else []

    def queues(self) -> Queues | None:
        """Its queues, which are followed from now on; None while there is no connection."""
        self._queues_wanted = True
        if self._queues is not None:
            self._queues.follow()
        return self._queues

    def keys(self) -> set[str]:
        """The keys of all workloads that have a clone or a job there."""
        return self._seen.keys() if self._seen is not None else set()

    def use(self, config: "ConnectionConfig") -> None:
        """Connect as a kubeconfig says, at once if it says something new.

        Other credentials for the same server change nothing about what is known of it, until they fail.
        """
        if config == self._config:
            return
        if self._config is None or config.cluster != self._config.cluster:
            self._lose(self._around.clock.now())
        self._config = config
        self._end()
        self._task = asyncio.create_task(self._keep(config), name=f"multikueue-{self.name}")

    def give_up(self, activity: Activity) -> None:
        """There is no kubeconfig that can be used: it is lost until there is."""
        self._end()
        self._config = None
        self.client = unreachable(activity.message)
        self._lose(self._around.clock.now())
        self._say(activity)

    async def close(self) -> None:
        """Follow it no more."""
        self._end()
        while self._ending:
            await asyncio.wait(self._ending)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._ending.add(self._task)
            self._task.add_done_callback(self._ending.discard)
            self._task = None

    async def _keep(self, config: "ConnectionConfig") -> None:
        """Connect, again and again, until cancelled."""
        clock, attempts = self._around.clock, 0
        while True:
            since: float | None = None
            try:
                limit = min(FIRST_LIMIT_SECONDS * 2.0 ** min(attempts, 10), MOST_LIMIT_SECONDS)
                async with self._client(config) as client, self._copies(client) as copies:
                    await copies.complete(limit)
                    await self._admit(config, copies)
                    since = clock.monotonic()
                    async with self._following(client):
                        self._found(client, copies)
                        await copies.broken()
            except BrokenError as error:
                problem, moment = str(error), error.since
            except Exception as error:  # a worker's answers must not end the engine, whatever is in them
                log.exception("worker cluster %s: its answers cannot be used", self.name)
                problem = one_line(f"its answers cannot be used: {type(error).__name__}: {error}")
                moment = clock.now()
            steady = since is not None and clock.monotonic() - since >= STEADY_SECONDS
            attempts = 0 if steady else attempts + 1
            delay = retry_after(attempts)
            self._lose(moment)
            self._say(lost(problem, attempts, clock.now() + timedelta(seconds=delay)))
            await clock.sleep(delay)

    @asynccontextmanager
    async def _client(self, config: "ConnectionConfig") -> AsyncIterator[Client]:
        """A client with connections of its own: those of before may hang."""
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
    async def _following(self, client: Client) -> AsyncIterator[None]:
        """The queues, if they are wanted or once they are."""
        async with Queues(self._around, client, self._queued) as queues:
            self._queues = queues
            if self._queues_wanted:
                queues.follow()
            try:
                yield
            finally:
                if self._queues is queues:
                    self._queues = None

    def _copies(self, client: Client) -> Copies:
        return Copies(self._around, client, self._told, self._served)

    async def _admit(self, config: "ConnectionConfig", copies: Copies) -> None:
        """It is used only as the cluster that it was. Raises `BrokenError`."""
        found = Identity(copies.uid or "", endpoint_of(config.cluster))
        try:
            problem = await self._register.admit(self.name, found, lambda workload: bool(copies.jobs_of(workload)))
        except (ApiError, TransportError) as error:
            problem = f"which cluster it is cannot be stored here: {error}"
        if problem:
            raise BrokenError(problem, self._around.clock.now())

    def _found(self, client: Client, copies: Copies) -> None:
        before, self._seen, self.lost_since = self.keys(), copies, None
        self.client = client
        log.info("worker cluster %s: connected", self.name)
        self.activity = connected(copies.refusals)
        self._stands()
        self._tell(before - copies.keys())

    def _served(self, copies: Copies) -> None:
        if copies is self._seen and self.lost_since is None:
            self.activity = connected(copies.refusals)
            self._stands()

    def _lose(self, moment: datetime) -> None:
        if self.lost_since is None:
            self.lost_since = moment
            self._stands()

    def _told(self, copies: Copies, key: str) -> None:
        if copies is self._seen:
            self._changed(key)

    def _tell(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._changed(key)

    def _say(self, activity: Activity) -> None:
        if activity != self.activity:
            if not activity.active:
                log.warning("worker cluster %s: %s", self.name, activity.message)
            self.activity = activity
            self._stands()
