"""The network of process nodes keeps the hosts files of pods, and ends at once."""

import asyncio
from pathlib import Path

from tests.unit.runtime.conftest import ScriptedTransport

from muster.api.core import Pod
from muster.api.meta import ObjectMeta
from muster.cluster.nodes.network.addresses import Addresses
from muster.cluster.nodes.network.network import Network
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random


def test_a_network_that_has_just_written_its_files_ends_at_once(tmp_path: Path) -> None:
    """The last pod of a job has just changed when its cluster ends, and the user waits for the prompt."""
    hosts = tmp_path / "hosts"

    async def main() -> float:
        clock = VirtualClock()
        network = Network(
            Manager(Client(ScriptedTransport()), clock, Random(seed=1)), Addresses(), machine_hosts=tmp_path / "no"
        )
        network.enter(Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u")), hosts)
        running = asyncio.create_task(network.run())
        hosts.unlink()
        network.join("node")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert hosts.exists()
        started = clock.monotonic()
        await network.stop()
        await running
        return clock.monotonic() - started

    assert run_virtual(main()) == 0
