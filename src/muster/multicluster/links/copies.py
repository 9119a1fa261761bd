"""Watch the objects that this manager created in one worker cluster: clones of workloads, and copies of jobs.

The worker is not trusted: objects without this manager's origin label are ignored, and the size of the cache is
limited.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NoReturn, Self

from muster.api.core import NAMESPACE
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_LABEL, PREBUILT_WORKLOAD_NAME_LABEL
from muster.api.meta import controller_of
from muster.api.status import ApiError
from muster.multicluster.dispatch.clone import is_ours
from muster.multicluster.links.identity import NAMED_BY, uid_of
from muster.multicluster.links.reach import LIMITS, Surroundings
from muster.multicluster.links.sanitizing import add_time_zone, one_line
from muster.multicluster.links.weights import Weights
from muster.runtime.client import Client
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of, meta_of, remove_managed_fields, split_key
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

# A watch that breaks within this time after its start does not count as a recovery.
LASTING_SECONDS = 5.0
# The cluster counts as broken if a watch is not resumed within this time, list included.
RESUMED_SECONDS = 60.0

_BY_WORKLOAD = "workload"


class BrokenError(Exception):
    """A worker that can no longer be watched.

    since: the time of the first failure. The message is one line.
    """

    def __init__(self, problem: str, since: datetime) -> None:
        super().__init__(one_line(problem))
        self.since = since


class _Copy:
    """The cached objects of one kind that this manager created in the worker."""

    def __init__(
        self,
        around: Surroundings,
        client: Client,
        kind: Kind[Any],
        keys: Callable[[Any], Iterable[str]],
        owner: "Copies",
        *,
        optional: bool,
    ) -> None:
        """Create the cache of one kind.

        keys: returns the keys of the workloads to which an object belongs.
        optional: whether the worker may refuse to serve the kind.
        """
        self._around = around
        self._optional = optional
        self._keys = keys
        self._owner = owner
        self.followed = False  # whether the kind is synced, or known not to be served
        self.served = False  # whether the worker serves the kind to this manager
        self.refusal = ""  # the worker's message, if it does not
        self._begun: float | None = None
        self._interrupted: datetime | None = None
        self._late: asyncio.TimerHandle | None = None
        self.weights = Weights(kind)  # the sizes of the cached objects, including those read by earlier clients
        self.informer: Informer[Any] = Informer(
            client,
            kind,
            around.clock,
            around.random,
            labels=f"{MULTI_KUEUE_ORIGIN_LABEL}={around.origin}",
            indexes={_BY_WORKLOAD: keys},
            optional=optional,
            transform=make_cached_form,
            heard=self._on_watch_error,
        )
        self.informer.on_change(self._on_change)

    def get(self, key: str) -> Any | None:
        obj = self.informer.get(key)
        return obj if obj is not None and self._is_ours(obj) else None

    def all(self) -> list[Any]:
        return [obj for obj in self.informer.all() if self._is_ours(obj)]

    def of(self, workload: str, name: str = "") -> list[Any]:
        """Return the cached objects of a workload, and any object with this name in the workload's namespace."""
        if not len(self.informer):  # true of most kinds
            return []
        namespace, _ = split_key(workload)
        objects = {key_of(obj): obj for obj in self.informer.by(_BY_WORKLOAD, workload)}
        if name and (owner := self.informer.get(f"{namespace}/{name}")) is not None:
            objects[key_of(owner)] = owner
        return [obj for obj in objects.values() if self._is_ours(obj)]

    def keys(self) -> set[str]:
        return {key for obj in self.all() for key in self._keys(obj)}

    def _is_ours(self, obj: Any) -> bool:
        return is_ours(meta_of(obj), self._around.origin)

    def _on_change(self, old: Any | None, new: Any | None) -> None:
        self._count_size(old, new)
        for key in {key for obj in (old, new) if obj is not None and self._is_ours(obj) for key in self._keys(obj)}:
            self._owner.report_change(key)

    def _count_size(self, old: Any | None, new: Any | None) -> None:
        self.weights.follow(old, new)
        if len(self.weights) > LIMITS.objects:
            self._break(f"it has more than {LIMITS.objects} {self.informer.kind.plural} of ours")
        if self._owner.size > LIMITS.size:
            self._break(f"what it has of ours takes more than {LIMITS.size >> 20} MiB")

    def _on_watch_error(self, error: ApiError | TransportError | None) -> None:
        """Record that a watch ended with an error, or that a new watch started (None).

        A watch may break. The cluster counts as broken only if the next watch does not last.
        """
        now = self._around.clock.monotonic()
        begun, self._begun = self._begun, None
        if begun is not None and now - begun >= LASTING_SECONDS:
            self._interrupted = None
        self._owner.doubt()
        if error is None or (self._optional and isinstance(error, ApiError) and error.code == 403):
            self._begun, self.followed = now, True
            if self._late is not None:
                self._late.cancel()
            self.served = error is None and self.informer.version != ""  # otherwise the kind does not exist there
            self.refusal = one_line(str(error or ""))
            self._owner.note_watch_started()
        elif not self.followed or self._interrupted is not None:
            self._break(_describe_error(self.informer.kind, error))
        else:
            self._interrupted = self._around.clock.now()
            problem = (
                f"{_describe_error(self.informer.kind, error)}, and not followed again within {RESUMED_SECONDS:g} s"
            )
            self._late = asyncio.get_running_loop().call_later(RESUMED_SECONDS, self._break, problem)

    def _break(self, problem: str) -> None:
        self._owner.fail(BrokenError(problem, self._interrupted or self._around.clock.now()))


class Copies:
    """The cache of the objects that this manager created in one worker cluster.

    The cache is updated from the worker while its context is entered. After that the last state stays readable.
    """

    def __init__(
        self,
        around: Surroundings,
        client: Client,
        on_change: Callable[["Copies", str], None],
        on_served: Callable[["Copies"], None],
    ) -> None:
        """Create the cache.

        on_change: called with a workload's key when one of the workload's cached objects changed.
        on_served: called when `served` or `refusals` changed.
        """

        def copy(kind: Kind[Any], keys: Callable[[Any], Iterable[str]], *, optional: bool = False) -> _Copy:
            return _Copy(around, client, kind, keys, self, optional=optional)

        self.workloads = copy(WORKLOAD, lambda workload: (key_of(workload),))
        self.jobs = {kind: copy(kind, workload_keys, optional=True) for kind in around.kinds}
        self._around = around
        self._notify_change, self._notify_served = on_change, on_served
        self.served: frozenset[Kind[Any]] = frozenset()  # the kinds of jobs that the worker serves to this manager
        self.refusals: tuple[str, ...] = ()  # the worker's messages about the other kinds
        self.uid: str | None = None  # the cluster's UID; None before the answer, "" if the worker does not show it
        self._client = client
        self._all = [self.workloads, *self.jobs.values()]
        self._tasks: list[asyncio.Task[None]] = []
        self._doubts = 0
        self._answers = asyncio.Event()  # set when a watch has begun since the last request for the identity
        self.is_certain = False  # whether all cached objects are from one cluster, and that cluster still answers
        self._complete = asyncio.Event()
        self._end: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(copy.informer.run(), name=copy.informer.name) for copy in self._all]
        self._tasks.append(asyncio.create_task(self._identify(), name="multikueue-identity"))
        for task in self._tasks:
            task.add_done_callback(self._on_task_end)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_certain = False
        await cancel(self._tasks)
        if not self._end.cancel():
            self._end.exception()  # mark the exception as retrieved; it may have been set while the context was ending

    def keys(self) -> set[str]:
        """Return the keys of all workloads that have a clone or a job in the worker."""
        return set().union(*(copy.keys() for copy in self._all))

    @property
    def size(self) -> int:
        """The size of all cached objects as JSON, in bytes."""
        return sum(copy.weights.size for copy in self._all)

    def report_change(self, key: str) -> None:
        """Report a change of a workload's objects."""
        self._notify_change(self, key)

    def jobs_of(self, workload: str) -> list[tuple[Kind[Any], Any]]:
        """Return the jobs that name a workload or own its clone. workload: its key."""
        clone = self.workloads.get(workload)
        owner = controller_of(clone.metadata) if clone is not None else None
        return [
            (kind, job)
            for kind, jobs in self.jobs.items()
            for job in jobs.of(workload, owner.name if owner is not None and kind.is_of(owner) else "")
        ]

    def doubt(self) -> None:
        """Mark the cluster's identity as uncertain, because a new watch may reach another cluster."""
        self.is_certain = False
        self._doubts += 1

    def note_watch_started(self) -> None:
        """Record that a watch has started: the cluster's identity can be read, and the cache may be complete."""
        self._answers.set()
        self.update_served()

    async def _identify(self) -> NoReturn:
        """Read the cluster's identity each time it is uncertain.

        Raises `BrokenError` if it changed or is unreadable.
        """
        while True:
            await self._answers.wait()
            self._answers.clear()
            doubts = self._doubts
            try:
                uid = await uid_of(self._client)
            except (ApiError, TransportError) as error:
                raise BrokenError(_describe_error(NAMESPACE, error), self._around.clock.now()) from None
            if self._is_another(uid):
                raise self._swap_error(uid)
            self.uid = self.uid or uid
            self.is_certain = doubts == self._doubts
            self.update_served()

    async def is_same_cluster(self) -> bool:
        """Return whether the cluster that now responds is the one that the cache was read from.

        Each call sends a request, because the last watch may have ended without a new one.

        Raises:
            ApiError, TransportError: the request fails.
        """
        if self._is_another(uid := await uid_of(self._client)):
            self.fail(self._swap_error(uid))
            return False
        return self.is_certain

    def _is_another(self, uid: str) -> bool:
        return bool(self.uid and uid and uid != self.uid)

    def _swap_error(self, uid: str) -> BrokenError:
        return BrokenError(f"another cluster answers: its {NAMED_BY} is {uid}", self._around.clock.now())

    def update_served(self) -> None:
        """Update `served` and `refusals` if the identity is known and each kind is watched or refused."""
        if self.uid is None or not all(copy.followed for copy in self._all):
            return
        before = self.served, self.refusals
        self.served = frozenset(kind for kind, copy in self.jobs.items() if copy.served)
        self.refusals = tuple(copy.refusal for copy in self._all if copy.refusal)
        self._complete.set()
        if (self.served, self.refusals) != before:
            self._notify_served(self)

    def fail(self, error: BaseException) -> None:
        """Stop the cache with an error, unless it has stopped."""
        if not self._end.done():
            self._end.set_exception(error)

    async def wait_until_complete(self, limit_seconds: float) -> None:
        """Wait until each kind is watched and the identity is known. Raises `BrokenError` or an informer's error."""
        complete = asyncio.create_task(self._complete.wait())
        try:
            ends: list[asyncio.Future[Any]] = [complete, self._end]
            await asyncio.wait(ends, timeout=limit_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel([complete])
        if self._end.done():
            self._end.result()
        if not self._complete.is_set():
            problem = f"not all of it could be read within {limit_seconds:g} s"
            raise BrokenError(problem, self._around.clock.now())

    async def raise_when_broken(self) -> NoReturn:
        """Wait until the cache stops, and raise the error that stopped it, as `wait_until_complete` does."""
        await self._end

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)


def make_cached_form(obj: Any, old: Any = None) -> Any:  # noqa: ARG001  (the signature of a transform)
    """Return an object of a worker as the cache stores it: without managedFields, naive status times in UTC."""
    return add_time_zone(remove_managed_fields(obj))


def workload_keys(job: Any) -> tuple[str, ...]:
    """Return the key of the workload that a job names as its own; empty if it names none."""
    meta = meta_of(job)
    name = meta.annotations.get(PREBUILT_WORKLOAD_NAME_LABEL) or meta.labels.get(PREBUILT_WORKLOAD_NAME_LABEL)
    return (f"{meta.namespace}/{name}",) if name else ()


def _describe_error(kind: Kind[Any], error: ApiError | TransportError) -> str:
    if not isinstance(error, ApiError):
        return str(error)
    if error.code == 401:
        return f"the cluster does not know the user of the kubeconfig: {error}"
    if error.code == 404:
        return f"the cluster serves no {kind.resource} at {kind.version}: neither Kueue nor Muster is there"
    return str(error) or f"{error.reason or 'HTTP'} {error.code}"
