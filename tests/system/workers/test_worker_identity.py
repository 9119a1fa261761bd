"""Another cluster under a worker's name: it is not taken for the one that has our jobs."""

from typing import Any

import msgspec
import pytest
from tests.system.multikueue.federation import Federation, federated
from tests.system.plane import World, running
from tests.system.queueing.queueing_world import workload
from tests.system.workers.worker_world import Line, Workers, status

from muster.api.batch import JOB
from muster.api.kueue import MULTI_KUEUE_CLUSTER, MultiKueueCluster
from muster.api.managed.dispatch import HOME_ANNOTATION, home_of
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.multicluster.links.identity import IDENTITY_ANNOTATION, Identity, Register
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response

A, B, UNSEEN = Identity("a", "1"), Identity("b", "1"), Identity("", "2")
WIPED = "another cluster answers, or its store was wiped (kube-system is b, and was a): "
UNKNOWN = "perhaps another cluster answers (nothing is known by its namespace kube-system): "
RENAMED = "perhaps another cluster had this name before: "
LOST = "sent to the one before it count as lost, and go elsewhere after workerLostTimeout"


@pytest.mark.parametrize(
    ("before", "found", "homes", "jobs", "problem", "after"),
    [
        (None, A, 0, 0, "", A),
        (A, A, 2, 0, "", A),
        (A, B, 0, 0, "", B),
        (A, B, 2, 2, f"{WIPED}2 workloads {LOST}", A),
        (A, B, 1, 0, f"{WIPED}1 workload {LOST}", A),
        (A, UNSEEN, 0, 0, "", UNSEEN),
        (A, UNSEEN, 2, 0, f"{UNKNOWN}2 workloads {LOST}", A),
        (A, UNSEEN, 2, 1, "", Identity("a", "2")),  # a job is made at home alone
        (UNSEEN, A, 2, 0, f"{UNKNOWN}2 workloads {LOST}", UNSEEN),
        (UNSEEN, A, 2, 1, "", A),
        (None, A, 2, 0, f"{RENAMED}2 workloads {LOST}", None),
        (None, A, 2, 1, "", A),
    ],
)
def test_a_worker_is_used_as_the_cluster_that_it_was(
    before: Identity | None, found: Identity, homes: int, jobs: int, problem: str, after: Identity | None
) -> None:
    async def body() -> None:
        async with running(controllers=False) as plane:
            world = World(plane)
            document: dict[str, Any] = {
                "metadata": {"name": "w", "annotations": {IDENTITY_ANNOTATION: before.text} if before else {}},
                "spec": {"clusterSource": {"kubeConfig": {"location": "w", "locationType": "Secret"}}},
            }
            await world.client.create(MULTI_KUEUE_CLUSTER, msgspec.convert(document, MultiKueueCluster))
            for number in range(homes):
                await workload(world, f"home{number}", "q", metadata={"annotations": {HOME_ANNOTATION: "w"}})
            await workload(world, "elsewhere", "q", metadata={"annotations": {HOME_ANNOTATION: "v"}})
            there = {f"default/home{number}" for number in range(jobs)} | {"default/elsewhere"}
            assert await Register(world.client).admit("w", found, there.__contains__) == problem
            cluster = await world.client.get(MULTI_KUEUE_CLUSTER, "w")
            assert cluster.metadata.annotations.get(IDENTITY_ANNOTATION) == (after.text if after else None)

    run_virtual(body())


async def running_in(f: Federation) -> tuple[str, str]:
    """A job runs in one of two clusters; the other one."""
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    (home,) = await f.where()
    return home, "b" if home == "a" else "a"


def saying(f: Federation) -> Workers:
    return Workers(f.here.world, f.dispatch.fleet, {}, f.lines)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_another_cluster_lacks_is_not_gone_before_it_counts_as_lost(restarted: bool) -> None:
    @federated()
    async def body(f: Federation) -> None:
        home, other = await running_in(f)
        async with running(seed=9) as wiped:
            f.lines[home].lead_to(wiped)
            await f.settle(300)
            if restarted:
                await f.restart()
            await f.settle(500)
            assert await f.where() == {home: 2}
            assert (await f.check()).startswith("Ready")
            await saying(f).until_active(home, "ClientConnectionFailed", f"1 workload {LOST}")
            await f.settle(1000)
            assert await f.where() == {home: 2, other: 2}  # for longer than it may be lost
            await saying(f).until_active(home)
            f.lines[home].lead_to(f.workers[home].world.plane)
            await f.settle(700)
            assert await f.where() == {other: 2}

    body()


@federated()
async def test_a_cluster_that_is_itself_again_in_time_goes_on_with_its_job(f: Federation) -> None:
    home, _ = await running_in(f)
    async with running(seed=9) as another:
        f.lines[home].lead_to(another)
        await f.settle(500)
        f.lines[home].lead_to(f.workers[home].world.plane)
    await f.settle(2000)
    assert await f.where() == {home: 2}
    assert (await f.check()).startswith("Ready")


@pytest.mark.parametrize("shown", [True, False])
def test_another_address_of_the_same_cluster_changes_nothing(shown: bool) -> None:
    @federated()
    async def body(f: Federation) -> None:
        home, _ = await running_in(f)
        alias = f.lines["alias"] = Line(f.workers[home].world.plane)
        alias.spoil = lambda request: None if shown else hidden(request)
        await saying(f).secret(home, server="https://alias")
        await f.settle(2000)
        await saying(f).until_active(home)
        assert await f.where() == {home: 2}
        assert (await f.check()).startswith("Ready")

    body()


@federated()
async def test_a_kubeconfig_of_another_cluster_takes_no_home(f: Federation) -> None:
    home, other = await running_in(f)
    async with running(seed=9) as another:
        f.lines["another"] = Line(another)
        await saying(f).secret(home, server="https://another")
        await f.settle(800)
        assert await f.where() == {home: 2}
        await f.settle(800)
        assert await f.where() == {home: 2, other: 2}
        await saying(f).secret(home)
        await f.settle(100)
        assert await f.where() == {other: 2}


@federated()
async def test_no_home_is_given_up_before_it_is_known_which_cluster_says_that_it_is_empty(f: Federation) -> None:
    home, _ = await running_in(f)
    f.lines[home].seconds = lambda request: 40.0 if request.path.endswith("/kube-system") else 0.0
    f.lines[home].break_streams()
    await f.settle(2)
    await f.workers[home].client.delete(JOB, "j", "default")
    await f.settle(25)
    assert await f.clones() == []
    assert home_of((await f.here.workload()).metadata) == home
    await f.settle(100)
    assert list((await f.where()).values()) == [2]


@federated()
async def test_no_home_is_given_up_where_another_cluster_answers_before_a_watch_has_begun_there(f: Federation) -> None:
    home, _ = await running_in(f)
    async with running(seed=9) as another:
        f.lines[home].server = InProcessTransport(another.server)  # the watches of before go on
        await f.workers[home].client.delete(JOB, "j", "default")
        await f.settle(25)
        assert home_of((await f.here.workload()).metadata) == home
        assert (await saying(f).active(home))[1] == "ClientConnectionFailed"


def hidden(request: Request) -> Response | None:
    """It does not show which cluster it is."""
    return status(403, "Forbidden") if request.path == "/api/v1/namespaces/kube-system" else None
