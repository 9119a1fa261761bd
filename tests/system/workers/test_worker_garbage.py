"""What was left behind in workers is removed, and nothing else is."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.system.plane import World
from tests.system.queueing.queueing_world import workload
from tests.system.workers.worker_world import Workers, managed, status, with_workers

from muster.api.batch import JOB, Job
from muster.api.config import EMBEDDED
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.values.durations import SECOND
from muster.runtime.clock import run_virtual
from muster.runtime.objects import meta_of
from muster.runtime.transport import Request, Response

LABEL = "kueue.x-k8s.io/multikueue-origin"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
CLONE = {"labels": {LABEL: "multikueue"}, "finalizers": ["kueue.x-k8s.io/resource-in-use"]}


async def job(world: World, name: str, **metadata: Any) -> Job:
    container = {"name": "c", "image": "none"}
    spec = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    document = {"metadata": {"name": name, **metadata}, "spec": spec}
    return await world.client.create(JOB, msgspec.convert(document, Job), "default")


def controlled_by(owner: Job) -> dict[str, Any]:
    meta = owner.metadata
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": meta.name, "uid": meta.uid, "controller": True}
    return {**CLONE, "ownerReferences": [reference]}


async def left(world: World) -> list[str]:
    """The workloads and jobs of a worker."""
    kinds: tuple[Kind[Any], ...] = (WORKLOAD, JOB)
    return sorted([meta_of(one).name for kind in kinds for one in (await world.client.list(kind)).items])


async def join(world: Workers) -> None:
    await world.secret("one")
    await world.cluster("one")
    await world.until_active("one")


async def sent(world: Workers, name: str) -> None:
    """A workload here that has quota and asks for a cluster."""
    made = await workload(world.manager, name, "q")
    await world.check("one")
    moment = "2026-01-01T00:00:00Z"
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "R", "message": "", "lastTransitionTime": moment}
    check = {"name": "check", "state": "Pending", "message": "", "lastTransitionTime": moment}
    podsets = [{"name": podset.name, "count": podset.count} for podset in made.spec.pod_sets]
    admission = {"clusterQueue": "cq", "podSetAssignments": podsets}
    status = {"conditions": [reserved], "admission": admission, "admissionChecks": [check]}
    await world.manager.client.patch(WORKLOAD, name, {"status": status}, "default", subresource="status")


@with_workers("one", configuration=EMBEDDED, alive=True)
async def test_clones_and_jobs_of_workloads_that_are_gone_are_removed(world: Workers) -> None:
    worker = world.workers["one"]
    await sent(world, "stays")
    await workload(worker, "stays", "q", metadata=CLONE)
    await job(worker, "stays-job", labels={LABEL: "multikueue", PREBUILT: "stays"})
    await workload(worker, "named", "q", metadata=CLONE)
    await job(worker, "named-job", labels={LABEL: "multikueue", PREBUILT: "named"})
    await job(worker, "annotated-job", labels={LABEL: "multikueue"}, annotations={PREBUILT: "no-clone"})
    await join(world)
    await world.manager.settle(100)
    assert await left(worker) == ["stays", "stays-job"]


@with_workers("one", configuration=EMBEDDED)
async def test_a_job_that_owns_a_clone_goes_though_it_does_not_name_it(world: Workers) -> None:
    worker = world.workers["one"]
    owner = await job(worker, "owner", labels={LABEL: "multikueue"})
    await workload(worker, "owned", "q", metadata=controlled_by(owner))
    await join(world)
    await world.manager.settle(100)
    found = await worker.client.get(JOB, "owner", "default")
    assert found.metadata.deletion_timestamp is not None
    assert found.metadata.finalizers == ("foregroundDeletion",)  # its pods go first


@with_workers("one", configuration=EMBEDDED)
async def test_what_is_not_ours_is_never_touched(world: Workers) -> None:
    worker = world.workers["one"]
    theirs = await job(worker, "theirs")
    other = await job(worker, "of-another-manager", labels={LABEL: "another", PREBUILT: "gone"})
    await workload(worker, "plain", "q")
    await workload(worker, "another", "q", metadata={"labels": {LABEL: "another"}})
    await workload(worker, "gone", "q", metadata=controlled_by(theirs))
    await workload(worker, "gone-too", "q", metadata=controlled_by(other))
    await join(world)
    await world.manager.settle(100)
    assert await left(worker) == ["another", "of-another-manager", "plain", "theirs"]


@with_workers("one", configuration=EMBEDDED)
async def test_many_are_removed_side_by_side(world: Workers) -> None:
    worker = world.workers["one"]
    for number in range(32):
        await workload(worker, f"w{number}", "q", metadata=CLONE)
    await join(world)
    world.lines["one"].delay = 10.0  # each takes two requests
    await world.manager.settle(120)
    assert await left(worker) == []


@with_workers("one", configuration=EMBEDDED)
async def test_one_refusal_leaves_no_more_under_way_than_there_may_be(world: Workers) -> None:
    worker, line, most = world.workers["one"], world.lines["one"], 0
    for number in range(32):
        await workload(worker, f"w{number:02}", "q", metadata=CLONE)
    await join(world)
    under_way: list[str] = []

    def begin(request: Request) -> float:
        nonlocal most
        if request.method == "GET" or request.path.endswith("w00"):
            return 0.0
        under_way.append(request.path)
        most = max(most, len(under_way))
        return 100.0

    def end(request: Request) -> Response | None:
        if request.path in under_way:
            under_way.remove(request.path)
        is_refused = request.method != "GET" and request.path.endswith("w00")
        return status(403, "Forbidden", "no\nERROR" + 1000 * "x") if is_refused else None

    line.seconds, line.spoil = begin, end
    await world.manager.settle(2000)
    assert most == 15
    assert await left(worker) == ["w00"]


@with_workers("one", configuration=EMBEDDED, alive=True)
async def test_a_deletion_that_a_lost_worker_missed_is_made_up_for(world: Workers) -> None:
    worker = world.workers["one"]
    await workload(world.manager, "w", "q", metadata={"finalizers": ["example.com/held"]})
    await workload(worker, "w", "q", metadata=CLONE)
    await join(world)
    world.lines["one"].cut()
    await world.until_active("one", "ClientConnectionFailed")
    await world.manager.client.delete(WORKLOAD, "w", "default")  # it is going, and held
    await world.manager.settle(600)
    assert await left(worker) == ["w"]
    world.lines["one"].mend()
    await world.manager.settle(600)
    assert await left(worker) == []


@with_workers("one", configuration=EMBEDDED)
async def test_a_clone_holds_its_quota_until_the_pods_of_its_job_have_ended(world: Workers) -> None:
    worker = world.workers["one"]
    await job(worker, "slow", labels={LABEL: "multikueue", PREBUILT: "w"}, finalizers=["example.com/pods"])
    await workload(worker, "w", "q", metadata=CLONE)
    await join(world)
    await world.manager.settle(300)
    assert await left(worker) == ["slow", "w"]
    await worker.client.patch(JOB, "slow", {"metadata": {"finalizers": None}}, "default")
    await world.manager.settle(10)
    assert await left(worker) == []


@pytest.mark.parametrize(("seconds", "leaves"), [(0, ["w"]), (7200, ["w"]), (10, [])])
def test_how_often_is_looked_is_configured(seconds: int, leaves: list[str]) -> None:
    async def body() -> None:
        settings = replace(EMBEDDED.multi_kueue, gc_interval=seconds * SECOND)
        async with managed(configuration=replace(EMBEDDED, multi_kueue=settings)) as world:
            await workload(world.workers["one"], "w", "q", metadata=CLONE)
            await join(world)
            await world.manager.settle(3600)
            assert await left(world.workers["one"]) == leaves

    run_virtual(body())


@with_workers("one", configuration=replace(EMBEDDED, multi_kueue=replace(EMBEDDED.multi_kueue, origin="east")))
async def test_the_origin_is_configured(world: Workers) -> None:
    worker = world.workers["one"]
    await workload(worker, "west", "q", metadata=CLONE)
    await workload(worker, "east", "q", metadata={"labels": {LABEL: "east"}})
    await join(world)
    await world.manager.settle(100)
    assert await left(worker) == ["west"]
