"""Control planes that read from their journal what the first control plane of this process created at its start.

Every cluster begins with the same objects, and to create them takes most of the CPU of a small test. Ids and random
numbers go on as after the creation, so a test sees the same whether it runs first or later.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.cluster.store.journal import History, JournalRecord
from muster.runtime.clock import Clock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random


class _Start(NamedTuple):
    """What a control plane wrote at its first start, and its sources of ids and random numbers after that."""

    records: Sequence[JournalRecord]
    ids: Ids
    random: Random


class _Journal(MemoryJournal):
    """A journal in memory with the records of an earlier start. It remembers what is appended."""

    def __init__(self, records: Sequence[JournalRecord]) -> None:
        self.records = list(records)

    async def open(self) -> History:
        return History(records=tuple(self.records), compacted=0)

    async def append(self, records: Sequence[JournalRecord]) -> None:
        self.records += records


_starts: dict[tuple[int, datetime], _Start] = {}


@asynccontextmanager
async def seeded_plane(clock: Clock, seed: int, *given: Any) -> AsyncIterator[ControlPlane]:
    """Run a control plane on a journal in memory, on a virtual clock.

    given: what `control_plane` takes after its inputs.
    """
    inputs, moment = ExternalInputs(clock, Ids(seed), Random(seed)), clock.now()
    start = _starts.get((seed, moment))
    journal = _Journal(start.records if start else ())
    async with control_plane(journal, inputs, *given) as plane:
        if start is None:
            _starts[seed, moment] = _Start(tuple(journal.records), deepcopy(inputs.ids), deepcopy(inputs.random))
        else:
            vars(inputs.ids).update(vars(deepcopy(start.ids)))
            vars(inputs.random).update(vars(deepcopy(start.random)))
        yield plane
