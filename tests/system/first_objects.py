"""Control planes that read from their journal what the first control plane of this process created at its start.

Every cluster begins with the same objects, and to create them takes most of the CPU of a small test. Ids and random
numbers go on as after the creation, so a test sees the same whether it runs first or later.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import copy
from datetime import datetime
from typing import Any, NamedTuple

from muster.api.config import EMBEDDED, Configuration
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.controlplane import ControlPlane, MakeDefinitions, control_plane
from muster.cluster.store import MemoryJournal
from muster.cluster.store.journal import History, JournalRecord
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.table import INTEGRATIONS
from muster.runtime.clock import Clock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random


class _Conditions(NamedTuple):
    """What the first objects of a control plane depend on."""

    seed: int
    moment: datetime
    configuration: Configuration
    make_definitions: MakeDefinitions


class _Start(NamedTuple):
    """What a control plane wrote at its first start, and its sources of ids and random numbers after that."""

    conditions: _Conditions
    records: Sequence[JournalRecord]
    ids: dict[str, Any]
    random: dict[str, Any]


class _Journal(MemoryJournal):
    """A journal in memory with the records of an earlier start. It remembers what is appended."""

    def __init__(self, records: Sequence[JournalRecord]) -> None:
        self.records = list(records)

    async def open(self) -> History:
        return History(records=tuple(self.records), compacted=0)

    async def append(self, records: Sequence[JournalRecord]) -> None:
        self.records += records


_starts: list[_Start] = []


@asynccontextmanager
async def seeded_plane(
    clock: Clock,
    seed: int,
    configuration: Configuration = EMBEDDED,
    trust: Callable[[], Trust] = Trust,
    integrations: Sequence[Integration[Any]] = INTEGRATIONS,
    make_definitions: MakeDefinitions = tuple,
) -> AsyncIterator[ControlPlane]:
    """Run a control plane on a journal in memory, on a virtual clock. The other arguments are those of `control_plane`.

    seed: of ids and random numbers.
    """
    inputs = ExternalInputs(clock, Ids(seed), Random(seed))
    conditions = _Conditions(seed, clock.now(), configuration, make_definitions)
    start = next((start for start in _starts if start.conditions == conditions), None)
    journal = _Journal(start.records if start else ())
    async with control_plane(journal, inputs, configuration, trust, integrations, make_definitions) as plane:
        if start is None:
            ids, random = _copy_parts(vars(inputs.ids)), _copy_parts(vars(inputs.random))
            _starts.append(_Start(conditions, tuple(journal.records), ids, random))
        else:
            vars(inputs.ids).update(_copy_parts(start.ids))
            vars(inputs.random).update(_copy_parts(start.random))
        yield plane


def _copy_parts(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: copy(part) for name, part in parts.items()}
