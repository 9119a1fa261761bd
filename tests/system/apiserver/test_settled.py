"""An answer that rests on the write of another is as durable as that: it comes once that is on disk, or is refused."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.system.apiserver.harness import MAPS, Api, config_map
from tests.system.apiserver.test_https_front import GatedJournal

from muster.cluster.controlplane import control_plane
from muster.cluster.store.errors import StorageFull
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random


class FullJournal(GatedJournal):
    """The same; on a full disk if that is said."""

    full = False

    async def append(self, records):
        await super().append(records)
        if self.full:
            raise StorageFull("the disk")


HELD = {"finalizers": ["example.com/f"]}
CHANGE = {"data": {"a": "1"}}


async def create(api):
    return await api.post(MAPS, config_map())


async def remove(api):
    return await api.delete(f"{MAPS}/m")


async def remove_all(api):
    return await api.delete(MAPS)


async def replace(api):
    return await api.put(f"{MAPS}/m", config_map())


async def change(api):
    return await api.merge(f"{MAPS}/m", CHANGE)


RESTING = {
    # what is there, the write that is not yet on disk, what is asked behind it, the answer
    "what is made is there": (None, create, create, 409),
    "what is deleted is gone": ({}, remove, remove, 404),
    "what is deleted is gone from its collection": ({}, remove, remove_all, 200),
    "what is deleted cannot be replaced": ({}, remove, replace, 404),
    "what is deleted cannot be changed": ({}, remove, change, 404),
    "what is marked needs no other mark": (HELD, remove, remove, 200),
    "what is marked needs no other mark in its collection": (HELD, remove, remove_all, 200),
    "what is so already is not written": ({}, change, change, 200),
}


@asynccontextmanager
async def asked(meta, first, second):
    """The API, its journal that commits nothing yet, and both requests."""
    journal = FullJournal()
    async with control_plane(journal, ExternalInputs(VirtualClock(), Ids(1), Random(1))) as plane:
        api = Api(plane)
        if meta is not None:
            await api.made(MAPS, config_map(**meta))
        journal.gate.clear()
        journal.waiting.clear()
        one = asyncio.create_task(first(api))
        await journal.waiting.wait()
        try:
            yield api, journal, one, asyncio.create_task(second(api))
        finally:
            journal.gate.set()


@pytest.mark.parametrize(("meta", "first", "second", "status"), RESTING.values(), ids=RESTING)
def test_it_comes_once_that_is_on_disk(meta, first, second, status):
    async def scenario():
        async with asked(meta, first, second) as (api, journal, one, other):
            await api.clock.sleep(1)
            assert not other.done()
            journal.gate.set()
            assert (await one).status < 300
            assert (await other).status == status

    run_virtual(scenario())


@pytest.mark.parametrize(("meta", "first", "second", "status"), RESTING.values(), ids=RESTING)
def test_what_never_came_to_be_is_no_answer(meta, first, second, status):
    async def scenario():
        async with asked(meta, first, second) as (api, journal, one, other):
            await api.clock.sleep(1)
            journal.full = True
            journal.gate.set()
            assert [(await one).status, (await other).status] == [507, 507]

    run_virtual(scenario())
