"""Pods keep their addresses over a restart, on one node or several, and whatever of them is left on the disk."""

import asyncio
import logging
import shutil
from functools import partial

import pytest
from tests.system.nodes import node_world
from tests.system.nodes.node_world import DICT, LIMIT, main

from muster.api.core import POD
from muster.api.pods import is_finished
from muster.cluster.nodes.disk import leftovers

COUNTS = pytest.mark.parametrize("count", [1, 3])


@pytest.fixture
def play(tmp_path):
    return partial(node_world.play, tmp_path)


@pytest.fixture
def refused(caplog):
    """What the server refused of what the nodes wrote."""
    caplog.set_level(logging.WARNING)
    return lambda: [r.getMessage() for r in caplog.records if "may specify no more than one IP" in r.getMessage()]


async def gang(world, size):
    """Pods that know each other by name, in turn on all nodes; the last first, so that names and addresses differ."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    for number in reversed(range(size)):
        await world.create(
            f"p-{number}",
            meta={"ownerReferences": [owner]},
            nodeName=world.names[number % len(world.names)],
            hostname=f"p-{number}",
            subdomain="s",
            command=["sleep", "1000"],
        )
        await world.ready(f"p-{number}")


async def addresses(world):
    return {pod.metadata.name: pod.status.pod_ips for pod in (await world.client.list(POD, "default")).items}


async def finished(world, size):
    return [await world.until(is_finished, f"p-{number}") for number in range(size)]


@COUNTS
def test_a_new_server_leaves_all_addresses_as_they_were(play, refused, count):
    async def story(world):
        size = 4 * count
        await gang(world, size)
        before = await addresses(world)
        for _ in range(3):
            await world.stop_node(leave=True)
            await world.start_node()
            for number in range(size):
                await world.annotate("seen", "again", f"p-{number}")
                await world.ready(f"p-{number}")
            assert await addresses(world) == before
        await world.create("new", meta={}, command=["sleep", "1000"])
        new = await world.ready("new")
        assert new.status.pod_ips not in before.values()

    play(story, count=count)
    assert refused() == []


@COUNTS
@pytest.mark.parametrize("lost", ["all", "the first node's"])
def test_pods_of_which_nothing_is_on_the_disk_end(play, refused, count, lost):
    """As after a restore into a new home."""

    async def story(world):
        size = 4 * count
        await gang(world, size)
        before = await addresses(world)
        await world.stop_node(leave=True)
        await leftovers.end_everything(world.state)
        for name in world.names if lost == "all" else world.names[:1]:
            shutil.rmtree(world.state / name)
        await world.start_node()
        for pod in await finished(world, size):
            assert main(pod).state.terminated.exit_code == 137
        assert await addresses(world) == before
        for name in before:
            await world.client.delete(POD, name, "default")
            await world.gone(name)

    play(story, count=count)
    assert refused() == []


@COUNTS
def test_pods_whose_addresses_others_have_by_now_end_with_new_ones(play, refused, count):
    """As releases before have left them: what is said of a pod's address is replaced, never added to."""

    async def story(world):
        size = 4 * count
        await gang(world, size)
        await world.stop_node(leave=True)
        taken = (await world.get("p-0")).status.pod_ip
        for number in range(1, size):
            status = {"podIP": taken, "podIPs": [{"ip": taken}], "hostIP": "10.9.9.9", "hostIPs": [{"ip": "10.9.9.9"}]}
            await world.client.patch(DICT["Pod"], f"p-{number}", {"status": status}, "default", subresource="status")
        await leftovers.end_everything(world.state)
        for name in world.names:
            shutil.rmtree(world.state / name)
        await world.start_node()
        for pod in await finished(world, size):
            assert [one.ip for one in pod.status.pod_ips] == [pod.status.pod_ip]
            assert [one.ip for one in pod.status.host_ips] == [pod.status.host_ip] == ["127.0.0.1"]

    play(story, count=count)
    assert refused() == []


def test_the_address_of_a_pod_that_went_while_no_server_was_there_is_given_back(play):
    """Not before its node has ended it: until then it may hold its ports."""

    async def story(world):
        await world.create(command=["sleep", "1000"])
        old = await world.ready()
        await world.stop_node(leave=True)
        await world.client.delete(POD, "p", "default", grace_period_seconds=0)
        await world.start_node()
        async with asyncio.timeout(LIMIT):
            while world.directories():
                await asyncio.sleep(0.02)
        assert world.node._network._addresses.restore("another", old.status.pod_ip)
        await world.create("q", command=["sleep", "1000"])
        assert (await world.ready("q")).status.pod_ip != old.status.pod_ip

    play(story)
