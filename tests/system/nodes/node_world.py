"""An API server and process nodes in this process, mostly one: what the tests of nodes are played in."""

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import Any

from muster.api.core import CONFIG_MAP, EVENT, POD, SECRET
from muster.api.status import ApiError
from muster.cluster.controlplane import control_plane
from muster.cluster.nodes.agent import ProcessNode
from muster.cluster.nodes.disk import leftovers
from muster.cluster.nodes.network.addresses import Addresses
from muster.cluster.nodes.network.network import Network
from muster.cluster.store import MemoryJournal
from muster.runtime.clock import RealClock
from muster.runtime.control.manager import Manager
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import Request

LIMIT = 20.0
KINDS: tuple[Any, ...] = (POD, CONFIG_MAP, SECRET)
DICT = {kind.kind: kind.seen_as(dict) for kind in KINDS}


class World:
    """An API server and the nodes that it has at the moment; `node` is the first of them, often the only one."""

    def __init__(self, plane, state, count=1):
        self.plane, self.state = plane, state
        self.names = [f"node-{number}" for number in range(count)]
        self.client = plane.client()
        self.node: Any = None
        self.manager: Any = None
        self.running: Any = None

    async def start_node(self, client=None, **options):
        """The nodes, as a server that has just started makes them."""
        inputs = self.plane.inputs
        self.manager = Manager(client or self.plane.manager.client, inputs.clock, inputs.random)
        only = "node-0" if options.get("guest") else ""
        network = Network(self.manager, Addresses(), only_node=only, machine_hosts=self.state / "no-hosts")
        self.manager.add(network)
        self.nodes = []
        for name in self.names:
            recorder = self.plane.events.recorder("kubelet", name)
            node = ProcessNode(self.manager, recorder, network, name=name, state=self.state / name, **options)
            self.plane.nodes[name] = node.connection
            self.manager.add(node)
            self.nodes.append(node)
        self.node = self.nodes[0]
        self.running = asyncio.create_task(self.manager.run())
        for node in self.nodes:
            await node.ready.wait()

    async def stop_node(self, *, leave=False):
        for node in self.nodes:
            node.leave_pods_running = leave
        await self.manager.stop()
        await self.running

    async def create(self, name="p", *, meta=None, volumes=(), pod=None, **container):
        spec = {**(pod or {})} | {key: container.pop(key) for key in SPEC if key in container}
        main = {"name": "main", "image": "none", "command": ["true"], **container}
        body = {
            "metadata": {"name": name, **(meta or {})},
            "spec": {
                "nodeName": "node-0",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 10,
                "volumes": list(volumes),
                "containers": [main],
                **spec,
            },
        }
        return await self.client.create(DICT["Pod"], body, "default")

    async def get(self, name="p"):
        return await self.client.get(POD, name, "default")

    async def until(self, condition, name="p"):
        """The pod, once the condition holds."""
        try:
            async with asyncio.timeout(LIMIT):
                while True:
                    with contextlib.suppress(ApiError):
                        pod = await self.get(name)
                        if condition(pod):
                            return pod
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{(await self.get(name)).status}\n{await self.events()}") from None

    async def phase(self, phase, name="p"):
        return await self.until(lambda pod: pod.status.phase == phase, name)

    async def ready(self, name="p"):
        return await self.until(lambda pod: condition(pod, "Ready") == "True", name)

    async def gone(self, name="p"):
        async with asyncio.timeout(LIMIT):
            while [pod for pod in (await self.client.list(POD, "default")).items if pod.metadata.name == name]:
                await asyncio.sleep(0.02)

    async def log(self, name="p", **query):
        path = f"/api/v1/namespaces/default/pods/{name}/log"
        return (await self.client.raw(Request("GET", path, {k: str(v) for k, v in query.items()}))).body.decode()

    async def says(self, text, name="p"):
        """Wait until the log is this."""
        async with asyncio.timeout(LIMIT):
            while await self.log(name) != text:
                await asyncio.sleep(0.02)

    async def annotate(self, key, value, name="p"):
        await self.client.patch(POD, name, {"metadata": {"annotations": {key: value}}}, "default")

    async def events(self):
        found = (await self.client.list(EVENT, "default")).items
        return [(event.type, event.reason, event.message) for event in found]

    async def event(self, reason):
        async with asyncio.timeout(LIMIT):
            while True:
                for type, why, message in await self.events():
                    if why == reason:
                        return type, message
                await asyncio.sleep(0.02)

    def directories(self):
        pods = self.state / "node-0/pods"
        return sorted(path.name for path in pods.iterdir())


SPEC = (
    "initContainers", "containers", "restartPolicy", "terminationGracePeriodSeconds", "hostname", "subdomain",
    "activeDeadlineSeconds", "readinessGates", "hostAliases", "nodeName",
)  # fmt: skip


def condition(pod, type):
    return next((c.status for c in pod.status.conditions if c.type == type), None)


def main(pod):
    return next(status for status in pod.status.container_statuses if status.name == "main")


def shell(script):
    return {"command": ["sh", "-c", script]}


@asynccontextmanager
async def world(state, *, node=True, count=1, **options):
    async with control_plane(MemoryJournal(), ExternalInputs(RealClock(), Ids(), Random())) as plane:
        serving = asyncio.create_task(plane.manager.run())
        await plane.manager.ready.wait()
        found = World(plane, state, count)
        if node:
            await found.start_node(**options)
        try:
            yield found
        finally:
            if found.running is not None and not found.running.done():
                await found.stop_node()
            await plane.manager.stop()
            await serving


def play(state, story, **options):
    """Run a coroutine function with a world of `count` nodes; whatever it leaves behind is ended."""

    async def go():
        async with asyncio.timeout(3 * LIMIT), world(state, **options) as found:
            await story(found)

    try:
        asyncio.run(go())
    finally:
        asyncio.run(leftovers.end_everything(state))
