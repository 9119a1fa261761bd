"""No pod runs on when the server gives its place away: both sides of the promise at once, over a bad network.

In virtual time. The shims' half, which is in seconds of the machine, is in tests/e2e/nodes/test_node_shims.py.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from tests.system.nodes.test_nodelifecycle import bound_pod
from tests.system.plane import World, running, settings

from muster.api.core import NODE, POD, Pod
from muster.api.nodes import has_taint
from muster.cluster.controllers.nodes.nodehealth import compute_patience
from muster.cluster.nodes import node_object
from muster.cluster.nodes.fence import can_take_pods, must_end_pod, seconds_until_replaced
from muster.cluster.nodes.gpus.holding import Gpus
from muster.cluster.nodes.heartbeat import Heartbeat
from muster.cluster.nodes.machine import machine
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.tasks import cancel
from muster.runtime.transport import Request, Response, Transport, TransportError

NAME, BEARS = "box", 20.0


class BadNetwork:
    """Carries requests, or loses them, or their answers; or lets them wait."""

    def __init__(self, inner: Transport, random: Random) -> None:
        self._inner, self._random = inner, random
        self.bad = 0.0  # how much of it is lost

    async def request(self, request: Request) -> Response:
        if self._random.random() < self.bad:
            await self._lose()
        answer = await self._inner.request(request)
        if self._random.random() < self.bad / 2:
            await self._lose()
        return answer

    async def _lose(self) -> None:
        await asyncio.sleep(self._random.choice([0.0, 3.0, 3600.0]))
        raise TransportError("lost")

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize("seed", range(12))
def test_a_pod_has_ended_before_it_is_written_off(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    lease, grace = random.choice([4, 10, 40]), random.choice([1, 10, 50])

    async def body() -> None:
        text = f"muster: {{nodes: {{monitorGracePeriod: {grace}s, defaultTolerationSeconds: {BEARS:g}}}}}"
        async with running(configuration=settings(text), seed=seed + 1) as plane:
            world = World(plane)
            await world.node("other")
            network = BadNetwork(plane.client().transport, random)
            client, clock = Client(network), world.clock
            found, ours = machine.discover(tmp_path), (Gpus(()), "identity", "holder", lease)
            heartbeat = Heartbeat(client, clock, NAME, found, {"cpu": "3"}, (tmp_path,), "10.1.2.3", 0, *ours)
            await heartbeat.register()
            beats = asyncio.create_task(heartbeat.run())
            tolerations = [{"key": node_object.TAINT.key, "operator": "Exists"}]
            await bound_pod(world, "p", NAME, tolerations=tolerations)
            gone_at: list[float] = []

            def changed(old: Pod | None, new: Pod | None) -> None:
                if old is not None and (new is None or new.status.phase == "Failed") and not gone_at:
                    gone_at.append(clock.monotonic())
                    silent = heartbeat.silent_seconds()
                    assert seconds_until_replaced(old) == BEARS
                    assert silent > BEARS + lease, "its shims have killed it by then"
                    assert must_end_pod(old, silent, lease)

            plane.manager.informer(POD).on_change(changed)
            for _ in range(12):
                network.bad = random.choice([0.0, 0.5, 0.9, 1.0, 1.0])
                await clock.sleep(random.uniform(0, 2 * (lease + grace + BEARS)))
            network.bad = 1.0
            await clock.sleep(1.25 * lease + grace + BEARS + 15)
            assert gone_at, "a lost pod does not stay for ever"
            assert await world.client.find(POD, "p", "default") is None
            network.bad = 0.0
            await clock.sleep(2 * lease)
            there = await world.client.get(NODE, NAME)
            assert not has_taint(there, "node.kubernetes.io/unreachable"), "the node is back"
            await cancel([beats])

    run_virtual(body())


@pytest.mark.parametrize("frozen", [9.0, 21.0, 26.0, 300.0])
def test_a_pod_that_comes_to_an_agent_that_wakes_up_has_its_whole_time(tmp_path: Path, frozen: float) -> None:
    lease = 8

    async def body() -> None:
        async with running(configuration=settings("muster: {nodes: {monitorGracePeriod: 12s}}")) as plane:
            world, network = World(plane), BadNetwork(plane.client().transport, Random(1))
            clock, found = plane.inputs.clock, machine.discover(tmp_path)
            ours = (Gpus(()), "identity", "holder", lease)
            heartbeat = Heartbeat(Client(network), clock, NAME, found, {"cpu": "3"}, (tmp_path,), "10.1.2.3", 0, *ours)
            await heartbeat.register()
            beats = asyncio.create_task(heartbeat.run())
            await clock.sleep(1)
            assert can_take_pods(heartbeat.silent_seconds(), lease)
            await cancel([beats])
            await clock.sleep(frozen)
            tolerations = [{"key": node_object.TAINT.key, "operator": "Exists"}]
            pod = await bound_pod(world, "p", NAME, tolerations=tolerations)
            assert not can_take_pods(heartbeat.silent_seconds(), lease), "its fence would end it at once"
            beats, woken = asyncio.create_task(heartbeat.run()), clock.monotonic()
            while not can_take_pods(heartbeat.silent_seconds(), lease):
                await clock.sleep(0.05)
            assert clock.monotonic() - woken < lease / 4, "it is taken soon"
            for _ in range(100):
                await clock.sleep(0.5)
                assert not must_end_pod(pod, heartbeat.silent_seconds(), lease)
            there = await world.client.get(POD, "p", "default")
            assert (there.metadata.uid, there.status.phase) == (pod.metadata.uid, "Running"), (
                "nor has the server ended it"
            )
            await cancel([beats])

    run_virtual(body())


def test_the_servers_patience_is_greater_than_any_lease() -> None:
    for lease in range(1, 3601, 7):
        made = node_object.make_lease("n", "u", datetime(2026, 1, 1, tzinfo=UTC), seconds=lease)
        assert compute_patience(1.0, made) >= lease * 1.25
