"""Elastic Jobs with quota: it follows their size up and down while they run."""

from typing import Any

import msgspec
import pytest
from tests.system.integrations.queued_jobs import Queued, story
from tests.system.queueing import queueing_world

from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.core import EVENT, POD, PodSchedulingGate
from muster.api.kueue import LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS, WorkloadPriorityClass
from muster.api.kueue.names import PRIORITY_CLASS_LABEL
from muster.api.ours.elastic import CAP_ANNOTATION, ELASTIC_ANNOTATION
from muster.jobs.job.world import world_of

KUEUE = {"kueue.x-k8s.io/elastic-job": "true"}
OURS = {ELASTIC_ANNOTATION: "1:4"}


async def elastic(q: Queued, name: str = "j", workers: int = 2, annotations: Any = None, **spec: Any) -> None:
    await q.job(name, workers, metadata={"annotations": annotations or KUEUE}, **spec)


async def scale(q: Queued, size: int, name: str = "j") -> None:
    await q.change(name, spec={"parallelism": size, "completions": size})


async def usage(q: Queued, name: str = "j") -> str:
    admission = (await q.workload(name)).status.admission
    assert admission is not None
    return str(admission.pod_set_assignments[0].resource_usage["cpu"])


async def gated(q: Queued, name: str = "j") -> list[str]:
    """The indexes of the pods that wait for quota."""
    gate = "kueue.x-k8s.io/elastic-job"
    pods = [pod for pod in await q.world.pods(name) if any(one.name == gate for one in pod.spec.scheduling_gates)]
    return sorted(pod.metadata.labels.get("batch.kubernetes.io/job-completion-index", "-") for pod in pods)


@story
async def test_pitfall_40_e53_a_running_job_shrinks_and_the_next_one_starts(q):
    await q.queue(cpu=4)
    await elastic(q, workers=4)
    uids = {pod.metadata.uid for pod in await q.world.pods()}
    await q.job("next", 2)
    assert await q.running("next") == []
    await scale(q, 2)
    assert (await q.running(), await q.held(), await usage(q)) == ([0, 1], 2, "2")
    assert await q.running("next") == [0, 1]
    assert {pod.metadata.uid for pod in await q.world.pods()} < uids | {
        pod.metadata.uid for pod in await q.world.pods("next")
    }
    assert not any(line.startswith("Stopped") for line in await q.told())


@story
async def test_pitfall_40_e53_what_ended_in_the_part_that_is_gone_counts_no_more(q):
    await q.queue(cpu=4)
    await elastic(q, workers=4)
    pods = await q.world.pods()
    pods.sort(key=lambda pod: pod.metadata.labels["batch.kubernetes.io/job-completion-index"])
    for pod in pods[2:]:
        await q.world.finish(pod)
    await q.world.settle(30)
    assert [one.count for one in (await q.workload()).status.reclaimable_pods] == [2]
    await scale(q, 2)
    workload = await q.workload()
    assert (workload.status.reclaimable_pods, await q.held(), await usage(q)) == ((), 2, "2")
    await q.job("big", 3)
    assert await q.running("big") == [], "two of four CPUs are in use"
    await q.job("small", 2)
    assert await q.running("small") == [0, 1]


@story
async def test_an_index_that_ended_in_another_namespace_keeps_no_job_large(q):
    await q.queue(cpu=4)
    await elastic(q, workers=4, annotations=OURS)
    last = next(pod for pod in await q.world.pods() if pod.metadata.labels[COMPLETION_INDEX] == "3")
    await q.world.copy_elsewhere(last)
    await q.client.patch(POD, "stranger", {"status": {"phase": "Succeeded"}}, "other", subresource="status")
    await q.job("next", 2)
    await q.world.settle(30)
    assert (await q.running(), await q.running("next")) == ([0, 1], [0, 1])


@story
async def test_a_gated_pod_of_another_namespace_takes_no_place(q):
    await q.queue(cpu=4)
    await elastic(q, workers=2)
    [pod, _] = await q.world.pods()
    gate = PodSchedulingGate(name="kueue.x-k8s.io/elastic-job")
    gated_pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=(gate,)))
    await q.world.copy_elsewhere(gated_pod)
    await scale(q, 4)
    assert (await q.running(), await q.held()) == ([0, 1, 2, 3], 4)
    assert (await q.client.get(POD, "stranger", "other")).spec.scheduling_gates == (gate,)


@pytest.mark.parametrize("annotations", [KUEUE, OURS], ids=["kueue", "muster"])
def test_a_running_job_grows_into_free_quota(annotations):
    @story
    async def body(q):
        await q.queue(cpu=4)
        await elastic(q, annotations=annotations)
        before = {pod.metadata.uid for pod in await q.world.pods()}
        await scale(q, 4)
        assert (await q.running(), await q.held(), await usage(q)) == ([0, 1, 2, 3], 4, "4")
        assert before < {pod.metadata.uid for pod in await q.world.pods()}, "who ran was left alone"
        assert await gated(q) == []
        await q.job("next", 1)
        # Only who says between which sizes it may be moved makes room for others.
        makes_room = annotations is OURS
        assert await q.running("next") == ([0] if makes_room else [])
        assert await q.running() == ([0, 1, 2] if makes_room else [0, 1, 2, 3])

    body()


@story
async def test_who_waits_for_quota_starts_smaller_if_it_may(q):
    await q.queue(cpu=3)
    await elastic(q, workers=4, annotations=OURS)
    assert (await q.running(), await q.held()) == ([0, 1, 2], 3)
    events = (await q.client.list(EVENT, "default")).items
    assert "Shrunk from 4 to 3 workers: quota for 3 is free" in [event.message for event in events]


@story
async def test_it_makes_room_for_who_waits_for_quota_and_grows_back(q):
    await q.queue(cpu=4)
    await elastic(q, workers=4, annotations=OURS)
    await q.job("next", 2)
    assert (await q.running(), await q.running("next")) == ([0, 1], [0, 1])
    await q.client.delete(JOB, "next", "default")
    await q.world.settle(60)
    assert (await q.running(), await q.held()) == ([0, 1, 2, 3], 4)
    shrunk, grown = [one for one in q.world.plane.decisions.since(0) if one.what in ("Shrunk", "Grown")]
    assert (shrunk.name, shrunk.what, shrunk.pods_before, shrunk.pods) == ("j", "Shrunk", 4, 2)
    assert (shrunk.rule, [one.job for one in shrunk.others]) == ("MakesRoom", ["default/next"])
    assert (grown.name, grown.what, grown.pods_before, grown.pods, grown.rule) == ("j", "Grown", 2, 4, "Nodes")
    assert shrunk.uid == grown.uid != ""


@story
async def test_without_free_quota_it_runs_on_and_the_new_pods_wait(q):
    await q.queue(cpu=4)
    await elastic(q)
    await q.job("other", 2)
    await scale(q, 4)
    assert (await q.running(), await gated(q), await q.held()) == ([0, 1], ["2", "3"], 2)
    state = await q.state()
    assert (state["QuotaReserved"], state["Admitted"]) == ("True QuotaReserved", "True Admitted")
    await q.client.delete(JOB, "other", "default")
    await q.world.settle(30)
    assert (await q.running(), await gated(q), await q.held()) == ([0, 1, 2, 3], [], 4)


@story
async def test_it_grows_as_a_whole_or_not_at_all(q):
    await q.queue(cpu=4)
    await elastic(q)
    await scale(q, 6)
    assert (await q.running(), await q.held()) == ([0, 1], 2)
    assert len(await gated(q)) == 4
    await scale(q, 3)
    assert (await q.running(), await q.held(), await gated(q)) == ([0, 1, 2], 3, [])


@story
async def test_it_changes_its_mind_before_it_got_more(q):
    await q.queue(cpu=2)
    await elastic(q)
    await scale(q, 4)
    await scale(q, 2)
    assert (await q.running(), await q.held(), await gated(q)) == ([0, 1], 2, [])
    assert (await q.workload()).spec.pod_sets[0].count == 2


@story
async def test_evicted_while_it_waits_for_more_it_comes_back_in_its_new_size(q):
    await q.queue(cpu=2)
    await elastic(q)
    await scale(q, 4)
    await q.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "HoldAndDrain"}}, "default")
    await q.world.settle(30)
    assert (await q.running(), await q.held()) == ([], 0)
    await q.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "None"}}, "default")
    await q.world.settle(30)
    assert (await q.running(), await q.held()) == ([], 0), "now it needs quota for four"
    await scale(q, 2)
    assert (await q.running(), await q.held()) == ([0, 1], 2)


@story
async def test_more_quota_comes_from_the_same_flavor(q):
    await queueing_world.flavor(q.world, "small", nodeLabels={"zone": "a"})
    await queueing_world.flavor(q.world, "large", nodeLabels={"zone": "b"})
    quotas = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        for name, cpu in (("small", 2), ("large", 9))
    ]
    groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
    await queueing_world.queue(q.world, "cq", 0, resourceGroups=groups)
    await elastic(q)
    await scale(q, 4)
    assert (await q.running(), await q.held()) == ([0, 1], 2), "the other flavor has room, but a Job runs in one"


@story
async def test_pods_without_an_index_wait_until_as_many_are_granted(q):
    await q.queue(cpu=3)
    await q.job("j", 2, metadata={"annotations": KUEUE}, completionMode="NonIndexed", completions=10)
    await q.change(spec={"parallelism": 4})
    running = [pod for pod in await q.world.pods() if pod.status.phase == "Running"]
    assert (len(running), await gated(q), await q.held()) == (2, ["-", "-"], 2)
    await q.change(spec={"parallelism": 3})
    running = [pod for pod in await q.world.pods() if pod.status.phase == "Running"]
    assert (len(running), await gated(q), await q.held()) == (3, [], 3)


@story
async def test_the_scheduler_grows_it_no_further_while_pods_wait_for_quota(q):
    await q.queue(cpu=3)
    await elastic(q, annotations={ELASTIC_ANNOTATION: "1:50"})
    await q.world.settle(120)
    size = (await q.now()).spec.completions
    assert size is not None
    await q.world.settle(600)
    assert (await q.now()).spec.completions == size
    assert await q.running() == [0, 1] or await q.running() == [0, 1, 2]


@story
async def test_its_workers_learn_of_a_larger_world_only_once_it_has_quota(q):
    await q.queue(cpu=3)
    await q.job("other", 1)
    await elastic(q, annotations={ELASTIC_ANNOTATION: "1:3"})

    async def world():
        pods = [pod for pod in await q.world.pods("j") if pod.spec.node_name]
        return sorted({pod.metadata.annotations["muster.dev/world"] for pod in pods})

    await q.world.settle(60)
    assert (await q.now()).spec.completions == 2, "nodes have room, but quota has not"
    assert (await q.running(), await world()) == ([0, 1], ['{"size":2,"epoch":1}'])
    await q.client.delete(JOB, "other", "default")
    await q.world.settle(30)
    assert (await q.running(), await world()) == ([0, 1, 2], ['{"size":3,"epoch":2}'])


async def uids(q: Queued, name: str) -> set[str]:
    return {pod.metadata.uid for pod in await q.world.pods(name)}


async def epoch(q: Queued, name: str = "j") -> int:
    world = world_of((await q.now(name)).metadata)
    assert world is not None
    return world.epoch


@story
async def test_it_grows_as_far_as_quota_goes_although_nodes_have_room_for_more(q):
    await q.queue(cpu=6)
    await elastic(q, annotations={ELASTIC_ANNOTATION: "1:8"})
    await q.world.settle(120)
    assert (await q.running(), await q.held(), await gated(q)) == ([0, 1, 2, 3, 4, 5], 6, [])
    assert (await q.now()).metadata.annotations[CAP_ANNOTATION] == "6"
    assert await epoch(q) <= 3, "the new pods may have been born into the size that was too large"
    version = (await q.now()).metadata.resource_version
    await q.world.settle(600)
    assert (await q.now()).metadata.resource_version == version, "it stays so"


@story
async def test_when_quota_allows_its_largest_size_nothing_is_said_of_a_cap_any_more(q):
    await q.queue(cpu=8)
    await q.job("other", 3)
    await elastic(q, annotations={ELASTIC_ANNOTATION: "1:8"})
    await q.world.settle(60)
    assert (len(await q.running()), await gated(q)) == (5, [])
    await q.client.delete(JOB, "other", "default")
    await q.world.settle(60)
    assert (len(await q.running()), await gated(q)) == (8, [])
    assert CAP_ANNOTATION not in (await q.now()).metadata.annotations


@story
async def test_kueues_elastic_jobs_are_not_made_smaller(q):
    await q.queue(cpu=4)
    await elastic(q)
    await scale(q, 6)
    await q.world.settle(60)
    assert ((await q.now()).spec.completions, await gated(q)) == (6, ["2", "3", "4", "5"])


HIGH = {"metadata": {"name": "high"}, "value": 100}
RECLAIM = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


@story
async def test_two_queues_of_a_cohort_come_to_rest(q):
    await q.queue(cpu=2, cohortName="all", preemption=RECLAIM)
    await queueing_world.queue(q.world, "b", 6, flavor="f", cohortName="all", preemption=RECLAIM)
    await elastic(q, "e", 6, {ELASTIC_ANNOTATION: "1:6"}, queue="b")
    await q.job("big", 5)
    await q.world.settle(60)
    assert (await q.running("e"), await q.running("big")) == ([0, 1, 2, 3, 4, 5], []), "it is the queue's own"
    await q.job("rigid", 2)
    await q.world.settle(10)
    before = await uids(q, "rigid")
    await q.world.settle(120)
    assert (await q.running("rigid"), await uids(q, "rigid")) == ([0, 1], before)
    assert (await q.running("e"), await epoch(q, "e")) == ([0, 1, 2, 3, 4, 5], 1)


@story
async def test_growth_reclaims_nothing_from_another_queue(q):
    await q.queue(cpu=4, cohortName="all", preemption=RECLAIM)
    await queueing_world.queue(q.world, "b", 4, flavor="f", cohortName="all", preemption=RECLAIM)
    await elastic(q, "e", 2, {ELASTIC_ANNOTATION: "1:4"}, queue="b")
    await q.job("other", 2, queue="b")
    await q.job("rigid", 4)
    await q.client.delete(JOB, "other", "default")
    await q.job("more", 2)
    await q.world.settle(10)
    before = await uids(q, "rigid") | await uids(q, "more")
    await q.world.settle(120)
    assert await uids(q, "rigid") | await uids(q, "more") == before
    assert await epoch(q, "e") <= 3
    assert await gated(q, "e") == []


@story
async def test_who_could_evict_an_elastic_job_makes_it_shrink(q):
    await q.client.create(WORKLOAD_PRIORITY_CLASS, msgspec.convert(HIGH, WorkloadPriorityClass))
    await q.queue(cpu=4, preemption=RECLAIM)
    await elastic(q, workers=4, annotations=OURS)
    before = await uids(q, "j")
    await q.job("urgent", 2, labels={PRIORITY_CLASS_LABEL: "high"})
    await q.world.settle(30)
    assert (await q.running("urgent"), await q.running()) == ([0, 1], [0, 1])
    assert await uids(q, "j") < before
    assert "Evicted" not in await q.state()
    await q.job("whole", 3, labels={PRIORITY_CLASS_LABEL: "high"})
    await q.world.settle(30)
    assert await q.running("whole") == [], "to evict it would not do either"


@story
async def test_growth_that_waits_does_not_hold_up_a_strict_queue(q):
    await q.queue(cpu=4, queueingStrategy="StrictFIFO", preemption=RECLAIM)
    await elastic(q)
    await scale(q, 6)
    await q.job("next", 2)
    assert (await q.running("next"), await q.running()) == ([0, 1], [0, 1])


@story
async def test_what_was_lent_to_an_elastic_job_comes_back_without_an_eviction(q):
    await q.queue(cpu=4, cohortName="all", preemption=RECLAIM)
    await queueing_world.queue(q.world, "b", 4, flavor="f", cohortName="all", preemption=RECLAIM)
    await elastic(q, "e", 6, {ELASTIC_ANNOTATION: "1:8"}, queue="b")
    await q.world.settle(60)
    assert len(await q.running("e")) == 8
    await q.job("rigid", 4)
    await q.world.settle(10)
    before = await uids(q, "rigid")
    await q.world.settle(120)
    assert (await q.running("rigid"), await uids(q, "rigid"), await q.running("e")) == (
        [0, 1, 2, 3],
        before,
        [0, 1, 2, 3],
    )
    assert "Evicted" not in await q.state("e")
    assert await epoch(q, "e") <= 3
    await q.client.delete(JOB, "rigid", "default")
    await q.world.settle(60)
    assert (len(await q.running("e")), await gated(q, "e")) == (8, [])
