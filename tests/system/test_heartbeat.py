"""A process node whose object is deleted while it lives, or that is told to stop, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.system.plane import running

from muster.api.conditions import is_true
from muster.api.core import NODE, Node
from muster.api.groups.coordination import LEASE
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_IDENTITY, NODE_KIND_LABEL, PROCESS
from muster.cluster.nodes.gpus.holding import Gpus
from muster.cluster.nodes.heartbeat import REPORT_SECONDS, Heartbeat
from muster.cluster.nodes.machine import machine
from muster.cluster.nodes.node_object import LEASE_NAMESPACE, RENEW_SECONDS, TAINT
from muster.runtime.client import Client
from muster.runtime.clock import Clock, run_virtual
from muster.runtime.tasks import cancel

NAME = "box"


class Site:
    """A server, and a node that beats."""

    def __init__(self, client: Client, clock: Clock, heartbeat: Heartbeat) -> None:
        self.client, self.clock, self.heartbeat = client, clock, heartbeat

    async def node(self) -> Node:
        return await self.client.get(NODE, NAME)

    async def delete(self) -> None:
        """As people do it, and the collector after them."""
        await self.client.delete(NODE, NAME)
        await self.client.delete(LEASE, NAME, LEASE_NAMESPACE)


def beating(state: Path, story: Callable[[Site], Awaitable[None]], identity: str = "a-machine") -> None:
    async def body() -> None:
        async with running(controllers=False) as plane:
            client, clock = plane.client(), plane.surroundings.clock
            found = machine.discover(state)
            heartbeat = Heartbeat(client, clock, NAME, found, {"cpu": "3"}, state, "10.1.2.3", 0, Gpus(()), identity)
            await heartbeat.register()
            beats = asyncio.create_task(heartbeat.run())
            try:
                await clock.sleep(1)
                await story(Site(client, clock, heartbeat))
            finally:
                await cancel([beats])

    run_virtual(body())


@pytest.mark.parametrize(("identity", "taints"), [("a-machine", (TAINT,)), ("", ())], ids=["guest", "own"])
def test_a_node_that_is_deleted_comes_back_with_all_that_it_had(
    tmp_path: Path, identity: str, taints: tuple[object, ...]
) -> None:
    async def story(s: Site) -> None:
        before = await s.node()
        await s.delete()
        await s.clock.sleep(RENEW_SECONDS)
        now = await s.node()
        assert now.metadata.uid != before.metadata.uid
        assert (now.metadata.labels, now.metadata.annotations) == (before.metadata.labels, before.metadata.annotations)
        assert now.metadata.annotations.get(NODE_IDENTITY, "") == identity
        assert (now.spec.taints, now.status.allocatable) == (taints, before.status.allocatable)
        assert is_true(now.status.conditions, "Ready")
        lease = await s.client.get(LEASE, NAME, LEASE_NAMESPACE)
        assert [owner.uid for owner in lease.metadata.owner_references] == [now.metadata.uid]

    beating(tmp_path, story, identity)


def test_it_comes_back_where_nobody_collects_its_lease(tmp_path: Path) -> None:
    async def story(s: Site) -> None:
        await s.client.delete(NODE, NAME)
        await s.clock.sleep(REPORT_SECONDS + RENEW_SECONDS)
        assert is_true((await s.node()).status.conditions, "Ready")

    beating(tmp_path, story)


def test_a_name_that_has_become_another_machines_is_left_to_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(s: Site) -> None:
        await s.delete()
        meta = ObjectMeta(name=NAME, labels={NODE_KIND_LABEL: PROCESS}, annotations={NODE_IDENTITY: "another"})
        other = await s.client.create(NODE, Node(metadata=meta))
        await s.clock.sleep(REPORT_SECONDS + RENEW_SECONDS)
        assert await s.node() == other
        assert await s.client.find(LEASE, NAME, LEASE_NAMESPACE) is None

    beating(tmp_path, story)
    assert 'nodes "box": it is another machine\'s now' in caplog.text


def test_one_that_stops_takes_no_more_pods_however_long_that_lasts(tmp_path: Path) -> None:
    async def story(s: Site) -> None:
        await s.heartbeat.retire()
        stopping = (await s.node()).status.conditions
        await s.clock.sleep(REPORT_SECONDS / 2)
        assert (await s.node()).status.conditions == stopping
        assert not is_true(stopping, "Ready")
        await s.delete()
        await s.clock.sleep(REPORT_SECONDS)
        assert await s.client.find(NODE, NAME) is None

    beating(tmp_path, story)
