"""Schedulers that allocate devices, hear late or are cut off: no device is given twice, and none is lost."""

import asyncio
from collections import Counter
from random import Random as Chance
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from tests.system.plane import World, running, virtual
from tests.system.scheduler.test_devices import claiming, device_node, device_template, gpu_class
from tests.unit.gang.nodes.oracle import Difference, differences

from muster.api.batch import JOB, Job
from muster.api.core import NODE, POD, Pod
from muster.api.groups.resource import RESOURCE_CLAIM, ResourceClaim
from muster.api.pods import is_finished
from muster.cluster.apiserver.cel import device_matches
from muster.controllers.engine import Part
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.deviceclaims import DeviceClaims
from muster.controllers.scheduler.scheduler import Scheduler
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.transport import Request, TransportError

if TYPE_CHECKING:
    from muster.controllers.scheduler.roster import Roster

NODES = {"a": 4, "b": 4, "c": 2}
STEPS = 60
JOB_NAME = "batch.kubernetes.io/job-name"


class Failing:
    """Loses writes of claims and bindings, before or after the server has them."""

    def __init__(self, inner, fate):
        self.inner, self.fate = inner, fate

    async def request(self, request: Request):
        is_write = request.method in ("PATCH", "POST")
        concerned = is_write and ("resourceclaims" in request.path or request.path.endswith("/binding"))
        fate = self.fate() if concerned else ""
        if fate == "lost":
            raise TransportError("connection reset")
        answer = await self.inner.request(request)
        if fate == "unanswered":
            raise TransportError("connection reset")
        return answer

    def stream(self, request):
        return self.inner.stream(request)

    async def close(self):
        pass


class Scheduling:
    """A scheduler that may be killed and started again."""

    def __init__(self, world: World, chance: Chance) -> None:
        self._world = world
        self._chance = chance
        self.fails = True

    def start(self) -> None:
        plane = self._world.plane
        client = Client(Failing(self._world.client.transport, self._fate))
        self.manager = Manager(client, plane.inputs.clock, plane.inputs.random)
        recorder = plane.events.recorder("test")
        names = frozenset({"test"})
        self.scheduler = Scheduler(self.manager, recorder, gang_sources(), names=names, matches=device_matches)
        self.manager.add(self.scheduler)
        self.run = asyncio.create_task(self.manager.run())

    def _fate(self) -> str:
        return self._chance.choices(["", "lost", "unanswered"], [90, 5, 5])[0] if self.fails else ""

    def misremembered(self) -> list[Difference]:
        """What its arrays say of nodes and pods that is not so."""
        roster, pods = self.scheduler._state.roster, self.manager.informer(POD).all()
        nodes = map(roster.add_devices, self.manager.informer(NODE).all())
        return differences(roster.capacity, nodes, {pod.metadata.uid: roster.seat(pod) for pod in pods})

    async def kill(self) -> None:
        self.run.cancel()
        await asyncio.gather(self.run, return_exceptions=True)


async def gang(world: World, name: str, workers: int, template: str) -> None:
    spec = claiming(template) | {"schedulerName": "test"}
    document = {
        "metadata": {"name": name},
        "spec": {
            "parallelism": workers, "completions": workers, "completionMode": "Indexed", "backoffLimit": 100,
            "template": {"spec": spec},
        },
    }  # fmt: skip
    await world.client.create(JOB, msgspec.convert(document, Job), "default")


async def check(world: World) -> None:
    """No device is reserved for two pods that run, and a pod that runs has its devices on its node."""
    pods = {pod.metadata.uid: pod for pod in (await world.client.list(POD, "default")).items if not is_finished(pod)}
    claims = (await world.client.list(RESOURCE_CLAIM, "default")).items
    given: Counter[tuple[str, str]] = Counter()
    served = set()
    for claim in claims:
        users = [one.uid for one in claim.status.reserved_for if one.uid in pods and pods[one.uid].spec.node_name]
        if not users or claim.status.allocation is None:
            continue
        for one in claim.status.allocation.devices.results:
            given[one.pool, one.device] += 1
            assert all(pods[uid].spec.node_name == one.pool.partition("/")[0] for uid in users)
        served.update(users)
    assert not [device for device, times in given.items() if times > 1]
    assert {uid for uid, pod in pods.items() if pod.spec.node_name} <= served


async def at_rest(world: World) -> None:
    """Each gang is there whole or not at all, and no devices are held by what does not run."""
    for job in (await world.client.list(JOB, "default")).items:
        nodes = [pod.spec.node_name for pod in await world.pods(job.metadata.name) if not is_finished(pod)]
        assert all(nodes) or not any(nodes), (job.metadata.name, nodes)
    for claim in (await world.client.list(RESOURCE_CLAIM, "default")).items:
        assert (claim.status.allocation is not None) == bool(claim.status.reserved_for)


def test_a_pod_that_learns_late_which_claim_is_its_own_is_placed_then():
    async def scenario() -> None:
        async with running(parts=[Part.SCHEDULING]) as plane:  # nobody makes claims
            world = World(plane)
            await gpu_class(world)
            await device_node(world, "a", 1)
            document = {"metadata": {"name": "p"}, "spec": claiming("one")}
            pod = await world.client.create(POD, msgspec.convert(document, Pod), "default")
            owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.metadata.uid, "controller": True}
            requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
            claim = {
                "metadata": {"name": "p-gpu", "ownerReferences": [owner]},
                "spec": {"devices": {"requests": requests}},
            }
            await world.client.create(RESOURCE_CLAIM, msgspec.convert(claim, ResourceClaim), "default")
            await world.settle()
            assert (await world.client.get(POD, "p", "default")).spec.node_name == ""
            status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu"}]}
            await world.client.patch(POD, "p", {"status": status}, "default", subresource="status")
            await world.settle()
            assert (await world.client.get(POD, "p", "default")).spec.node_name == "a"

    run_virtual(scenario())


@pytest.mark.parametrize("has_arrived", [True, False])
def test_devices_of_a_pod_that_another_scheduler_has_bound_meanwhile_are_left_to_it(has_arrived: bool) -> None:
    """A scheduler has seen the pod without a node; the binding of the one before it may arrive after that."""

    async def scenario() -> None:
        async with running(parts=[Part.SCHEDULING]) as plane:
            world = World(plane)
            await gpu_class(world)
            await device_node(world, "a", 1)
            document = {"metadata": {"name": "p"}, "spec": claiming("one") | {"schedulerName": "test"}}
            seen = await world.client.create(POD, msgspec.convert(document, Pod), "default")
            requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
            made = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
            claim = await world.client.create(RESOURCE_CLAIM, msgspec.convert(made, ResourceClaim), "default")
            user = {"resource": "pods", "name": "p", "uid": seen.metadata.uid}
            results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "d"}]
            status = {"allocation": {"devices": {"results": results}}, "reservedFor": [user]}
            claim = await world.client.patch_object(RESOURCE_CLAIM, claim, {"status": status}, subresource="status")
            if has_arrived:
                target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "a"}}
                await world.client.post(POD, "p", "default", "binding", target)
            roster = SimpleNamespace(devices=SimpleNamespace(list_allocated=lambda _: {seen.metadata.uid: [claim]}))
            await DeviceClaims(world.client, world.clock, cast("Roster", roster)).give_back({seen.metadata.uid: seen})
            now = await world.client.get(RESOURCE_CLAIM, "c", "default")
            assert (now.status.allocation is not None) is has_arrived

    run_virtual(scenario())


def test_devices_are_taken_back_from_pods_of_which_some_are_seen_bound_meanwhile() -> None:
    """The pods are those of a gang without nodes, which lose one with each event of a late binding."""

    async def scenario() -> None:
        async with running(parts=[Part.SCHEDULING]) as plane:
            world = World(plane)
            unbound: dict[str, Pod] = {}
            claims: dict[str, list[ResourceClaim]] = {}
            for name in ("p", "q", "r"):
                document = {"metadata": {"name": name}, "spec": claiming("one") | {"schedulerName": "test"}}
                pod = await world.client.create(POD, msgspec.convert(document, Pod), "default")
                unbound[pod.metadata.uid], claims[pod.metadata.uid] = pod, []

            class LateBinding:
                """A connection on which the first answer comes after the event that one of the pods is bound."""

                async def request(self, request: Request):
                    if len(unbound) == len(claims):
                        unbound.popitem()
                    asked.append(request.path.rpartition("/")[2])
                    return await world.client.transport.request(request)

            asked: list[str] = []
            client = Client(cast("Any", LateBinding()))
            roster = SimpleNamespace(devices=SimpleNamespace(list_allocated=lambda _: claims))
            await DeviceClaims(client, world.clock, cast("Roster", roster)).give_back(unbound)
            assert asked == ["p", "q", "r"]

    run_virtual(scenario())


async def happen(world: World, chance: Chance, scheduling: Scheduling, made: int) -> int:
    """Something happens. Returns how many gangs were made so far."""
    match chance.randrange(6):
        case 0 | 1:
            await gang(world, f"g{made}", chance.randint(1, 4), f"t{chance.randint(1, 2)}")
            return made + 1
        case 2 | 3:
            if running := await run_now(world):
                job = chance.choice(running).metadata.labels[JOB_NAME]
                await end(world, [pod for pod in running if pod.metadata.labels.get(JOB_NAME) == job])
        case 4:
            await scheduling.kill()
            scheduling.start()
    return made


async def run_now(world: World) -> list[Pod]:
    return [pod for pod in await world.pods() if pod.spec.node_name and not is_finished(pod)]


async def end(world: World, pods: list[Pod]) -> None:
    for pod in pods:
        await world.finish(pod)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_lost_no_device_is_given_twice_and_none_stays_held(seed):
    @virtual
    async def scenario(world):
        chance, made = Chance(seed), 0
        await gpu_class(world)
        for name, devices in NODES.items():
            await device_node(world, name, devices)
        for number in (1, 2):
            await device_template(world, f"t{number}", count=number)
        scheduling = Scheduling(world, chance)
        scheduling.start()
        for _ in range(STEPS):
            made = await happen(world, chance, scheduling, made)
            await asyncio.sleep(chance.random() * 2)
            await check(world)
        scheduling.fails = False
        await scheduling.kill()
        scheduling.start()
        await world.settle(400)
        await check(world)
        await at_rest(world)
        assert scheduling.misremembered() == []
        # All that waits gets its devices once all that runs has ended.
        for _ in range(made):
            await end(world, await run_now(world))
            await world.settle(70)
            await check(world)
        assert not [pod for pod in await world.pods() if not is_finished(pod)]
        assert (await world.client.list(RESOURCE_CLAIM, "default")).items == []
        await scheduling.kill()

    scenario()
