"""One queue in front of two clusters, for other kinds than the plain Job."""

from typing import Any

import msgspec
import pytest
from tests.system.integrations.queued_jobs import Queued
from tests.system.integrations.test_queued_jobsets import jobset, role, running, see
from tests.system.multikueue.federation import Federation, federated, federation
from tests.system.workers.worker_world import status

from muster.actions.jobs.cancelling import cancel
from muster.api.batch import JOB
from muster.api.config import EMBEDDED
from muster.api.core import EVENT, POD, Pod
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import POD_GROUP_NAME_LABEL, POD_GROUP_TOTAL_COUNT, QUEUE_NAME_LABEL
from muster.api.managed.pods import is_held
from muster.api.ours.simulated import RUN_TIME
from muster.multicluster.mirrors.pods import PodMirror
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response


def elastic(annotation: str = "kueue.x-k8s.io/elastic-job", value: str = "true") -> Any:
    """The metadata of a Job that may change size."""
    return {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "cq"}, "annotations": {annotation: value}}


async def where(f: Federation, name: str) -> dict[str, int]:
    """In which clusters pods of a JobSet run, and how many."""
    counts = {cluster: await running(q, name) for cluster, q in {"here": f.here, **f.workers}.items()}
    return {cluster: count for cluster, count in counts.items() if count}


def roles(seconds: float | None = None) -> tuple[Any, Any]:
    pod = {"annotations": {RUN_TIME: f"{seconds}s" if seconds is not None else "1000000s"}}
    return role("workers", 2, pod=pod), role("driver", pod=pod)


async def left(f: Federation) -> int:
    """Jobs, JobSets, Workloads and pods in the workers."""
    count = 0
    for q in f.workers.values():
        kinds: tuple[Kind[Any], ...] = (JOB, JOB_SET, POD)
        for kind in kinds:
            count += len((await q.client.list(kind, "default")).items)
        count += len(await q.workloads())
    return count


@federated()
async def test_a_jobset_runs_whole_in_one_cluster_and_ends_here(f: Federation) -> None:
    await f.queues()
    await jobset(f.here, "js", *roles(60))
    await f.settle()
    found = await where(f, "js")
    assert list(found.values()) == [3]
    assert found.keys() <= f.workers.keys()
    here = await see(f.here, "js")
    assert here.spec.managed_by == "kueue.x-k8s.io/multikueue"
    assert [(one.name, one.active) for one in here.status.replicated_jobs_status] == [("workers", 2), ("driver", 1)]
    assert (await f.here.client.list(JOB, "default")).items == []
    await f.settle(120)
    assert (await f.here.state("js"))["Finished"] == "True Succeeded"
    assert (await see(f.here, "js")).status.terminal_state == "Completed"
    assert await left(f) == 8  # with its output, until it is deleted here
    await f.here.client.delete(JOB_SET, "js", "default")
    await f.settle(20)
    assert await left(f) == 0


@federated()
async def test_a_jobset_that_is_evicted_there_or_here_queues_again(f: Federation) -> None:
    await f.queues()
    await jobset(f.here, "js", *roles())
    await f.settle()
    (home,) = await where(f, "js")
    await f.workers[home].evict("js")
    await f.settle(120)
    assert list((await where(f, "js")).values()) == [3]
    await f.here.evict("js")
    await f.settle(120)
    assert list((await where(f, "js")).values()) == [3]
    await f.here.client.delete(JOB_SET, "js", "default")
    await f.settle(120)
    assert await left(f) == 0


@federated()
async def test_a_jobset_in_a_cluster_that_is_lost_for_good_runs_in_the_other(f: Federation) -> None:
    await f.queues()
    await jobset(f.here, "js", *roles())
    await f.settle()
    (home,) = await where(f, "js")
    other = "b" if home == "a" else "a"
    f.lines[home].cut()
    await f.settle(1200)
    assert await where(f, "js") == {home: 3, other: 3}
    f.lines[home].mend()
    await f.settle(600)
    assert await where(f, "js") == {other: 3}


async def version(f: Federation, cluster: str) -> str:
    """Changes with every write to the Workload of the Job there."""
    return (await f.workers[cluster].workload()).metadata.resource_version


@federated()
async def test_an_elastic_job_that_shrinks_here_shrinks_there(f: Federation) -> None:
    await f.queues()
    await f.job("j", 3, metadata=elastic())
    await f.settle()
    (home,) = await f.where()
    assert await f.where() == {home: 3}
    await f.here.change("j", spec={"parallelism": 2, "completions": 2})
    await f.settle(60)
    assert await f.where() == {home: 2}
    assert (await f.check()).startswith("Ready")
    assert (await f.here.held(), await f.workers[home].held()) == (2, 2)
    before = await version(f, home)
    await f.settle(60)
    assert await version(f, home) == before, "and all is quiet"


async def resize(f: Federation, size: int) -> None:
    await f.here.change("j", spec={"parallelism": size, "completions": size})
    await f.settle(60)


async def uids(q: Queued) -> set[str]:
    """Of the pods of the Job that run there."""
    return {pod.metadata.uid for pod in await q.world.pods("j") if pod.status.phase == "Running"}


@federated()
async def test_an_elastic_job_that_grows_here_grows_there_and_nothing_of_it_stops(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2, metadata=elastic())
    await f.settle()
    (home,) = await f.where()
    before = await uids(f.workers[home])
    await resize(f, 3)
    assert await f.where() == {home: 3}
    assert before < await uids(f.workers[home])
    assert (await f.here.held(), await f.workers[home].held()) == (3, 3)
    assert await f.check() == f'Ready: The workload was admitted on "{home}"'
    assert (await f.here.now()).status.active == 3
    version_before = await version(f, home)
    await f.settle(60)
    assert await version(f, home) == version_before, "and all is quiet"


@federated()
async def test_what_the_worker_has_no_quota_for_waits_there_and_the_rest_runs_on(f: Federation) -> None:
    await f.queues()
    for worker in f.workers.values():
        await worker.job("x", 2)
    await f.job("j", 2, metadata=elastic())
    await f.settle()
    (home,) = await f.where()
    before = await uids(f.workers[home])
    await resize(f, 4)
    assert await uids(f.workers[home]) == before
    assert (await f.here.held(), await f.workers[home].held()) == (4, 2)
    assert await f.check() == f'Ready: The workload was admitted on "{home}", where it waits for quota for 2 more pods'
    await f.workers[home].client.delete(JOB, "x", "default")
    await f.settle(60)
    assert before < await uids(f.workers[home])
    assert await f.where() == {home: 4}
    assert await f.check() == f'Ready: The workload was admitted on "{home}"'


@federated()
async def test_it_does_not_grow_there_before_it_has_quota_for_all_of_that_here(f: Federation) -> None:
    await f.queues(3)
    await f.job("j", 2, metadata=elastic())
    await f.settle()
    (home,) = await f.where()
    before = await uids(f.workers[home])
    await resize(f, 4)
    assert await uids(f.workers[home]) == before
    assert (await f.workers[home].now()).spec.parallelism == 2
    here = await f.here.workload()
    await f.here.client.patch(WORKLOAD, here.metadata.name, {"spec": {"priority": 7}}, "default")
    await f.settle(60)
    there = await f.workers[home].workload()
    assert (there.spec.priority, there.spec.pod_sets[0].count) == (7, 2), "what else changes goes there"
    await resize(f, 3)
    assert await f.where() == {home: 3}
    await resize(f, 1)
    assert await f.where() == {home: 1}
    assert (await f.here.held(), await f.workers[home].held()) == (1, 1)


@federated()
async def test_a_worker_that_lets_no_workload_grow_once_it_has_quota_keeps_the_job_as_it_is(f: Federation) -> None:
    """As Kueue's server does."""

    asked = 0

    def refuse(request: Request) -> Response | None:
        nonlocal asked
        if request.method != "PATCH" or b"/spec/podSets" not in (request.body or b""):
            return None
        asked += 1
        if asked == 1:
            return status(503, "ServiceUnavailable")
        return status(403, "Forbidden", "spec.podSets: field is immutable")

    await f.queues()
    await f.job("j", 2, metadata=elastic())
    await f.settle()
    (home,) = await f.where()
    before = await uids(f.workers[home])
    f.lines[home].spoil = refuse
    await resize(f, 3)
    await f.settle(600)
    assert await uids(f.workers[home]) == before
    assert (await f.workers[home].now()).spec.parallelism == 2
    assert (await f.here.held(), await f.workers[home].held()) == (2, 2)
    message = "which does not let it grow: spec.podSets: field is immutable"
    assert await f.check() == f'Ready: The workload was admitted on "{home}", {message}'
    assert asked == 2, "what passes is asked again, and a refusal is not"
    events = (await f.here.client.list(EVENT, "default")).items
    expected = f'Worker cluster "{home}": spec.podSets: field is immutable'
    assert [event.count for event in events if event.message == expected] == [1]
    await resize(f, 2)
    assert await f.check() == f'Ready: The workload was admitted on "{home}"'
    await resize(f, 3)
    assert (asked, await f.here.held()) == (3, 2), "another size was asked for in between"
    f.lines[home].spoil = lambda _: None
    await resize(f, 4)
    assert await f.where() == {home: 4}
    assert (await f.here.held(), await f.workers[home].held()) == (4, 4)
    assert before < await uids(f.workers[home])
    assert await f.check() == f'Ready: The workload was admitted on "{home}"'
    await resize(f, 3)
    f.lines[home].spoil = refuse
    await resize(f, 4)
    assert await f.where() == {home: 3}
    await f.here.evict()
    await f.settle(120)
    assert list((await f.where()).values()) == [4], "it begins anew with all of it"
    assert "grow" not in await f.check()


@federated()
async def test_a_job_that_is_cancelled_fails_here_and_is_gone_there(f: Federation) -> None:
    await f.queues()
    await f.job("j", 2, metadata=elastic())
    await f.settle()
    assert await f.where()
    assert await cancel(f.here.client, "j", "default") == "cancelled"
    await f.settle(60)
    assert (await f.where(), await f.clones()) == ({}, [])
    assert [one.message for one in (await f.here.now()).status.conditions if one.type == "Failed"] == [
        "It was cancelled"
    ]
    assert (await f.here.state())["Finished"] == "True Failed"


@federated()
async def test_a_job_that_is_being_deleted_here_goes_there_and_is_not_made_again(f: Federation) -> None:
    await f.queues()
    kept = {"finalizers": ["example.com/kept"]}
    await f.job("j", 2, metadata=elastic() | kept)
    await f.settle()
    (home,) = await f.where()
    await f.here.client.delete(JOB, "j", "default")
    made = 0

    def count(request: Request) -> None:
        nonlocal made
        made += request.method == "POST" and request.path.endswith("/jobs")

    f.lines[home].spoil = count
    await f.settle(120)
    assert (await f.where(), made) == ({}, 0)


@federated("a")
async def test_a_job_with_bounds_has_the_size_there_that_it_has_here(f: Federation) -> None:
    await f.queues(a=4)
    await f.job("j", 4, metadata=elastic("muster.dev/elastic", "1:4"))
    await f.settle(60)
    assert await f.where() == {"a": 4}
    await f.workers["a"].job("x", 2)
    await f.settle(60)
    assert (await f.where(), await f.where("x")) == ({"a": 4}, {}), "its cluster does not move it: `x` waits"
    await f.here.change("j", spec={"parallelism": 2, "completions": 2})
    await f.settle(60)
    assert (await f.where(), await f.where("x")) == ({"a": 2}, {"a": 2})
    told = [pod.metadata.annotations.get("muster.dev/world") for pod in await f.workers["a"].world.pods("j")]
    assert told == ['{"size":2,"epoch":2}'] * 2


# Pods.


async def pod(f: Federation, name: str = "p", seconds: float | None = None, *, group: str = "", size: int = 0) -> None:
    """A pod in the queue, alone or in a group."""
    annotations = {RUN_TIME: f"{seconds}s" if seconds is not None else "1000000s"}
    labels = {QUEUE_NAME_LABEL: "cq"}
    if group:
        labels[POD_GROUP_NAME_LABEL], annotations[POD_GROUP_TOTAL_COUNT] = group, str(size)
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    document = {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    await f.here.client.create(POD, msgspec.convert(document, Pod), "default")


async def pods(f: Federation) -> dict[str, list[str]]:
    """By cluster, the pods that have a node there and have not ended."""
    found = {}
    for cluster, q in {"here": f.here, **f.workers}.items():
        there = (await q.client.list(POD, "default")).items
        names = sorted(
            one.metadata.name for one in there if one.spec.node_name and one.status.phase in ("Pending", "Running")
        )
        if names:
            found[cluster] = names
    return found


async def phase(f: Federation, name: str = "p") -> str:
    return (await f.here.client.get(POD, name, "default")).status.phase


@federated()
async def test_a_pod_runs_in_one_cluster_and_its_gate_here_stays(f: Federation) -> None:
    await f.queues()
    await pod(f, seconds=60)
    await f.settle(20)
    found = await pods(f)
    assert list(found.values()) == [["p"]]
    assert found.keys() <= f.workers.keys()
    here = await f.here.client.get(POD, "p", "default")
    assert is_held(here)
    assert here.status.phase == "Running"
    assert (await f.here.state("p"))["PodsReady"] == "True Started"
    await f.settle(120)
    assert await phase(f) == "Succeeded"
    assert (await f.here.state("p"))["Finished"] == "True Succeeded"
    assert await left(f) == 2
    await f.here.client.delete(POD, "p", "default")
    await f.settle(20)
    assert await left(f) == 0


@federated()
async def test_a_pod_that_is_evicted_here_or_there_runs_again(f: Federation) -> None:
    await f.queues()
    await pod(f)
    await f.settle(20)
    await f.here.evict("p")
    await f.settle(120)
    assert list((await pods(f)).values()) == [["p"]]
    (home,) = await pods(f)
    await f.workers[home].evict("p")
    await f.settle(180)
    assert list((await pods(f)).values()) == [["p"]]
    assert await phase(f) == "Running"
    await f.here.client.delete(POD, "p", "default")
    await f.settle(120)
    assert (await pods(f), await left(f)) == ({}, 0)


@federated()
async def test_a_copy_that_lands_late_where_it_has_no_clone_never_runs_though_nothing_suspends_it(
    f: Federation,
) -> None:
    await f.queues()
    await pod(f)
    await f.settle(20)
    (home,) = await pods(f)
    other = "b" if home == "a" else "a"
    f.lines[other].cut()
    document = await f.here.client.get(POD.seen_as(dict), "p", "default")
    copy = PodMirror().copy(document, (await f.here.workload("p")).metadata.name, "multikueue")
    there = f.workers[other].client
    await there.create(POD.seen_as(dict), copy, "default")
    await f.settle(60)
    assert await pods(f) == {home: ["p"]}
    assert is_held(await there.get(POD, "p", "default"))
    f.lines[other].mend()
    await f.settle(100)
    assert await there.find(POD, "p", "default") is None
    assert await pods(f) == {home: ["p"]}


async def group(f: Federation, size: int = 3, seconds: float | None = None) -> None:
    for number in range(size):
        await pod(f, f"g-{number}", seconds, group="g", size=size)
    await f.settle(20)


ALL = ["g-0", "g-1", "g-2"]


@federated()
async def test_a_group_of_pods_runs_whole_in_one_cluster_and_ends_here(f: Federation) -> None:
    await f.queues()
    await group(f, 3, 60)
    found = await pods(f)
    assert list(found.values()) == [ALL]
    assert found.keys() <= f.workers.keys()
    assert [await phase(f, name) for name in ALL] == ["Running"] * 3
    assert (await f.here.state("g-0"))["PodsReady"] == "True Started"
    await f.settle(150)
    assert [await phase(f, name) for name in ALL] == ["Succeeded"] * 3
    assert (await f.here.state("g-0"))["Finished"] == "True Succeeded"
    assert await left(f) == 4
    await f.here.client.delete(POD, "g-1", "default")
    await f.settle(20)
    assert (await f.here.state("g-0"))["Finished"] == "True Succeeded"
    for name in ("g-0", "g-2"):
        await f.here.client.delete(POD, name, "default")
    await f.settle(20)
    assert await left(f) == 0


@federated()
async def test_two_groups_that_fit_no_cluster_together_go_to_one_each(f: Federation) -> None:
    await f.queues(a=3, b=3)
    await group(f)
    for number in range(3):
        await pod(f, f"h-{number}", group="h", size=3)
    await f.settle(60)
    assert sorted((await pods(f)).values()) == [ALL, ["h-0", "h-1", "h-2"]]


@federated()
async def test_a_group_that_is_evicted_here_or_there_runs_whole_again(f: Federation) -> None:
    await f.queues()
    await group(f)
    await f.here.evict("g-0")
    await f.settle(180)
    assert list((await pods(f)).values()) == [ALL]
    (home,) = await pods(f)
    await f.workers[home].evict("g-0")
    await f.settle(240)
    assert list((await pods(f)).values()) == [ALL]
    for name in ALL:
        await f.here.client.delete(POD, name, "default")
    await f.settle(180)
    assert (await pods(f), await left(f)) == ({}, 0)


@federated()
async def test_a_group_in_a_cluster_that_is_lost_for_good_runs_in_the_other(f: Federation) -> None:
    await f.queues()
    await group(f)
    (home,) = await pods(f)
    other = "b" if home == "a" else "a"
    f.lines[home].cut()
    await f.settle(1200)
    assert await pods(f) == {home: ALL, other: ALL}
    f.lines[home].mend()
    await f.settle(600)
    assert await pods(f) == {other: ALL}


@federated()
async def test_a_pod_of_a_group_that_is_deleted_here_goes_there_and_another_takes_its_place(f: Federation) -> None:
    await f.queues()
    await group(f)
    (home,) = await pods(f)
    await f.here.client.delete(POD, "g-1", "default")
    await f.settle(60)
    assert await pods(f) == {home: ["g-0", "g-2"]}
    await pod(f, "g-3", group="g", size=3)
    await f.settle(60)
    assert await pods(f) == {home: ["g-0", "g-2", "g-3"]}
    assert await phase(f, "g-3") == "Running"


@federated()
async def test_what_is_deleted_of_a_group_while_its_cluster_is_lost_goes_there_when_that_is_back(f: Federation) -> None:
    await f.queues()
    await group(f)
    (home,) = await pods(f)
    f.lines[home].cut()
    await f.settle(5)
    await f.here.client.delete(POD, "g-1", "default")
    await f.settle(60)
    assert await pods(f) == {home: ALL}
    f.lines[home].mend()
    await f.settle(200)
    assert await pods(f) == {home: ["g-0", "g-2"]}
    f.lines[home].cut()
    await f.settle(5)
    for name in ("g-0", "g-2"):
        await f.here.client.delete(POD, name, "default")
    await f.settle(60)
    f.lines[home].mend()
    await f.settle(20)
    assert (await pods(f), await left(f)) == ({}, 0)


@federated()
async def test_a_pod_of_another_maker_keeps_a_group_out_of_a_cluster(f: Federation) -> None:
    await f.queues()
    container = {"name": "c", "image": "none"}
    theirs = {"metadata": {"name": "g-2", "annotations": {RUN_TIME: "1000000s"}}, "spec": {"containers": [container]}}
    await f.workers["a"].client.create(POD, msgspec.convert(theirs, Pod), "default")
    await group(f)
    await f.settle(120)
    assert await pods(f) == {"a": ["g-2"], "b": ALL}


@pytest.mark.timeout(600)  # each write that it is killed after is a story in three clusters
def test_a_group_runs_once_whichever_write_its_manager_is_killed_after(long: bool) -> None:
    async def scenario(writes: int) -> bool:
        async with federation(EMBEDDED, ("a", "b"), writes) as f:
            await f.queues()
            await group(f, seconds=100)
            where = [await pods(f)]
            killed = f.dispatch.budget.left == 0
            await f.restart()
            for _ in range(40):
                where.append(await pods(f))
                await f.settle()
            assert [await phase(f, name) for name in ALL] == ["Succeeded"] * 3, f"after {writes} writes"
            assert all(len(clusters) <= 1 for clusters in where), f"after {writes} writes"
            assert await left(f) == 4, f"after {writes} writes"
            return killed

    writes = 2
    while run_virtual(scenario(writes)):
        writes += 1 if long else 8
    assert writes >= 8
