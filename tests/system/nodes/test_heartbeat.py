"""A process node whose object is deleted while it lives, or that is told to stop, in virtual time."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.system.plane import running

from muster.api.conditions import is_true
from muster.api.core import NODE, Node
from muster.api.groups.coordination import LEASE
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_IDENTITY, NODE_KIND_LABEL, PROCESS
from muster.cluster.nodes.fence import Fence
from muster.cluster.nodes.gpus.holding import Gpus
from muster.cluster.nodes.heartbeat import REPORT_SECONDS, Heartbeat
from muster.cluster.nodes.machine import machine
from muster.cluster.nodes.node_object import LEASE_NAMESPACE, LEASE_SECONDS, RENEW_SECONDS, TAINT
from muster.cluster.nodes.shim.fence import NANOSECONDS
from muster.runtime.client import Client
from muster.runtime.clock import Clock, run_virtual
from muster.runtime.tasks import cancel
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

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
            client, clock = plane.client(), plane.inputs.clock
            found = machine.discover(state)
            heartbeat = Heartbeat(client, clock, NAME, found, {"cpu": "3"}, (state,), "10.1.2.3", 0, Gpus(()), identity)
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


def test_a_fence_that_cannot_be_written_does_not_end_the_beats(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(s: Site) -> None:
        fence = s.heartbeat._fence = Fence(tmp_path)
        written, fence.descriptor = fence.descriptor, os.open("/dev/full", os.O_WRONLY)
        await s.clock.sleep(2 * RENEW_SECONDS)
        silent = s.heartbeat.silent_seconds()
        fence.close()
        fence.descriptor = written
        await s.clock.sleep(RENEW_SECONDS)
        assert silent > RENEW_SECONDS, "its pods end by the fence as it is"
        assert s.heartbeat.silent_seconds() <= RENEW_SECONDS
        fence.close()

    beating(tmp_path, story)
    assert "No space left" in caplog.text


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
    assert 'nodes "box": it belongs to another machine now' in caplog.text


def test_one_that_stops_takes_no_more_pods_however_long_that_lasts(tmp_path: Path) -> None:
    async def story(s: Site) -> None:
        await s.heartbeat.report_shutdown()
        stopping = (await s.node()).status.conditions
        await s.clock.sleep(REPORT_SECONDS / 2)
        assert (await s.node()).status.conditions == stopping
        assert not is_true(stopping, "Ready")
        await s.delete()
        await s.clock.sleep(REPORT_SECONDS)
        assert await s.client.find(NODE, NAME) is None

    beating(tmp_path, story)


def unknown(type: str) -> dict[str, str]:
    return {"type": type, "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}


def test_what_the_server_wrote_of_a_guest_meanwhile_is_corrected_at_the_next_beat(tmp_path: Path) -> None:
    async def story(s: Site) -> None:
        lost = {"status": {"conditions": [unknown("Ready"), unknown("DiskPressure")]}}
        await s.client.patch(NODE, NAME, lost, type=STRATEGIC_MERGE_PATCH, subresource="status")
        await s.clock.sleep(RENEW_SECONDS)
        node = await s.node()
        assert is_true(node.status.conditions, "Ready")
        assert {one.status for one in node.status.conditions} == {"True", "False"}

    beating(tmp_path, story)


def test_conditions_that_others_write_are_no_reason_to_write(tmp_path: Path) -> None:
    async def story(s: Site) -> None:
        other = {"status": {"conditions": [{"type": "Tired", "status": "False"}]}}
        await s.client.patch(NODE, NAME, other, type=STRATEGIC_MERGE_PATCH, subresource="status")
        await s.clock.sleep(RENEW_SECONDS)
        version = (await s.node()).metadata.resource_version
        await s.clock.sleep(5 * RENEW_SECONDS)
        assert (await s.node()).metadata.resource_version == version

    beating(tmp_path, story)


def test_an_agent_that_another_has_replaced_no_longer_counts_as_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(s: Site) -> None:
        taken = {"spec": {"holderIdentity": "another", "leaseTransitions": 9}}
        await s.client.patch(LEASE, NAME, taken, LEASE_NAMESPACE)
        renewed = s.heartbeat.last_renewal
        await s.clock.sleep(5 * RENEW_SECONDS)
        assert s.heartbeat.last_renewal == renewed
        assert (await s.client.get(LEASE, NAME, LEASE_NAMESPACE)).spec.holder_identity == "another"

    beating(tmp_path, story)
    assert "another agent of this node holds it: another" in caplog.text


def test_the_lease_that_a_restored_server_remembers_is_taken_again(tmp_path: Path) -> None:
    async def story(s: Site) -> None:
        await s.clock.sleep(RENEW_SECONDS)
        older = {"spec": {"holderIdentity": "an earlier one", "leaseTransitions": 0}}
        await s.client.patch(LEASE, NAME, older, LEASE_NAMESPACE)
        await s.clock.sleep(RENEW_SECONDS)
        assert s.heartbeat.silent_seconds() <= RENEW_SECONDS
        spec = (await s.client.get(LEASE, NAME, LEASE_NAMESPACE)).spec
        assert (spec.holder_identity, spec.lease_transitions) == (NAME, 1)

    beating(tmp_path, story)


def test_a_node_of_our_own_leaves_a_guest_its_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(s: Site) -> None:
        await s.delete()
        meta = ObjectMeta(name=NAME, labels={NODE_KIND_LABEL: PROCESS}, annotations={NODE_IDENTITY: "a-guest"})
        guest = await s.client.create(NODE, Node(metadata=meta))
        await s.clock.sleep(REPORT_SECONDS)
        assert await s.node() == guest

    beating(tmp_path, story, identity="")
    assert "a joined machine has this name: let it join by another --name" in caplog.text


def test_the_first_renewal_after_the_lease_has_run_out_does_not_count(tmp_path: Path) -> None:
    async def story(s: Site) -> None:
        await s.client.delete(NODE, NAME)
        meta = ObjectMeta(name=NAME, labels={NODE_KIND_LABEL: PROCESS}, annotations={NODE_IDENTITY: "another"})
        await s.client.create(NODE, Node(metadata=meta))  # it is not reached for as long as its name is another's
        await s.client.delete(LEASE, NAME, LEASE_NAMESPACE)
        renewed = s.heartbeat.last_renewal
        await s.clock.sleep(LEASE_SECONDS + 2 * RENEW_SECONDS)
        assert s.heartbeat.last_renewal == renewed
        await s.client.delete(NODE, NAME)
        while (await s.client.find(LEASE, NAME, LEASE_NAMESPACE)) is None:
            await s.clock.sleep(0.1)
        first = s.clock.monotonic()
        assert s.heartbeat.last_renewal == renewed
        await s.clock.sleep(RENEW_SECONDS / 2)
        assert s.heartbeat.last_renewal.monotonic > first

    beating(tmp_path, story)


def test_the_first_renewal_after_the_machine_has_slept_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = 0

    async def story(s: Site) -> None:
        nonlocal slept
        slept = (LEASE_SECONDS + 1) * NANOSECONDS
        assert s.heartbeat.silent_seconds() > LEASE_SECONDS
        renewed = s.heartbeat.last_renewal
        await s.clock.sleep(RENEW_SECONDS)
        assert s.heartbeat.last_renewal == renewed
        await s.clock.sleep(RENEW_SECONDS / 2)
        assert s.heartbeat.last_renewal != renewed

    monkeypatch.setattr("muster.cluster.nodes.heartbeat.boot_nanoseconds", lambda: slept)
    beating(tmp_path, story)
