"""Record every run of a job in the history after it has finished, for `muster history`.

A run is recorded after the write that finished it was acknowledged, and many runs share one write. A restarted server
finds the runs that a killed server had not recorded: finished jobs still exist, and the store keeps the last state of
deleted jobs for minutes.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.cluster.controllers.history.runs import Runs, Source
from muster.cluster.gathering import GatheringLoop
from muster.cluster.store import Compacted, Store
from muster.cluster.store.history import HistoryError, Row
from muster.cluster.store.historyworker import History
from muster.insight.history.runs import Run
from muster.runtime.control.manager import Manager

T = TypeVar("T")

# Runs that finish within this time share one write.
GATHER_SECONDS = 0.2
# The maximum number of runs per write: some 10 ms of the event loop.
_AT_ONCE = 100
# A query includes all runs that had finished before it, unless the cluster is too busy to catch up within this time.
_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.005

_FOLLOWED: tuple[Kind[Any], ...] = (JOB_SET, JOB, WORKLOAD, POD)

log = logging.getLogger(__name__)


class Retention(msgspec.Struct, frozen=True):
    """The bounds on the runs in the history. The newest runs are kept.

    age: the maximum time since a run finished.
    most: the maximum number of runs.
    """

    age: timedelta
    most: int


class Recorder:
    """The controller that writes finished runs into the history. A `Manager` runs it."""

    name = "history"

    def __init__(self, manager: Manager, store: Store, history: History, retention: Retention) -> None:
        self._manager, self._store, self._history, self._retention = manager, store, history, retention
        self._clock = manager.clock
        self._loop = GatheringLoop(self.write, HistoryError, GATHER_SECONDS)
        self._runs = Runs(manager, self._loop.wake)
        self._unwritten: dict[str, Run] = {}
        self._writing = asyncio.Lock()
        self._newest: dict[str, int] = {}
        for kind in _FOLLOWED:
            store.listen(kind.resource, lambda change: self._on_committed(change.entry.key.resource, change.revision))

    def _on_committed(self, resource: str, revision: int) -> None:
        self._newest[resource] = revision

    async def run(self) -> None:
        """Record the jobs that were deleted while no server ran, then write finished runs until `stop`."""
        async with self._writing:  # recorded runs are not written again
            gone: list[Source] = [*self._list_deleted(JOB_SET), *self._list_deleted(JOB), *self._list_deleted(WORKLOAD)]
            self._runs.add_deleted(gone, self._list_deleted(POD))
            self._runs.follow()
            try:
                self._runs.mark_known(await self._history.find_known(self._runs.due))
            except HistoryError as error:  # nothing depends on the history
                log.warning("%s", error)
        await self._loop.run()

    async def stop(self) -> None:
        """Stop `run` after one last write."""
        await self._loop.stop()

    async def write(self) -> None:
        """Write all finished runs, and remove runs that are too old or too many. Raises `HistoryError`."""
        async with self._writing:
            while self._unwritten or self._runs.due:
                self._unwritten |= {run.uid: run for run in self._runs.take(_AT_ONCE)}
                oldest = int((self._clock.now() - self._retention.age).timestamp())
                rows = [row_of(run) for run in self._unwritten.values()]
                if rows:
                    await self._history.put(rows, oldest=oldest, most=self._retention.most)
                self._unwritten.clear()

    async def caught_up(self) -> None:
        """Write all runs that had finished before this call.

        Wait a limited time for their events to arrive. Raises `HistoryError`.
        """
        wanted = dict(self._newest)
        until = self._clock.monotonic() + _PATIENCE_SECONDS
        while self._is_behind(wanted) and self._clock.monotonic() < until:
            await self._clock.sleep(_LOOK_SECONDS)
        await self.write()

    def _is_behind(self, latest: dict[str, int]) -> bool:
        versions = {kind.resource: self._manager.informer(kind).version for kind in _FOLLOWED}
        return any(versions[name].isdecimal() and int(versions[name]) < revision for name, revision in latest.items())

    def _list_deleted(self, kind: Kind[T]) -> list[T]:
        """Return the last states of deleted objects of this kind, as far as the store still has them."""
        try:
            watch = self._store.watch(kind.resource, self._store.oldest)
        except Compacted as compacted:  # this resource has had more changes than the store keeps
            watch = self._store.watch(kind.resource, compacted.oldest)
        deleted = []
        for change in watch.take():
            if change.type == "DELETED":
                try:
                    deleted.append(kind.decode(change.entry.body))
                except msgspec.MsgspecError as error:
                    log.warning("%s cannot be read, and leaves no record: %s", change.entry.key, error)
        return deleted


def row_of(run: Run) -> Row:
    """Return a run as a row of the history's table."""
    submitted, ended = int(run.submitted.timestamp()), int(run.ended.timestamp())
    body = msgspec.json.encode(run)
    return Row(run.uid, run.namespace, run.name, run.owner, run.queue, run.state, submitted, ended, body)
