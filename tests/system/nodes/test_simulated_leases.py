"""Simulated nodes that another program than the server plays: each has a Lease, and is renewed before it is lost."""

import asyncio
from datetime import timedelta
from pathlib import Path

from tests.system.plane import running

from muster.api.core import NODE
from muster.api.groups.coordination import LEASE
from muster.api.ours.embedded import SERVER_MACHINE
from muster.cluster.nodes.disk.leftovers import forget_absent
from muster.cluster.nodes.node_object import LEASE_NAMESPACE, LEASE_SECONDS
from muster.cluster.nodes.simulated.leases import RENEW_SECONDS
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.cluster.nodespec import parse
from muster.operator.nodes import add
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager


def test_a_server_that_starts_again_keeps_the_nodes_of_other_programs(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(controllers=False) as plane:
            given, client = plane.inputs, plane.client()
            manager = Manager(client, given.clock, given.random)
            [played] = add(manager, [parse("simulated:2")])
            formerly_own = SimulatedNodes(manager, ["sim-8", "sim-9"], labels={SERVER_MACHINE: "true"})
            manager.add(formerly_own)
            run = asyncio.create_task(manager.run())
            for nodes in (played, formerly_own):
                await nodes.ready.wait()
            await manager.stop()
            await run
            await forget_absent(client, tmp_path, {"sim-8"})
            assert [node.metadata.name for node in (await client.list(NODE)).items] == ["sim-0", "sim-1", "sim-8"]

    run_virtual(body())


def test_leases_are_renewed_in_time_and_end_with_those_who_play() -> None:
    async def body() -> None:
        async with running(controllers=False) as plane:
            given, client = plane.inputs, plane.client()
            manager = Manager(client, given.clock, given.random)
            played = add(manager, [parse("simulated:15,cpu=2"), parse("simulated:15")])
            run = asyncio.create_task(manager.run())
            for nodes in played:
                await nodes.ready.wait()
            await given.clock.sleep(2 * RENEW_SECONDS)
            names = {f"sim-{number}" for number in range(30)}
            assert {node.metadata.name for node in (await client.list(NODE)).items} == names
            for _ in range(10):
                await given.clock.sleep(7)
                leases = (await client.list(LEASE, LEASE_NAMESPACE)).items
                oldest = min(lease.spec.renew_time for lease in leases if lease.spec.renew_time is not None)
                assert {lease.metadata.name for lease in leases} == names
                assert given.clock.now() - oldest < timedelta(seconds=LEASE_SECONDS * 3 / 4)
            writes = plane.store.revision
            await given.clock.sleep(60)
            assert plane.store.revision - writes <= 30 * (60 / RENEW_SECONDS + 1), "three in a minute, and nothing else"
            await client.delete(NODE, "sim-3")
            await client.delete(LEASE, "sim-3", LEASE_NAMESPACE)  # the garbage collector's part
            await given.clock.sleep(60)
            (owner,) = (await client.get(LEASE, "sim-3", LEASE_NAMESPACE)).metadata.owner_references
            assert owner.uid == (await client.get(NODE, "sim-3")).metadata.uid, "it was made again, and lives"
            await manager.stop()
            await run
            writes = plane.store.revision
            await given.clock.sleep(120)
            assert plane.store.revision == writes

    run_virtual(body())
