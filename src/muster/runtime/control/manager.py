"""Start the parts of a process in order, and stop them in order.

The informers start first. When each has its first list, the added parts start in the order of adding. The manager stops
them in reverse order, so that the parts on which others depend (events, caches) stop last. No part fails silently: when
a part ends before it was stopped, the manager stops all parts and `run` raises the error.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.runtime.cache import Transform
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.control.controller import Controller, Reconcile
from muster.runtime.control.lanes import Lane
from muster.runtime.control.queue import namespace_of
from muster.runtime.ids import Random
from muster.runtime.informer import Informer, Outage
from muster.runtime.metrics import Registry
from muster.runtime.objects import remove_managed_fields
from muster.runtime.tasks import cancel

T = TypeVar("T")

_Where: TypeAlias = tuple[str, str, str]  # namespace, and selectors of labels and of fields

# A part whose `stop` takes longer than this is cancelled; more than a controller's own limit.
STOP_LIMIT_SECONDS = 45.0

log = logging.getLogger(__name__)


class Runnable(Protocol):
    """A component that a `Manager` runs.

    `run` works until `stop` is called, and may finish the work that it has started; or it runs for ever.
    """

    @property
    def name(self) -> str:
        """The name in logs and errors."""
        ...

    async def run(self) -> None:
        """Work until `stop`. Returning before `stop` was called is an error."""
        ...

    async def stop(self) -> None:
        """Ask `run` to return soon, and wait for its pending writes."""
        ...


class Manager:
    """The owner of the informers and parts of one process, all on one event loop."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        registry: Registry | None = None,
        transform: Transform = remove_managed_fields,
        stop_limit_seconds: float = STOP_LIMIT_SECONDS,
    ) -> None:
        """Make a manager without parts.

        registry: contains the metrics of the parts; None for a new one.
        transform: returns the form in which informers store an object.
        stop_limit_seconds: how long `stop` waits for each part.
        """
        self.client = client
        self.clock = clock
        self.random = random
        self.registry = registry or Registry()
        self.ready = asyncio.Event()
        self._transform = transform
        self._outage = Outage()
        self._stop_limit = stop_limit_seconds
        self._informers: dict[tuple[Kind[Any], *_Where], Informer[Any]] = {}
        self._shared: dict[
            tuple[Kind[Object], *_Where], Informer[Any]
        ] = {}  # object informers that serve metadata-only callers too
        self._following: dict[Informer[Any], asyncio.Task[None]] = {}
        self._parts: list[Runnable] = []
        self._started: list[tuple[Runnable, asyncio.Task[None]]] = []
        self._tasks: dict[asyncio.Task[None], None] = {}  # the running tasks, in order of their start
        self._running = False
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._has_grace = True  # whether a stop waits for the parts' unfinished work
        self._failure: BaseException | None = None

    def informer(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        optional: bool = False,
    ) -> Informer[T]:
        """Return the informer of that kind, namespace and selectors.

        Calls with the same arguments return the same informer.

        indexes: added to the shared informer.
        optional: whether the start need not wait for a kind that the server does not serve. It suffices that one caller
        sets it.

        Before `run`, callers that need only metadata share the informer of callers that need whole objects. After that,
        an informer may be for a kind that is forgotten later, so it is not shared in this way.
        """
        where = (namespace, labels, fields)
        informer = self._informers.get((kind, *where))
        if informer is None:
            informer = self._make_follower(kind, where)
            self._informers[kind, *where] = informer
        informer.optional |= optional
        for name, function in (indexes or {}).items():
            informer.add_index(name, function)
        return informer

    def _make_follower(self, kind: Kind[Any], where: _Where) -> Informer[Any]:
        """Return an informer for objects that no informer with the same kind and selectors follows yet.

        If an informer already follows the same objects with more or less of their fields, both share the one with more
        fields.
        """
        metadata = (kind.seen_as(Object), *where)
        shares = kind.type is not dict and not self._running
        known = self._shared.get(metadata) if shares else None
        if known is not None and Object in (kind.type, known.kind.type):
            known.kind = kind if known.kind.type is Object else known.kind
            return known
        namespace, labels, fields = where
        follower = Informer(
            self.client, kind, self.clock, self.random, namespace=namespace, labels=labels, fields=fields,
            transform=self._transform, outage=self._outage,
        )  # fmt: skip
        if shares:
            self._shared.setdefault(metadata, follower)
        if self._running:
            self._follow(follower)
        return follower

    def forget(self, kind: Kind[Any], *, namespace: str = "", fields: str = "") -> None:
        """Stop following a kind that is no longer served, or only its informers with this namespace and selector.

        These informers keep their objects, get no updates, and count as synced.
        """
        part = namespace or fields
        for key in [key for key in self._informers if key[0] == kind]:
            if part and key[1:] != (namespace, "", fields):
                continue
            informer = self._informers.pop(key)
            informer.synced.set()  # nothing will come, so nothing waits for it
            if task := self._following.pop(informer, None):
                task.cancel()

    @property
    def awaited(self) -> list[str]:
        """The resources for whose first list the start still waits."""
        unknown = (informer for informer in self._informers.values() if not informer.synced.is_set())
        return sorted({informer.kind.resource for informer in unknown})

    @property
    def trouble(self) -> str:
        """The last failure to list the first of the awaited resources, by name; "" without a failure."""
        unknown = (each for each in self._informers.values() if not each.synced.is_set())
        return next((each.trouble for each in sorted(unknown, key=lambda each: each.kind.resource) if each.trouble), "")

    def unready(self) -> str:
        """Return why the start is not complete, as text; "" if everything has started."""
        if self.ready.is_set():
            return ""
        why = f": {self.trouble}" if self.trouble else ""
        return f"waiting for {', '.join(self.awaited) or 'its parts to start'}{why}"

    def controller(
        self, name: str, reconcile: Reconcile, *, workers: int = 1, lane: Callable[[str], Lane] = namespace_of
    ) -> Controller:
        """Return a controller with metrics in this manager's registry. The caller runs it."""
        observer = self.registry.controller(name)
        return Controller(name, reconcile, self.clock, self.random, workers=workers, observer=observer, lane=lane)

    def add(self, part: Runnable) -> None:
        """Add a part to run. Call it only before `run`."""
        assert not self._running, "parts are added before the manager runs"
        self._parts.append(part)

    async def run(self) -> None:
        """Start everything and keep it running until `stop`, cancellation, or the first failure, which is raised."""
        assert not self._running, "a manager runs once"
        self._running = True
        starting = asyncio.create_task(self._start_all(), name="manager-start")
        try:
            self._supervise(starting, "start of the manager", may_end=True)
            await self._stopping.wait()
        finally:
            self._stopping.set()
            await cancel([starting])
            try:
                # A task of its own: before Python 3.11.3, `asyncio.timeout` does not work in one that was cancelled.
                await asyncio.create_task(self._stop_all(), name="manager-stop")
            finally:
                self._stopped.set()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Stop all parts, in order; return when all have stopped. Do nothing if `run` was never called."""
        self._stopping.set()
        if self._running:
            await self._stopped.wait()

    def skip_grace(self) -> None:
        """Let the next `stop` not wait for pending work of the parts: none of their requests can be sent now."""
        self._has_grace = False

    async def _start_all(self) -> None:
        informers = list(dict.fromkeys(self._informers.values()))
        for informer in informers:
            self._follow(informer)
        for informer in informers:
            await informer.synced.wait()
        for part in self._parts:
            self._started.append((part, self._start(part.run(), part.name)))
        self.ready.set()

    def _follow(self, informer: Informer[Any]) -> None:
        self._following[informer] = self._start(informer.run(), informer.name, may_end=True)

    def _start(self, work: Coroutine[Any, Any, None], name: str, *, may_end: bool = False) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        self._supervise(task, name, may_end=may_end)
        return task

    def _supervise(self, task: asyncio.Task[None], name: str, *, may_end: bool = False) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is None and (may_end or self._stopping.is_set()):
                return
            self._failure = self._failure or error or RuntimeError(f"{name} ended before it was stopped")
            log.error("%s failed, stopping: %s", name, self._failure, exc_info=error)
            self._stopping.set()

        task.add_done_callback(ended)

    async def _stop_all(self) -> None:
        for part, task in reversed(self._started):
            try:
                async with asyncio.timeout(self._stop_limit if self._has_grace else 0):
                    await part.stop()
                    await asyncio.wait([task])
            except TimeoutError:
                if self._has_grace:
                    log.warning("%s did not stop within %g s", part.name, self._stop_limit)
            await cancel([task])
        await cancel(self._tasks)
