"""What the nodes have is promised once, while teams come and go, nodes come and go, and the server dies between writes.

A team's queue and the queue of the nodes are two objects. The command that writes them may stop between the two, in any
order, and the engine hears of both late. All of it follows from a number, in virtual time.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from random import Random as Chance
from typing import Any

import pytest
from tests.system.commands.test_queue_commands import cluster
from tests.system.jobs.job_cluster import Wire
from tests.system.mortal_engine import Engine
from tests.system.plane import World, running, virtual
from tests.system.queueing import queueing_world as words
from tests.system.queueing.quota_audit import reserved

from muster.actions.errors import UserError
from muster.actions.quota.editedqueue import QueueEdit, make_spec_patch
from muster.actions.quota.queues import create_all, edit
from muster.actions.quota.teams import find_division, open_cohort
from muster.actions.server.session import Session
from muster.api.conditions import is_true
from muster.api.core import NODE
from muster.api.kinds import Kind
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, Workload
from muster.api.status import ApiError
from muster.cli.actions.queues.newqueue import NewQueue, make_documents
from muster.cluster.controlplane import ControlPlane
from muster.cluster.defaultqueue import QUEUE, create_default_queue
from muster.insight.forecasts.forecast import Outlook
from muster.insight.reader.forecasts.waiting import snapshot_of
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.memo import Memo
from muster.insight.reader.listing.missing import update_missing
from muster.queueing.additions import Completion
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random

TEAMS = ("vision", "speech")
CPUS = 4  # of each node


class Auditor:
    """Looks at every change of a workload: quota is only given while there is room for it on the nodes."""

    def __init__(self, plane: ControlPlane) -> None:
        self.allowed = 0  # what the nodes have had since the engine had heard of everything
        self.findings: list[str] = []
        self._last = 0
        self._manager = Manager(plane.client(), plane.inputs.clock, Random(7))
        self._workloads = self._manager.informer(WORKLOAD)
        self._workloads.on_change(self._look)
        self._run = asyncio.create_task(self._manager.run())

    def _look(self, _old: Workload | None, _new: Workload | None) -> None:
        held = reserved(self._workloads.all())
        total = sum(amount for cell, amount in held.items() if cell.resource == "cpu") // 1000
        if total > max(self._last, self.allowed):
            self.findings.append(f"{total} CPUs of {self.allowed} were given: {dict(held)}")
        self._last = total

    async def stop(self) -> None:
        await self._manager.stop()
        await self._run


class Story:
    """What an administrator and users do, and what nodes do."""

    def __init__(self, world: World, engine: Engine, auditor: Auditor, chance: Chance) -> None:
        self.world, self.client, self.engine, self.auditor, self.chance = world, world.client, engine, auditor, chance
        self.log: list[str] = []
        self._made = 0

    def say(self, what: str) -> None:
        self.log.append(f"{self.world.clock.monotonic():.3f}: {what}")

    async def step(self) -> None:
        deeds = [self.submit] * 5 + [self.end] * 3 + [self.create] * 3 + [self.edit, self.move, self.delete, self.nodes]
        try:
            await self.chance.choice(deeds)()
        except ApiError as error:
            if error.code not in (403, 404, 409, 422):  # as some deeds do not go together
                raise
        await self.engine.live(self.chance.choice((0.0, 0.01, 0.1, 1.0, 5.0)))
        for one in await self.workloads():
            if is_true(one.status.conditions, "Evicted") and is_true(one.status.conditions, "QuotaReserved"):
                await words.give_back(self.world, one.metadata.name)

    async def workloads(self) -> list[Workload]:
        return (await self.client.list(WORKLOAD, "default")).items

    async def submit(self) -> None:
        self._made += 1
        queue, cpus = self.chance.choice(("default", *TEAMS)), self.chance.choice((1, 2, 4, 8))
        self.say(f"w{self._made} of {cpus} to {queue}")
        await words.workload(self.world, f"w{self._made}", queue, 1, count=cpus)

    async def end(self) -> None:
        holders = [one for one in await self.workloads() if one.status.admission is not None]
        unfinished = [one.metadata.name for one in holders if not is_true(one.status.conditions, "Finished")]
        if unfinished:
            name = self.chance.choice(unfinished)
            self.say(f"{name} ends")
            await words.finish(self.world, name)

    async def create(self) -> None:
        """Make a team as the command does; the command may be killed after any write, and the order may be another."""
        division = await find_division(self.client)
        name, cpus = self.chance.choice(TEAMS), self.chance.choice(("0", "2", "4", "8"))
        cohort = self.chance.choice((division.cohort, division.cohort, "", "elsewhere"))
        lending = {"cpu": "0"} if cohort and self.chance.random() < 0.3 else {}
        about = NewQueue(name, {"cpu": cpus}, flavor=division.flavor, cohort=cohort, lending=lending, part_of=QUEUE)
        kinds: dict[str, Kind[Any]] = {CLUSTER_QUEUE.kind: CLUSTER_QUEUE, LOCAL_QUEUE.kind: LOCAL_QUEUE}
        writes = [None, *(one for one in make_documents(about) if one["kind"] in kinds)]
        self.chance.shuffle(writes)
        for document in writes[: self.chance.choice((1, 2, 3, 3, 3))]:
            self.say(f"create {document['kind'] if document else 'cohort'} {name} {cpus} in {cohort}")
            if document is None:
                await open_cohort(self.client, division)
            else:
                namespace = document["metadata"].get("namespace", "")
                await self.client.create(kinds[document["kind"]].seen_as(dict), document, namespace)
            await self.engine.live(self.chance.choice((0.0, 0.0, 0.3)))

    async def edit(self) -> None:
        name, cpus = self.chance.choice(TEAMS), self.chance.choice(("0", "2", "4", "8"))
        self.say(f"{name} gets {cpus}")
        queue = await self.client.get(CLUSTER_QUEUE.seen_as(dict), name)
        queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpus
        await self.client.update(CLUSTER_QUEUE.seen_as(dict), queue)

    async def move(self) -> None:
        name, cohort = self.chance.choice((*TEAMS, QUEUE)), self.chance.choice(("", "muster-teams", "elsewhere"))
        self.say(f"{name} goes to {cohort}")
        await self.client.patch(CLUSTER_QUEUE, name, {"spec": {"cohortName": cohort or None}})

    async def delete(self) -> None:
        name = self.chance.choice(TEAMS)
        self.say(f"{name} is deleted")
        await self.client.delete(CLUSTER_QUEUE, name)
        await self.client.delete(LOCAL_QUEUE, name, "default")

    async def nodes(self) -> None:
        name, cordoned = self.chance.choice(("n", "m")), self.chance.random() < 0.5
        self.say(f"{name} is {'cordoned' if cordoned else 'back'}")
        await self.client.patch(NODE, name, {"spec": {"unschedulable": cordoned}})
        now = await self.capacity()
        self.auditor.allowed = max(self.auditor.allowed, now)
        await self.engine.live(1.0)
        self.auditor.allowed = now

    async def capacity(self) -> int:
        nodes = (await self.client.list(NODE)).items
        return sum(CPUS for node in nodes if not node.spec.unschedulable)


@asynccontextmanager
async def story(seed: int) -> AsyncIterator[Story]:
    chance = Chance(seed)

    def disturb(wire: Wire) -> None:
        wire.writes_left = chance.choice((chance.randrange(1, 20), chance.randrange(20, 200)))
        late = chance.choice((0.0, 0.0, 0.2))
        wire.lags = {kind: late * chance.random() for kind in ("workloads", "clusterqueues", "localqueues")}

    async with running(controllers=False, seed=seed) as plane:
        world = World(plane)
        for name in ("n", "m"):
            await world.node(name, cpu=str(CPUS))
        await create_default_queue(world.client, (await world.client.list(NODE)).items)
        engine, auditor = Engine(plane, disturb), Auditor(plane)
        await engine.start()
        auditor.allowed = 2 * CPUS
        try:
            yield Story(world, engine, auditor, chance)
        finally:
            await engine.stop()
            await auditor.stop()


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_promised_twice(seed):
    async def body():
        async with story(seed) as tale:
            for _ in range(40):
                await tale.step()
                assert tale.auditor.findings == [], "\n".join(tale.log)

    run_virtual(body())


async def _team(session: Session, cpus: str, *, cohort: str) -> None:
    quotas = {"cpu": cpus, "pods": "50"}
    queue = NewQueue("vision", quotas, flavor="muster-nodes", cohort=cohort, part_of=QUEUE)
    for document in make_documents(queue)[1:]:
        kind = CLUSTER_QUEUE if document["kind"] == CLUSTER_QUEUE.kind else LOCAL_QUEUE
        await session.client.create(kind.seen_as(dict), document, document["metadata"].get("namespace", ""))


async def _foresee_quota(session: Session) -> int:
    """Return the thousandths of CPUs that `why` and `plan` reckon with for the team."""
    snapshot = await snapshot_of(Lists(session.client), Completion())
    assert snapshot is not None
    quotas = Outlook(snapshot, "vision", "default", datetime.now(UTC)).tree.queues["vision"].policy.quotas
    return sum(quota.nominal for cell, quota in quotas.items() if cell.resource == "cpu")


async def _count_missing(session: Session, name: str) -> str:
    """Return what lists say that a waiting Workload lacks, whatever its queue has said of it."""
    uid = (await session.client.get(WORKLOAD, name, "default")).metadata.uid
    row = {"uid": uid, "reason": "insufficient unused quota for cpu in flavor muster-nodes, 99 more needed"}
    (updated,) = await update_missing(session.client, [row], "default", Memo())
    return str(updated["reason"]).rpartition(", ")[2]


@virtual
async def test_a_new_team_takes_back_what_others_use(world: World) -> None:
    session = await cluster(world)  # 4 CPUs
    await words.workload(world, "first", "default", count=4)
    await words.workload(world, "mine", "default", count=1)
    await open_cohort(session.client, await find_division(session.client))
    await _team(session, "2", cohort="muster-teams")
    await words.workload(world, "theirs", "vision", count=2)
    await world.settle(1)
    assert await words.is_(world, "first", "Evicted")
    assert not await words.is_(world, "theirs", "QuotaReserved")
    await words.give_back(world, "first")
    await world.settle(1)
    assert await words.admitted(world) == ["mine", "theirs"]


@virtual
async def test_a_team_apart_waits_until_its_quota_is_free(world: World) -> None:
    session = await cluster(world)
    for name in ("one", "two"):
        await words.workload(world, name, "default", count=2)
    await world.settle(1)
    await _team(session, "3", cohort="")
    await words.workload(world, "theirs", "vision", count=3)
    await world.settle(1)
    assert await words.admitted(world) == ["one", "two"]
    await words.finish(world, "one")
    await world.settle(1)
    assert await words.admitted(world) == ["two"]
    await words.finish(world, "two")
    await world.settle(1)
    assert await words.admitted(world) == ["theirs"]


@virtual
async def test_parts_shrink_with_the_nodes_and_grow_back(world: World) -> None:
    session = await cluster(world)
    await world.node("m", cpu="4")
    await world.settle(1)
    await _team(session, "8", cohort="")
    await world.client.patch(NODE, "m", {"spec": {"unschedulable": True}})
    await words.workload(world, "large", "vision", count=5)
    await words.workload(world, "small", "vision", count=4)
    await world.settle(1)
    assert await words.admitted(world) == ["small"]
    assert await _foresee_quota(session) == 4000, "forecasts reckon with the quota that was decided"
    assert await _count_missing(session, "large") == "5 more needed", "and so do lists"
    await world.client.patch(NODE, "m", {"spec": {"unschedulable": False}})
    await words.finish(world, "small")
    await world.settle(1)
    assert await words.admitted(world) == ["large"]


@virtual
async def test_quota_that_is_divided_is_not_edited_beside_its_parts(world: World) -> None:
    session = await cluster(world)
    await _team(session, "2", cohort="")
    wanted = partial(make_spec_patch, edit=QueueEdit(quotas={"cpu": "100"}))
    with pytest.raises(UserError, match=r"has what the nodes have, less the parts of teams \(vision\)"):
        await edit(session, QUEUE, wanted, lambda _: {}, dry_run=False)
    await session.client.delete(CLUSTER_QUEUE, "vision")
    await world.settle(1)
    assert await edit(session, QUEUE, wanted, lambda _: {}, dry_run=False) is not None
    with pytest.raises(UserError, match="let a queue follow the nodes again: kubectl annotate clusterqueue NAME"):
        await find_division(session.client)


@virtual
async def test_a_queue_that_exists_is_named(world: World) -> None:
    session = await cluster(world)
    await _team(session, "2", cohort="")
    made = make_documents(NewQueue("vision", {"cpu": "1"}, flavor="muster-nodes"))
    with pytest.raises(UserError, match="there is a ClusterQueue vision already: change it"):
        await create_all(session.client, made)
    names = {one.metadata.name for one in (await session.client.list(LOCAL_QUEUE, "default")).items}
    [local] = names - {"vision"}
    made = make_documents(NewQueue(local, {"cpu": "1"}, flavor="muster-nodes"))
    with pytest.raises(UserError, match=f"there is a LocalQueue {local} already: choose another name"):
        await create_all(session.client, made)
