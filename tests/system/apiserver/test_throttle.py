"""Beside another active namespace few writes of a namespace are worked on at a time; any number wait for the disk."""

import asyncio

from tests.system.apiserver.harness import MAPS, NAMESPACES, Api, config_map
from tests.system.apiserver.test_https_front import GatedJournal

from muster.cluster.apiserver.throttle import FEW, LONGEST_SECONDS
from muster.cluster.controlplane import control_plane
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random

OTHER = f"{NAMESPACES}/kube-system/configmaps"
MANY = 100


def test_more_than_few_writes_wait_for_one_flush():
    async def scenario():
        journal = GatedJournal()
        async with control_plane(journal, ExternalInputs(VirtualClock(), Ids(1), Random(1))) as plane:
            api = Api(plane)
            await api.made(OTHER, config_map())
            journal.gate.clear()
            writes = [asyncio.create_task(api.post(MAPS, config_map(f"m-{number}"))) for number in range(MANY)]
            await api.clock.sleep(LONGEST_SECONDS / 2)
            assert len(api.store.pending("configmaps", "default")) == MANY
            journal.gate.set()
            assert {answer.status for answer in await asyncio.gather(*writes)} == {201}

    run_virtual(scenario())


def test_a_write_of_another_namespace_goes_ahead_of_them():
    async def scenario():
        journal = GatedJournal()
        async with control_plane(journal, ExternalInputs(VirtualClock(), Ids(1), Random(1))) as plane:
            api = Api(plane)
            before = int((await api.made(OTHER, config_map()))["metadata"]["resourceVersion"])
            flood = [asyncio.create_task(api.post(MAPS, config_map(f"m-{number}"))) for number in range(MANY)]
            small = await api.made(OTHER, config_map("small"))
            assert int(small["metadata"]["resourceVersion"]) - before <= 2 * FEW
            await asyncio.gather(*flood)

    run_virtual(scenario())
