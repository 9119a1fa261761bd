"""One queue in front of two clusters: what users of the manager and of the workers see, in the KEP's own scenarios."""

import pytest
from tests.system.multikueue.federation import Federation, federated
from tests.system.plane import World, looks, virtual
from tests.system.queueing.queueing_world import admitted, finish, flavor, queue, workload
from tests.system.workers.worker_world import Spoil, status

from muster.api.batch import JOB
from muster.api.conditions import is_true
from muster.api.core import EVENT
from muster.api.kueue import CLUSTER_QUEUE, MULTI_KUEUE_CONFIG, WORKLOAD
from muster.api.kueue.names import MULTI_KUEUE_ORIGIN_UID
from muster.api.managed.dispatch import home_of
from muster.insight.quota.state import find_quota_state
from muster.insight.reader.jobs.rows import job_rows
from muster.runtime.transport import Request, Response


@federated()
async def test_a_job_runs_whole_in_one_cluster_and_looks_as_if_it_ran_here(f: Federation) -> None:
    await f.queues()
    await f.job("j", 3)
    await f.settle()
    where = await f.where()
    assert list(where.values()) == [3]
    (home,) = where
    assert home in f.workers
    assert await f.clones() == [home]
    assert await f.check() == f'Ready: The workload was admitted on "{home}"'
    assert (await f.here.workload()).status.cluster_name == home
    assert (await f.here.now()).status.active == 3


@federated()
async def test_what_ends_there_ends_here_and_stays_there_till_it_is_deleted_here(f: Federation) -> None:
    await f.queues(cpu=4, a=2, b=2)
    await f.job("j", 2, seconds=60)
    await f.settle()
    (home,) = await f.where()
    await f.settle(120)
    job, ended = await f.here.now(), await f.here.workload()
    assert is_true(job.status.conditions, "Complete")
    assert job.status.succeeded == 2
    assert (await f.here.state())["Finished"] == "True Succeeded"
    assert (await f.clones(), ended.status.cluster_name) == ([home], home)
    assert (home_of(ended.metadata), ended.metadata.finalizers) == ("", ())
    for name in ("k", "l"):  # what has ended holds no quota, here or there
        await f.job(name, 2)
    await f.settle()
    assert await f.where("k") | await f.where("l") == {"a": 2, "b": 2}
    await f.here.client.delete(JOB, "j", "default")
    await f.settle(20)  # garbage is collected each minute
    assert await f.clones() == []


@pytest.mark.parametrize("lost_seconds", [5, 120])
def test_what_has_ended_in_a_cluster_that_is_away_when_it_is_deleted_here_goes_later(lost_seconds: int) -> None:
    @federated()
    async def body(f: Federation) -> None:
        await f.queues()
        await f.job("j", 2, seconds=60)
        await f.settle(120)
        (home,) = await f.clones()
        f.lines[home].cut()
        await f.settle(5)
        await f.here.client.delete(JOB, "j", "default")
        await f.settle(lost_seconds)
        assert (await f.clones(), await workloads(f)) == ([home], 0)
        f.lines[home].mend()
        await f.settle(200)
        assert await f.clones() == []

    body()


@federated()
async def test_a_job_that_is_made_anew_under_a_name_that_has_ended_runs_at_once(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2, seconds=60)
    await f.settle(120)
    await f.here.client.delete(JOB, "j", "default", propagation="Background")
    await f.job("j", 2)
    await f.settle(20)
    (home,) = await f.where()
    assert await f.clones() == [home]


@federated()
async def test_a_job_waits_whole_and_goes_where_quota_is_free_first(f: Federation) -> None:
    await f.queues(a=2, b=2)
    for name, seconds in (("x", 500), ("y", 100)):
        await f.job(name, 2, seconds=seconds)
        await f.settle()
    await f.job("j", 2)
    await f.settle()
    assert await f.where("j") == {}
    (y,) = await f.where("y")
    await f.settle(200)
    assert await f.where("j") == {y: 2}


@federated()
async def test_suspended_or_deleted_here_it_goes_there(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    await f.here.evict()
    await f.settle(2)
    await f.settle(60)
    assert list((await f.where()).values()) == [2]  # evicted by preemption, it queues again
    await f.here.client.delete(JOB, "j", "default")
    await f.settle(120)
    assert (await f.where(), await f.clones()) == ({}, [])


@federated()
async def test_evicted_or_deleted_there_it_queues_here_again(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    (home,) = await f.where()
    await f.workers[home].client.delete(JOB, "j", "default")
    await f.settle(120)
    assert list((await f.where()).values()) == [2]
    (home,) = await f.where()
    await f.workers[home].evict()
    await f.settle(120)
    assert list((await f.where()).values()) == [2]


@federated()
async def test_a_lost_cluster_keeps_its_job_for_a_while_and_loses_it_then(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    (home,) = await f.where()
    other = "b" if home == "a" else "a"
    f.lines[home].cut()
    await f.settle(600)
    assert (await f.check()).startswith("Ready")
    assert await f.where() == {home: 2}
    await f.settle(600)
    assert await f.where() == {home: 2, other: 2}  # for longer than it may be lost
    (row,) = await job_rows(f.here.client, "default", f.here.world.clock.now(), pytest.fail)
    assert row["reason"] == (
        'lost its quota once, last: Evicted due to AdmissionCheck in Retry state: "multikueue" (Admitting remote lost)'
    )
    f.lines[home].mend()
    await f.settle(600)
    assert await f.where() == {other: 2}
    assert await f.clones() == [other]


@federated()
async def test_a_lost_cluster_that_is_back_in_time_goes_on_with_its_job(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2, seconds=300)
    await f.settle()
    (home,) = await f.where()
    f.lines[home].cut()
    await f.settle(600)
    f.lines[home].mend()
    await f.settle(400)
    assert is_true((await f.here.now()).status.conditions, "Complete")


@federated()
async def test_a_job_of_another_maker_in_a_worker_is_never_touched(f: Federation) -> None:
    await f.queues()
    await f.workers["a"].job("j", 1, queue="")
    await f.job("j", 2)
    await f.settle(120)
    assert await f.where() == {"a": 1, "b": 2}
    await f.here.client.delete(JOB, "j", "default")
    await f.settle(120)
    assert await f.where() == {"a": 1}


@federated("a")
async def test_a_job_of_another_maker_is_told_of_where_it_bars_the_only_cluster_until_it_is_gone(f: Federation) -> None:
    await f.queues()
    await f.workers["a"].job("j", 1, queue="")
    await f.job("j", 2)
    await f.settle(200)
    sentence = "A job or PodGroup of the same name, which this manager did not make, is in: a"
    assert await f.check() == f"Pending: {sentence}"
    assert find_quota_state(await f.here.workload()).reason == sentence
    events = await f.here.world.plane.client().list(EVENT, "default")
    told = [event for event in events.items if event.message == sentence]
    assert [event.count for event in told] == [1], "once"
    await f.workers["a"].client.delete(JOB, "j", "default")
    await f.settle(120)
    assert await f.where() == {"a": 2}
    assert (await f.check()).startswith("Ready")


@federated()
async def test_a_job_with_our_mark_that_was_made_for_another_is_not_believed_and_gives_way(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    (home,) = await f.where()
    before = await f.workers[home].now()
    other = {"metadata": {"annotations": {MULTI_KUEUE_ORIGIN_UID: "other"}}}
    await f.workers[home].client.patch(JOB, "j", other, "default")
    await f.settle(120)
    ((home, count),) = (await f.where()).items()
    now = await f.workers[home].now()
    assert count == 2
    assert now.metadata.uid != before.metadata.uid
    assert now.metadata.annotations[MULTI_KUEUE_ORIGIN_UID] == (await f.here.now()).metadata.uid


@federated()
async def test_what_waits_in_a_cluster_goes_with_the_configuration_or_the_check(f: Federation) -> None:
    await f.queues(a=1, b=1)
    await f.job("j", 2)
    await f.settle()
    assert await f.clones() == ["a", "b"]
    await f.here.client.patch(MULTI_KUEUE_CONFIG, "multikueue", {"spec": {"clusters": ["b"]}})
    await f.settle()
    assert await f.clones() == ["b"]
    await f.here.client.patch(CLUSTER_QUEUE, "cq", {"spec": {"admissionChecksStrategy": None}})
    await f.settle()
    assert await f.clones() == []
    assert (await f.here.workload()).status.nominated_cluster_names == ()


@federated()
async def test_a_slow_cluster_holds_up_no_job_that_another_can_take(f: Federation) -> None:
    await f.queues(a=100, b=100)
    f.lines["a"].delay = 30.0
    for number in range(20):
        await f.job(f"j{number}", 1)
    await f.settle(20)
    assert [await f.where(f"j{number}") for number in range(20)] == [{"b": 1}] * 20


@federated("a")
async def test_what_a_cluster_refuses_is_told_once_and_tried_more_seldom(f: Federation) -> None:
    await f.queues()
    asked = []

    def refuse(request: Request) -> Response | None:
        if request.method != "POST":
            return None
        asked.append(f.here.world.clock.now())
        return status(403, "Forbidden", "no such thing")

    f.lines["a"].spoil = refuse
    await f.job("j", 1)
    await f.settle(600)
    assert 5 <= len(asked) <= 15
    events = (await f.here.client.list(EVENT, "default")).items
    told = [event.count for event in events if event.message == 'Worker cluster "a": no such thing']
    assert told == [1]
    f.lines["a"].spoil = lambda _: None
    await f.settle(130)
    assert await f.where() == {"a": 1}


@federated()
async def test_a_worker_without_the_queue_is_passed_over(f: Federation) -> None:
    await f.here.queue(100, admissionChecksStrategy={"admissionChecks": [{"name": "multikueue"}]})
    await f.workers["b"].queue(4)
    await f.job("j", 2)
    await f.settle(60)
    assert await f.where() == {"b": 2}


@federated()
async def test_what_is_left_behind_is_collected(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    (home,) = await f.where()
    f.lines[home].cut()
    await f.settle(5)
    await f.here.client.delete(JOB, "j", "default")
    await f.settle(60)
    assert await workloads(f) == 1  # it holds its quota here while it may run there
    f.lines[home].mend()
    await f.settle(600)
    assert (await f.where(), await f.clones(), await workloads(f)) == ({}, [], 0)


@federated()
async def test_deleted_here_it_goes_there_at_once_and_its_quota_after_it(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2)
    await f.settle()
    await f.here.client.delete(JOB, "j", "default")
    await f.settle(20)  # garbage is collected each minute
    assert (await f.where(), await f.clones(), await workloads(f)) == ({}, [], 0)


async def workloads(f: Federation) -> int:
    return len((await f.here.client.list(WORKLOAD, "default")).items)


@federated()
async def test_a_worker_that_does_not_take_jobs_of_a_kind_is_not_asked(f: Federation) -> None:
    for name, line in f.lines.items():
        line.spoil = lambda request: status(403, "Forbidden") if request.path.endswith("/jobs") else None
        line.break_streams()
        await f.settle(100)
        if name == "a":
            await f.queues()
            await f.job("j", 2)
            await f.settle()
            assert await f.clones() == ["b"]
            await f.here.client.delete(JOB, "j", "default")
    await f.job("k", 2)
    await f.settle(100)
    assert await f.clones("k") == []
    f.lines["a"].spoil = lambda _: None
    await f.settle(100)
    assert await f.where("k") == {"a": 2}


@federated("a", "b", "c")
async def test_what_a_job_asks_of_its_workers(f: Federation) -> None:
    """One of those with room is asked, and told what runs there, once. The others hear nothing of it."""
    asked: dict[str, list[str]] = {name: [] for name in f.lines}

    def what(path: list[str]) -> str:
        return path[6] if len(path) > 6 else path[-1]

    def heard(name: str) -> Spoil:
        return lambda request: asked[name].append(f"{request.method} {what(request.path.split('/'))}")

    for name, line in f.lines.items():
        line.spoil = heard(name)
    await f.queues()
    await f.job("j", seconds=1)
    await f.settle(30)
    assert sorted(asked.values()) == [[], [], ["POST workloads", "POST jobs"]]


@federated("a", "b", "c")
async def test_what_a_job_asks_of_its_manager(f: Federation) -> None:
    """The clone is made from the answer to its nomination. A fresh read confirms the home before the job is made."""
    await f.queues()
    f.dispatch.wire.reads.clear()
    await f.job("j", seconds=1)
    await f.settle(30)
    name = (await f.here.workload()).metadata.name
    reads = [request.path.rpartition("/")[2] for request in f.dispatch.wire.reads]
    assert [one for one in reads if one in (name, "j")] == [name, "j"]
    assert len(await f.clones()) == 1


@virtual
async def test_where_there_is_no_other_cluster_no_workload_is_reconciled_for_one(world: World) -> None:
    await flavor(world)
    await queue(world, "cq", 4)
    await workload(world, "w", "cq")
    await world.settle(1)
    assert await admitted(world) == ["w"]
    await finish(world, "w")
    await world.settle(1)
    assert looks(world.plane, "multikueue-workload") == 0
    await world.client.delete(WORKLOAD, "w", "default")
    await world.settle(1)
    assert looks(world.plane, "multikueue-workload") == 1
