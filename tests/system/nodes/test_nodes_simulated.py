"""Simulated nodes under a real API server, in virtual time: a thousand nodes, hours in a moment."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.system.first_objects import seeded_plane

from muster.api.core import NODE, POD
from muster.api.status import ApiError
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.transport import Request

NAMES = [f"sim-{number}" for number in range(5)]
PODS: Any = POD.seen_as(dict)


class World:
    """An API server, and simulated nodes that can be stopped and started again."""

    def __init__(self, plane):
        self.plane = plane
        self.client = plane.client()
        self.nodes = None

    async def start(self, names=NAMES, **options):
        inputs = self.plane.inputs
        self.manager = Manager(self.plane.manager.client, inputs.clock, inputs.random)
        self.nodes = SimulatedNodes(self.manager, names, **options)
        self.plane.nodes.update(dict.fromkeys(names, self.nodes.connection))
        self.manager.add(self.nodes)
        self.running = asyncio.create_task(self.manager.run())
        await self.nodes.ready.wait()

    async def stop(self):
        await self.manager.stop()
        await self.running

    async def create(self, name="p", *, node="sim-0", annotations=None, **spec):
        body = {
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never", **spec},
        }
        await self.client.create(PODS, body, "default")

    async def get(self, name="p"):
        return await self.client.get(POD, name, "default")

    async def pods(self):
        return (await self.client.list(POD, "default")).items


def play(story, **options):
    async def go():
        async with seeded_plane(VirtualClock(), seed=1) as plane:
            serving = asyncio.create_task(plane.manager.run())
            await plane.manager.ready.wait()
            world = World(plane)
            await world.start(**options)
            try:
                await story(world)
            finally:
                if not world.running.done():
                    await world.stop()
                await plane.manager.stop()
                await serving

    run_virtual(go())


def test_nodes_say_the_version_of_their_server_also_once_that_is_newer():
    async def story(world):
        versions = []
        for version in ("v1.34.0", "v1.36.2"):
            await world.stop()
            await world.start(version=version)
            found = (await world.client.list(NODE)).items
            versions += sorted({node.status.node_info.kubelet_version for node in found})
        assert versions == ["v1.34.0-simulated", "v1.36.2-simulated"]

    play(story)


def test_a_pod_runs_for_as_long_as_its_annotation_says():
    async def story(world):
        await world.create(annotations={"muster.dev/run-time": "90m", "muster.dev/exit-code": "4"})
        await asyncio.sleep(1)
        pod = await world.get()
        assert (pod.status.phase, pod.status.container_statuses[0].ready) == ("Running", True)
        await asyncio.sleep(90 * 60 - 2)
        assert (await world.get()).status.phase == "Running"
        await asyncio.sleep(2)
        pod = await world.get()
        assert pod.status.phase == "Failed"
        ended = pod.status.container_statuses[0].state.terminated
        assert ended.exit_code == 4
        assert (ended.finished_at - ended.started_at).total_seconds() == 90 * 60

    play(story)


def test_nodes_that_start_again_with_less_have_no_more_than_that():
    async def story(world):
        await world.stop()
        await world.start(resources={"cpu": "4"})
        status = (await world.client.get(NODE, "sim-0")).status
        assert status.capacity.keys() == status.allocatable.keys() == {"cpu", "memory", "ephemeral-storage", "pods"}
        assert status.allocatable["cpu"] == "4"

    play(story, resources={"cpu": "8", "nvidia.com/gpu": "8"})


def test_a_pod_takes_its_time_to_start_and_to_stop():
    async def story(world):
        await world.create(annotations={"muster.dev/start-time": "30s", "muster.dev/stop-time": "10s"})
        await asyncio.sleep(29)
        assert (await world.get()).status.phase == "Pending"
        await asyncio.sleep(2)
        assert (await world.get()).status.phase == "Running"
        await world.client.delete(POD, "p", "default")
        await asyncio.sleep(9)
        assert (await world.get()).metadata.deletion_timestamp is not None
        await asyncio.sleep(2)
        assert await world.pods() == []

    play(story)


def test_a_pod_that_is_restarted_runs_again():
    async def story(world):
        annotations = {"muster.dev/run-time": "10s", "muster.dev/exit-code": "1"}
        await world.create(annotations=annotations, restartPolicy="OnFailure")
        # It ends after 10 s and runs again at once; from the next time on there are 10 s, 20 s, ... in between.
        for seconds, restarts in ((11, 1), (10, 2), (20, 3), (30, 4), (50, 5)):
            await asyncio.sleep(seconds)
            pod = await world.get()
            assert (pod.status.phase, pod.status.container_statuses[0].restart_count) == ("Running", restarts)

    play(story)


def test_a_pod_that_ends_at_once_is_no_busy_loop():
    async def story(world):
        await world.create(annotations={"muster.dev/run-time": "0s"}, restartPolicy="Always")
        await asyncio.sleep(24 * 3600)
        assert (await world.get()).status.container_statuses[0].restart_count < 300

    play(story)


def test_lives_go_on_after_a_restart():
    async def story(world):
        await world.create(annotations={"muster.dev/run-time": "100s"})
        await asyncio.sleep(40)
        await world.stop()
        await asyncio.sleep(40)
        assert (await world.get()).status.phase == "Running"
        await world.start()
        await asyncio.sleep(15)
        assert (await world.get()).status.phase == "Running"
        await asyncio.sleep(10)
        assert (await world.get()).status.phase == "Succeeded"

    play(story)


def test_pods_of_other_nodes_are_left_alone():
    async def story(world):
        await world.create(node="elsewhere")
        await asyncio.sleep(60)
        assert (await world.get()).status.phase == "Pending"

    play(story)


def test_nodes_have_what_they_are_given_and_keep_it_up_to_date():
    async def story(world):
        node = await world.client.get(NODE, "sim-3")
        assert node.status.allocatable == {"cpu": "8", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
        assert node.metadata.labels["muster.dev/node-kind"] == "simulated"
        assert node.metadata.labels["zone"] == "a"
        await world.stop()
        await world.start(resources={"cpu": "16"})
        again = await world.client.get(NODE, "sim-3")
        assert (again.metadata.uid, again.status.allocatable["cpu"]) == (node.metadata.uid, "16")

    play(story, resources={"cpu": "8"}, labels={"zone": "a"})


def test_a_node_of_an_older_version_gets_the_labels_of_this_one():
    async def story(world):
        await world.stop()
        await world.client.patch(NODE, "sim-3", {"metadata": {"labels": {"zone": None, "mine": "b"}}})
        await world.start(labels={"zone": "a"})
        labels = (await world.client.get(NODE, "sim-3")).metadata.labels
        assert (labels["zone"], labels["mine"]) == ("a", "b")

    play(story, labels={"zone": "a"})


def test_pods_have_used_what_they_ask_for_since_their_start():
    async def story(world):
        await asyncio.sleep(100_000)
        resources = {"requests": {"cpu": "500m", "memory": "1Gi"}}
        container = {"name": "c", "image": "x", "resources": resources}
        await world.create(annotations={"muster.dev/run-time": "1h"}, containers=[container])
        await asyncio.sleep(60)
        (reading,) = (await world.nodes.connection.measure_usage()).values()
        assert 0 < reading.cpu_seconds <= 30
        assert reading.memory_bytes == 2**30

    play(story)


def test_a_node_that_is_deleted_is_made_again_while_it_is_played():
    async def story(world):
        await world.create(node="sim-3", annotations={"muster.dev/run-time": "1h"})
        await asyncio.sleep(5)
        uid = (await world.client.get(NODE, "sim-3")).metadata.uid
        await world.client.delete(NODE, "sim-3")
        await asyncio.sleep(5)
        again = await world.client.get(NODE, "sim-3")
        assert again.metadata.uid != uid
        assert (again.status.allocatable["cpu"], again.metadata.labels["zone"]) == ("8", "a")
        assert (await world.get()).status.phase == "Running"
        await world.stop()
        await world.client.delete(NODE, "sim-3")
        await asyncio.sleep(60)
        assert len((await world.client.list(NODE)).items) == len(NAMES) - 1

    play(story, resources={"cpu": "8"}, labels={"zone": "a"})


def test_an_idle_node_writes_nothing():
    async def story(world):
        await world.create()
        await asyncio.sleep(5)
        before = world.plane.store.revision
        await asyncio.sleep(24 * 3600)
        assert world.plane.store.revision == before

    play(story)


def test_simulated_pods_say_that_they_are_simulated():
    async def story(world):
        await world.create()
        await asyncio.sleep(1)
        log = await world.client.raw(Request("GET", "/api/v1/namespaces/default/pods/p/log"))
        assert log.body == b"default/p/c is simulated: it has no output\n"

    play(story)


def test_a_command_in_a_simulated_pod_is_refused_with_the_reason():
    async def story(world):
        await world.create()
        await asyncio.sleep(1)
        request = Request("GET", "/api/v1/namespaces/default/pods/p/exec", {"stdout": "1"}, lists={"command": ("ls",)})
        with pytest.raises(
            ApiError, match=r'^nothing runs on simulated nodes, such as ".*" of pod "p": no command can'
        ):
            async with world.client.transport.converse(request, "v5.channel.k8s.io"):
                pytest.fail("it was accepted")

    play(story)


def test_many_nodes_and_pods():
    count = 250
    names = [f"sim-{number}" for number in range(count)]

    async def story(world):
        assert len((await world.client.list(NODE)).items) == count
        for number in range(2 * count):
            annotations = {"muster.dev/run-time": f"{10 + number % 50}m"}
            await world.create(f"p{number}", node=f"sim-{number % count}", annotations=annotations)
        await asyncio.sleep(9 * 60)
        assert Counter(pod.status.phase for pod in await world.pods()) == {"Running": 2 * count}
        await asyncio.sleep(3600)
        pods = await world.pods()
        assert Counter(pod.status.phase for pod in pods) == {"Succeeded": 2 * count}
        for pod in pods:
            ended = pod.status.container_statuses[0].state.terminated
            minutes = (ended.finished_at - ended.started_at).total_seconds() / 60
            assert minutes == 10 + int(pod.metadata.name[1:]) % 50

    play(story, names=names)
