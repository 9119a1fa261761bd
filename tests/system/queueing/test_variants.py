"""ClusterQueues that try several flavors at once (Kueue KEP-8691): parents, variants, and moves to better flavors."""

from typing import Any

import msgspec
import pytest
from tests.system.integrations.queued_jobs import Queued, configured
from tests.system.queueing import queueing_world
from tests.system.queueing.queue_samples import samples

from muster.api.batch import JOB
from muster.api.core import EVENT
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    AdmissionCheck,
    ClusterQueue,
    Workload,
)
from muster.api.managed.variants import flavor_of, is_parent, is_variant
from muster.insight.reader.jobs.job import investigate
from muster.insight.reader.jobs.rows import job_rows
from muster.insight.why import describe_levels
from muster.insight.why.sentences import describe_interruptions
from muster.queueing.variants.family import variant_of
from muster.queueing.workload.eviction import evict

GATES = "featureGates: {ConcurrentAdmission: true}\n"
BEST, MIDDLE, WORST = "reservation", "on-demand", "spot"
FLAVORS = (BEST, MIDDLE, WORST)
PREFER = {"migration": {"mode": "TryPreferredFlavors"}}
ONLY_TO_THE_BEST = {"migration": {"mode": "TryPreferredFlavors", "constraints": {"lastAcceptableFlavorName": BEST}}}
RETAIN = {"migration": {"mode": "RetainFirstAdmission"}}


def groups(**cpus: int) -> list[dict[str, Any]]:
    flavors = [
        {"name": name.replace("_", "-"), "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        for name, cpu in cpus.items()
    ]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


async def concurrent(q: Queued, policy: Any = PREFER, *, name: str = "cq", local: bool = True, **more: Any) -> None:
    """A ClusterQueue with two CPUs of each flavor, and a LocalQueue."""
    cpus = more.pop("cpus", {"reservation": 2, "on_demand": 2, "spot": 2})
    for flavor in FLAVORS:
        if await q.client.find(RESOURCE_FLAVOR, flavor) is None:
            await queueing_world.flavor(q.world, flavor, nodeLabels={"zone": "a"})
    spec = {"namespaceSelector": {}, "resourceGroups": groups(**cpus), "concurrentAdmissionPolicy": policy, **more}
    document = {"metadata": {"name": name}, "spec": {key: value for key, value in spec.items() if value is not None}}
    await q.client.create(CLUSTER_QUEUE, msgspec.convert(document, ClusterQueue))
    if local:
        await queueing_world.local_queue(q.world, name, name)
    await q.world.settle()


async def quotas(q: Queued, **cpus: int) -> None:
    await q.client.patch(CLUSTER_QUEUE, "cq", {"spec": {"resourceGroups": groups(**cpus)}})
    await q.world.settle(30)


async def parent(q: Queued, name: str = "j") -> Workload:
    return await q.workload(name)


async def variants(q: Queued, name: str = "j") -> dict[str, Workload]:
    uid = (await parent(q, name)).metadata.uid
    found = [one for one in await q.workloads() if any(owner.uid == uid for owner in one.metadata.owner_references)]
    assert all(map(is_variant, found))
    return {flavor_of(one): one for one in found}


async def runs_on(q: Queued, name: str = "j") -> str:
    """The flavor that the job was given; "" if it waits."""
    admission = (await parent(q, name)).status.admission
    return "" if admission is None else admission.pod_set_assignments[0].flavors["cpu"]


async def states(q: Queued, name: str = "j") -> dict[str, str]:
    """Of each variant: whether it holds quota, waits for it, or may not try."""

    def state(one: Workload) -> str:
        if one.status.admission is not None:
            return "holds"
        return "waits" if one.spec.active else "inactive"

    return {flavor: state(one) for flavor, one in (await variants(q, name)).items()}


async def reserved(q: Queued, queue: str = "cq") -> dict[str, str]:
    """The CPUs of each flavor for which quota is reserved."""
    status = (await q.client.get(CLUSTER_QUEUE, queue)).status
    return {
        one.name: str(one.resources[0].total)
        for one in status.flavors_reservation
        if str(one.resources[0].total) != "0"
    }


async def said(q: Queued, reason: str) -> list[str]:
    return [event.message for event in (await q.client.list(EVENT, "default")).items if event.reason == reason]


async def condition(q: Queued, workload: Workload, type_: str) -> tuple[str, str, str]:
    now = await q.client.get(WORKLOAD, workload.metadata.name, "default")
    (found,) = [one for one in now.status.conditions if one.type == type_]
    return found.status, found.reason, found.message


story = configured(GATES)


@story
async def test_a_job_has_a_variant_for_each_flavor_and_runs_on_the_best(q: Queued) -> None:
    await concurrent(q)
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    mine, others = await parent(q), await variants(q)
    assert is_parent(mine)
    assert tuple(sorted(others, key=FLAVORS.index)) == FLAVORS
    stem = mine.metadata.name.rpartition("-")[0]
    assert others[BEST].metadata.name.startswith(f"{stem}-variant-{BEST}-")
    assert others[BEST].spec.pod_sets == mine.spec.pod_sets
    assert [gate.name for gate in others[BEST].spec.preemption_gates] == ["kueue.x-k8s.io/concurrent-admission"]
    assert (await runs_on(q), await q.running()) == (BEST, [0, 1])
    assert await states(q) == {BEST: "holds", MIDDLE: "inactive", WORST: "inactive"}
    assert await reserved(q) == {BEST: "2"}, "the parent holds nothing of its own"
    name = others[BEST].metadata.name
    assert await condition(q, mine, "Admitted") == ("True", "Admitted", f"The variant {name} is admitted")
    assert len(await said(q, "CreatedVariant")) == 3
    assert f'Variant Workload deactivated due to being lower priority than admitted Variant "default/{name}"' in (
        await said(q, "DeactivatedVariant")
    )


@story
async def test_it_moves_to_a_better_flavor_as_that_has_room(q: Queued) -> None:
    await concurrent(q)
    for name in ("first", "second", "third"):
        await q.job(name, 2, suspend=True)
        await q.world.settle(30)
    assert [await runs_on(q, name) for name in ("first", "second", "third")] == [BEST, MIDDLE, WORST]
    await q.client.delete(JOB, "first", "default")
    await q.world.settle(60)
    assert [await runs_on(q, name) for name in ("second", "third")] == [BEST, MIDDLE]
    assert [await q.running(name) for name in ("second", "third")] == [[0, 1], [0, 1]]
    assert await reserved(q) == {BEST: "2", MIDDLE: "2"}
    assert await states(q, "third") == {BEST: "waits", MIDDLE: "holds", WORST: "inactive"}
    (message, *_) = await said(q, "EvictedDueToFlavorMigration")
    assert message.startswith("Evicted to accommodate a workload (UID: ")
    assert message.endswith(") due to migration to more favorable resource flavor")
    moved = "once, last: it moved to a better flavor, and started over"
    rows = await job_rows(q.client, "default", q.world.clock.now(), lambda _: None)
    assert [(row["name"], row["reason"]) for row in rows] == [
        ("second", f"interrupted {moved}"), ("third", f"interrupted {moved}"),
    ]  # fmt: skip
    facts = await investigate(q.client, "default", "third", q.world.clock.now())
    assert facts is not None
    assert describe_interruptions(facts) == [f"by the cluster {moved}"]


@story
async def test_quota_is_kept_for_a_move_until_the_job_has_stopped(q: Queued) -> None:
    """No job is ever admitted on what another one moves to, and none is counted twice at rest."""
    await concurrent(q)
    await q.job("first", 2, suspend=True)
    await q.job("second", 2, suspend=True)
    await q.world.settle(30)
    await q.client.delete(JOB, "first", "default")
    for number in range(3):
        await q.job(f"new-{number}", 1, suspend=True)
    await q.world.settle(60)
    assert await runs_on(q, "second") == BEST
    held = await reserved(q)
    assert held.get(BEST) == "2"
    assert sum(map(int, held.values())) == 5


@pytest.mark.parametrize("policy", [RETAIN, ONLY_TO_THE_BEST], ids=["retain", "last acceptable"])
def test_it_stays_where_the_policy_does_not_let_it_move(policy: Any) -> None:
    @story
    async def body(q: Queued) -> None:
        await concurrent(q, policy, cpus={"reservation": 0, "on_demand": 0, "spot": 2})
        await q.job("j", 2, suspend=True)
        await q.world.settle(30)
        assert await runs_on(q) == WORST
        await quotas(q, reservation=0, on_demand=2, spot=2)
        assert await runs_on(q) == WORST
        await quotas(q, reservation=2, on_demand=2, spot=2)
        assert await runs_on(q) == (WORST if policy is RETAIN else BEST)

    body()


async def checked(q: Queued, *flavors: str) -> dict[str, Any]:
    """A check on these flavors that nobody here answers; what of a ClusterQueue names it."""
    document = {"metadata": {"name": "room"}, "spec": {"controllerName": "x.y/z"}}
    await q.client.create(ADMISSION_CHECK, msgspec.convert(document, AdmissionCheck))
    moment = "2026-01-01T00:00:00Z"
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": moment}
    await q.client.patch(ADMISSION_CHECK, "room", {"status": {"conditions": [active]}}, subresource="status")
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": "room", "onFlavors": list(flavors)}]}}


async def answer(q: Queued, variant: Workload, state: str, **more: Any) -> None:
    moment = q.world.clock.now().replace(microsecond=0).isoformat()
    told = {"name": "room", "state": state, "message": "m", "lastTransitionTime": moment, **more}
    status = {"status": {"admissionChecks": [told]}}
    await q.client.patch(WORKLOAD, variant.metadata.name, status, "default", subresource="status")
    await q.world.settle(60)


@story
async def test_checks_of_several_flavors_run_at_once_and_the_first_that_is_ready_wins(q: Queued) -> None:
    await concurrent(q, **await checked(q, MIDDLE, WORST), cpus={"reservation": 0, "on_demand": 2, "spot": 2})
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    assert (await runs_on(q), await states(q)) == ("", {BEST: "waits", MIDDLE: "holds", WORST: "holds"})
    update = {"podSetUpdates": [{"name": "main", "annotations": {"from": "check"}}]}
    await answer(q, (await variants(q))[WORST], "Ready", **update)
    assert (await runs_on(q), await q.running()) == (WORST, [0, 1])
    assert {pod.metadata.annotations.get("from") for pod in await q.world.pods("j")} == {"check"}
    await answer(q, (await variants(q))[MIDDLE], "Ready")
    assert (await runs_on(q), await q.running()) == (MIDDLE, [0, 1])
    assert await reserved(q) == {MIDDLE: "2"}
    assert await states(q) == {BEST: "waits", MIDDLE: "holds", WORST: "inactive"}


@story
async def test_a_variant_that_is_rejected_stays_out_and_all_of_them_end_it(q: Queued) -> None:
    await concurrent(q, **await checked(q), cpus={"reservation": 2, "on_demand": 2, "spot": 2})
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    for flavor in (BEST, MIDDLE):
        await answer(q, (await variants(q))[flavor], "Rejected")
    assert await states(q) == {BEST: "inactive", MIDDLE: "inactive", WORST: "holds"}
    assert (await parent(q)).spec.active
    await answer(q, (await variants(q))[WORST], "Rejected")
    assert not (await parent(q)).spec.active
    assert await reserved(q) == {}
    await q.client.patch(WORKLOAD, (await parent(q)).metadata.name, {"spec": {"active": True}}, "default")
    await q.world.settle(60)
    assert await states(q) == {BEST: "holds", MIDDLE: "holds", WORST: "holds"}


@story
async def test_only_one_variant_preempts_at_a_time(q: Queued) -> None:
    cpus = {"reservation": 2, "on_demand": 2, "spot": 0}
    await concurrent(q, preemption={"withinClusterQueue": "LowerPriority"}, cpus=cpus)
    for name in ("low-a", "low-b"):
        await q.job(name, 2, suspend=True)
    await q.world.settle(30)
    assert {await runs_on(q, name) for name in ("low-a", "low-b")} == {BEST, MIDDLE}
    made = await q.job("high", 2, suspend=True, template={"spec": {"priorityClassName": "system-cluster-critical"}})
    await q.world.settle(60)
    assert made is not None
    assert await runs_on(q, "high") == BEST
    low = [await runs_on(q, name) for name in ("low-a", "low-b")]
    assert sorted(low) == ["", MIDDLE], "the variant for the second flavor displaced nobody"
    assert len(await said(q, "PreemptionUngatedVariant")) == 1
    assert await reserved(q) == {BEST: "2", MIDDLE: "2"}


@story
async def test_a_deactivated_job_gives_all_back_and_comes_back(q: Queued) -> None:
    await concurrent(q)
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    name = (await parent(q)).metadata.name
    await q.client.patch(WORKLOAD, name, {"spec": {"active": False}}, "default")
    await q.world.settle(60)
    assert (await runs_on(q), await reserved(q)) == ("", {})
    assert await states(q) == dict.fromkeys(FLAVORS, "inactive")
    await q.client.patch(WORKLOAD, name, {"spec": {"active": True}}, "default")
    await q.world.settle(60)
    assert (await runs_on(q), await q.running()) == (BEST, [0, 1])


@story
async def test_a_variant_that_is_evicted_takes_its_job_with_it(q: Queued) -> None:
    await concurrent(q)
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    before = {pod.metadata.uid for pod in await q.world.pods("j")}
    best = (await variants(q))[BEST]
    await q.status(best, evict(best.status, "Preempted", "go", q.world.clock.now()))
    await q.world.settle(60)
    assert await condition(q, await parent(q), "Evicted") == (
        "False", "QuotaReserved", "Previously: Admitted variant was evicted: go",
    )  # fmt: skip
    assert (await runs_on(q), await q.running()) == (BEST, [0, 1])
    assert not before & {pod.metadata.uid for pod in await q.world.pods("j")}


@story
async def test_a_job_that_is_evicted_takes_its_variant_with_it(q: Queued) -> None:
    await concurrent(q)
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    await q.evict("j", "PodsReadyTimeout", "late")
    await q.world.settle(5)
    assert await runs_on(q) == BEST
    (eviction,) = (await variants(q))[BEST].status.scheduling_stats.evictions
    assert (eviction.reason, eviction.count) == ("PodsReadyTimeout", 1)


@story
async def test_a_finished_job_has_finished_variants_and_a_deleted_one_has_none(q: Queued) -> None:
    await concurrent(q)
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    for pod in await q.world.pods("j"):
        await q.world.finish(pod)
    await q.world.settle(60)
    for one in [await parent(q), *(await variants(q)).values()]:
        assert (await condition(q, one, "Finished"))[:2] == ("True", "Succeeded")
    assert await reserved(q) == {}
    await q.client.delete(JOB, "j", "default")
    await q.world.settle(60)
    assert await q.workloads() == []


@story
async def test_variants_follow_the_flavors_of_their_queue(q: Queued) -> None:
    await concurrent(q, cpus={"reservation": 0, "spot": 2})
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    assert await states(q) == {BEST: "waits", WORST: "holds"}
    await quotas(q, reservation=0, on_demand=2, spot=2)
    assert await runs_on(q) == MIDDLE
    await quotas(q, reservation=2, spot=2)
    await q.world.settle(60)
    assert (await runs_on(q), await states(q)) == (BEST, {BEST: "holds", WORST: "inactive"})
    assert await reserved(q) == {BEST: "2"}


@story
async def test_a_job_grows_and_shrinks_with_its_variant(q: Queued) -> None:
    await concurrent(q, cpus={"reservation": 3, "on_demand": 2, "spot": 2})
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    before = {pod.metadata.uid for pod in await q.world.pods("j")}
    await q.change("j", spec={"parallelism": 3, "completions": 3})
    await q.world.settle(30)
    assert (await runs_on(q), await q.running(), await reserved(q)) == (BEST, [0, 1, 2], {BEST: "3"})
    assert before < {pod.metadata.uid for pod in await q.world.pods("j")}
    await q.change("j", spec={"parallelism": 1, "completions": 1})
    await q.world.settle(30)
    assert (await runs_on(q), await q.running(), await reserved(q)) == (BEST, [0], {BEST: "1"})


@story
async def test_the_parent_says_why_its_variants_wait(q: Queued) -> None:
    await concurrent(q, cpus={"reservation": 1, "on_demand": 1, "spot": 1})
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    status, _, message = await condition(q, await parent(q), "QuotaReserved")
    assert status == "False"
    assert [part.partition(":")[0] for part in message.split("; ")] == list(FLAVORS)


@story
async def test_a_parent_that_goes_to_another_queue_has_no_variants_any_more(q: Queued) -> None:
    await concurrent(q, cpus={"reservation": 1, "on_demand": 1, "spot": 1})
    await concurrent(q, None, name="plain")
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    assert len(await variants(q)) == 3
    await q.change("j", metadata={"labels": {"kueue.x-k8s.io/queue-name": "plain"}})
    await q.world.settle(60)
    assert (len(await variants(q)), is_parent(await parent(q)), await q.running()) == (0, False, [0, 1])


@story
async def test_a_parent_whose_queue_is_not_there_has_no_variants_and_says_so(q: Queued) -> None:
    await concurrent(q, cpus={"reservation": 1, "on_demand": 1, "spot": 1})
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    await q.change("j", metadata={"labels": {"kueue.x-k8s.io/queue-name": "nowhere"}})
    await q.world.settle(60)
    assert (len(await variants(q)), is_parent(await parent(q))) == (0, False)
    said = await condition(q, await parent(q), "QuotaReserved")
    assert said == ("False", "Misconfigured", "LocalQueue nowhere doesn't exist")
    await quotas(q, reservation=2, on_demand=2, spot=2)
    assert (await reserved(q), await q.running()) == ({}, [])


@configured("")
async def test_without_its_gate_a_variant_that_is_left_gets_no_quota(q: Queued) -> None:
    await concurrent(q)
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    assert await reserved(q) == {BEST: "2"}
    await q.client.create(WORKLOAD, variant_of(await parent(q), MIDDLE, 1))
    await q.world.settle(30)
    assert await reserved(q) == {BEST: "2"}
    assert await condition(q, (await variants(q))[MIDDLE], "QuotaReserved") == (
        "False",
        "Misconfigured",
        "a variant of another Workload gets no quota while the feature gate ConcurrentAdmission is off",
    )


@configured("")
async def test_without_its_gate_the_policy_is_not_acted_on(q: Queued) -> None:
    await concurrent(q)
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    assert (await runs_on(q), is_parent(await parent(q)), len(await q.workloads())) == (BEST, False, 1)


@story
async def test_people_see_one_job_and_why_it_waits_in_each_flavor(q: Queued) -> None:
    await concurrent(q, cpus={"reservation": 1, "on_demand": 1, "spot": 1})
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    (row,) = await job_rows(q.client, "default", q.world.clock.now(), lambda _: None)
    assert row["name"] == "j"
    facts = await investigate(q.client, "default", "j", q.world.clock.now())
    assert facts is not None
    assert facts.workload is not None
    assert is_parent(facts.workload)
    assert all(flavor in str(describe_levels(facts)) for flavor in FLAVORS)


@story
async def test_a_job_with_variants_is_counted_once_and_by_its_name_as_one_that_holds_quota(q: Queued) -> None:
    await concurrent(q, cpus={"reservation": 2})
    await q.job("first", 2, suspend=True)
    await q.world.settle(30)
    await q.job("second", 1, suspend=True)
    await q.world.settle(30)
    facts = await investigate(q.client, "default", "second", q.world.clock.now())
    assert facts is not None
    assert [(one.resource, one.nominal, one.used) for one in facts.needs] == [("cpu", 2000, 2000)]
    assert [(one.name, dict(one.usage)) for one in facts.holders] == [("first", {"cpu": 2000})]


@story
async def test_events_of_variants_are_counted_as_those_of_their_parent(q: Queued) -> None:
    await concurrent(q)
    await q.job("j", 2, suspend=True)
    await q.world.settle(30)
    found = await samples(q.world)
    assert list(found["admitted_workloads_total"].values()) == [1]
    assert list(found["quota_reserved_workloads_total"].values()) == [1]
