"""Watch the queues of one worker cluster over one connection: its LocalQueues, and the ClusterQueues behind them.

The watches start at the first request for queues. A worker may refuse to list its queues.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, ClusterQueue, LocalQueue
from muster.api.status import ApiError
from muster.multicluster.links.reach import Surroundings
from muster.multicluster.links.sanitizing import one_line
from muster.multicluster.links.weights import Weights
from muster.runtime.client import Client
from muster.runtime.informer import Informer
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

# The limits of both kinds together, as JSON, because a worker may send anything.
MOST_QUEUES, MOST_BYTES = 20_000, 64 << 20

log = logging.getLogger(__name__)


class Queues:
    """The queues of a worker, watched within the context after `follow` was called."""

    def __init__(self, around: Surroundings, client: Client, changed: Callable[[], None]) -> None:
        """Make the view of a worker's queues.

        changed: called when a queue is added or deleted or its spec changes, but not when only its usage changes.
        """
        self._changed, self._clock = changed, around.clock
        self._tasks: list[asyncio.Task[None]] = []
        self._refusals: dict[str, str] = {}  # by kind, why the worker refuses it; "" if it does not
        follow = partial(Informer[Any], client, clock=around.clock, random=around.random, optional=True)
        self._local: Informer[LocalQueue] = follow(LOCAL_QUEUE, heard=partial(self._on_watch_error, LOCAL_QUEUE.plural))
        self._behind: Informer[ClusterQueue] = follow(
            CLUSTER_QUEUE, heard=partial(self._on_watch_error, CLUSTER_QUEUE.plural)
        )
        self._weights: list[Weights] = []
        for informer in (self._local, self._behind):
            self._weights.append(weights := Weights(informer.kind))
            informer.on_change(weights.follow)
            informer.on_change(self._on_change)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel(self._tasks)

    def follow(self) -> None:
        """Start to watch the queues. Do nothing if they are watched already."""
        if not self._tasks:
            informers: tuple[Informer[Any], ...] = (self._local, self._behind)
            self._tasks = [asyncio.create_task(one.run(), name=one.name) for one in informers]
            for task, one in zip(self._tasks, informers, strict=True):
                task.add_done_callback(partial(self._on_task_end, one.kind.plural))

    @property
    def known(self) -> bool:
        """Whether the worker has listed its queues or has refused to."""
        return len(self._refusals) == len((self._local, self._behind))

    @property
    def refusal(self) -> str:
        """Why the worker refuses to list its queues; "" if it does not refuse."""
        return next(filter(None, self._refusals.values()), "")

    def behind(self, keys: Iterable[str]) -> tuple[ClusterQueue, ...]:
        """Return the ClusterQueues of the LocalQueues with these keys, each once, sorted by name."""
        local = (self._local.get(key) for key in keys)
        names = sorted({queue.spec.cluster_queue for queue in local if queue is not None})
        queues = (self._behind.get(name) for name in names)
        return tuple(queue for queue in queues if queue is not None)

    def _on_change(self, old: Any | None, new: Any | None) -> None:
        if sum(map(len, self._weights)) > MOST_QUEUES:
            raise OverflowError(f"there are more than {MOST_QUEUES}")
        if sum(weights.size for weights in self._weights) > MOST_BYTES:
            raise OverflowError(f"they take more than {MOST_BYTES >> 20} MiB")
        if old is None or new is None or old.spec != new.spec:
            self._changed()

    def _on_watch_error(self, kind: str, error: ApiError | TransportError | None) -> None:
        """Handle a broken watch: keep the cached state, unless the worker refuses to list the kind.

        error: None if a watch has started.
        """
        if error is None:
            informer = self._local if kind == LOCAL_QUEUE.plural else self._behind
            self._set_refusal(kind, "" if informer.version else f"it serves no {kind}")
        elif isinstance(error, ApiError) and error.code == 403:
            self._set_refusal(kind, one_line(str(error)))

    def _on_task_end(self, kind: str, task: asyncio.Task[None]) -> None:
        """Record the failure of an informer, so that no response of a worker stops the engine."""
        if not task.cancelled() and (error := task.exception()) is not None:
            problem = one_line(f"its {kind} cannot be followed: {error}")
            log.error("of a worker cluster: %s", problem)
            self._set_refusal(kind, problem)

    def _set_refusal(self, kind: str, refusal: str) -> None:
        if self._refusals.get(kind) != refusal:
            self._refusals[kind] = refusal
            self._changed()
