"""Groups of JobSets that start together: what is injected, written and released, whatever befalls pods and others."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.system.group_cluster import GroupCluster
from tests.system.jobset_cluster import role

from muster.api.core import CONFIG_MAP, POD, ConfigMap
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.meta import ObjectMeta
from muster.jobs.jobset.terms import finish
from muster.runtime.clock import run_virtual
from muster.runtime.refusals import ignoring

NAME = "js-group-scheduling"
TIMEOUT = 30


def play(story: Any) -> None:
    async def body() -> None:
        async with GroupCluster() as cluster:
            await story(cluster)

    run_virtual(body())


async def words(cluster: GroupCluster) -> dict[str, str]:
    return (await cluster.client.get(CONFIG_MAP, NAME, "default")).data


def test_the_right_jobs_wait_and_the_stored_jobset_is_as_it_was() -> None:
    async def story(cluster: GroupCluster) -> None:
        config = {"timeoutAfterSeconds": 5, "targetReplicatedJobs": ["w"]}
        made = await cluster.jobset(role("w", 1), role("driver", 1), groupSchedulingConfig=config)
        jobs = await cluster.jobs()
        inits = {name: [c.name for c in job.spec.template.spec.init_containers] for name, job in jobs.items()}
        assert inits == {"js-w-0": ["group-scheduling-init"], "js-driver-0": []}
        assert jobs["js-w-0"].spec.template.metadata.annotations[names.GROUP_SCHEDULING_EPOCH] == "1"
        assert (await cluster.seen()).spec == made.spec
        found = await cluster.client.get(CONFIG_MAP, NAME, "default")
        assert (found.data, [owner.name for owner in found.metadata.owner_references]) == ({}, ["js"])

    play(story)


def test_the_last_pod_releases_all() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        *early, last = await cluster.pods_there()
        await cluster.arrive(*early)
        await cluster.settle(60)
        await cluster.look()
        assert (await words(cluster), cluster.begun) == ({}, {})
        waiting = ("False", "WaitingForPods", "3/4 pods started")
        assert await cluster.condition(names.GROUP_SCHEDULING_READY) == waiting
        await cluster.arrive(last)
        await cluster.settle()
        assert await words(cluster) == {"started": "1"}
        assert await cluster.condition(names.GROUP_SCHEDULING_READY) == ("True", "AllPodsStarted", "4/4 pods started")
        await cluster.look()
        assert len(cluster.begun[1]) == 4
        assert "AllPodsStarted" in await cluster.reasons()

    play(story)


def test_49_a_pod_that_goes_before_release_is_waited_for_again() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300, failurePolicy={"maxRestarts": 0})
        first, *others = await cluster.pods_there()
        await cluster.arrive(first)
        await cluster.client.delete_object(POD, first)
        await cluster.arrive(*others)
        await cluster.settle()
        assert await words(cluster) == {}

    play(story)


def test_44_a_restart_is_a_start_of_its_own() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(failurePolicy={"maxRestarts": 3})
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle()
        await cluster.look()
        await cluster.end((await cluster.pods_there())[0], "Failed")
        await cluster.settle(20)
        await cluster.release_everything()
        await cluster.settle(20)
        assert (await cluster.seen()).status.restarts == 1
        assert await words(cluster) == {}
        first, *others = await cluster.pods_there()
        await cluster.arrive(first)
        await cluster.settle()
        await cluster.look()
        assert 2 not in cluster.begun
        await cluster.arrive(*others)
        await cluster.settle()
        await cluster.look()
        assert (await words(cluster), len(cluster.begun[2])) == ({"started": "2"}, 4)

    play(story)


@pytest.mark.parametrize("released", [False, True])
def test_44_a_resume_is_a_start_of_its_own(released: bool) -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        there = await cluster.pods_there()
        await cluster.arrive(*(there if released else there[1:]))
        await cluster.settle()
        await cluster.change(suspend=True)
        await cluster.release_everything()
        await cluster.settle(10)
        assert await cluster.pods_there() == []
        await cluster.change(suspend=False)
        await cluster.settle(10)
        assert await words(cluster) == {}
        first, *others = await cluster.pods_there()
        await cluster.arrive(*others)
        await cluster.settle()
        assert await words(cluster) == {}
        await cluster.arrive(first)
        await cluster.settle()
        await cluster.look()
        assert (await words(cluster), len(cluster.begun[2])) == ({"started": "2"}, 4)

    play(story)


def test_48_a_group_that_is_too_late_fails_and_says_what_it_lacked() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=TIMEOUT)
        *early, _ = await cluster.pods_there()
        await cluster.arrive(*early)
        await cluster.settle(TIMEOUT + 5)
        await cluster.release_everything()
        await cluster.settle()
        message = "3/4 pods started within 30 seconds; pods are missing of js-w-1"
        assert await cluster.condition(names.GROUP_SCHEDULING_READY) == ("False", "Timeout", message)
        assert (await cluster.seen()).status.terminal_state == "Failed"
        ends = {c.type: (c.reason, c.message) for c in (await cluster.jobs())["js-w-1"].status.conditions}
        assert ends["Failed"] == ("DeadlineExceeded", f"group scheduling timed out: {message}")
        assert cluster.begun == {}

    play(story)


def test_48_a_failure_policy_can_tell_that_the_group_was_too_late() -> None:
    async def story(cluster: GroupCluster) -> None:
        late = {
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["DeadlineExceeded"],
            "onJobFailureMessagePatterns": ["^group scheduling timed out"],
        }
        await cluster.group(timeout=TIMEOUT, failurePolicy={"maxRestarts": 0, "rules": [late]})
        await cluster.arrive((await cluster.pods_there())[0])
        await cluster.settle(TIMEOUT + 5)
        await cluster.release_everything()
        await cluster.settle(20)
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle()
        await cluster.look()
        assert len(cluster.begun[2]) == 4

    play(story)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("what", ["deleted", "changed", "unlabelled"])
def test_the_config_map_is_mended(what: str, released: bool) -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        there = await cluster.pods_there()
        await cluster.arrive(*(there if released else there[1:]))
        await cluster.settle()
        if what == "deleted":
            await cluster.client.delete(CONFIG_MAP, NAME, "default")
        else:
            change = {"data": {"started": "7", "x": "y"}} if what == "changed" else {"metadata": {"labels": None}}
            await cluster.client.patch(CONFIG_MAP, NAME, change, "default")
        await cluster.settle()
        assert await words(cluster) == ({"started": "1"} if released else {})

    play(story)


def test_a_config_map_of_somebody_else_holds_the_group_up_until_it_goes() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.client.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name=NAME), data={"a": "b"}), "default")
        await cluster.group(timeout=300)
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle(30)
        assert await words(cluster) == {"a": "b"}
        assert "GroupSchedulingBlocked" in await cluster.reasons()
        blocked = ("False", "ConfigMapConflict", "4/4 pods started")
        assert await cluster.condition(names.GROUP_SCHEDULING_READY) == blocked
        await cluster.client.delete(CONFIG_MAP, NAME, "default")
        await cluster.settle(11)
        assert await words(cluster) == {"started": "1"}

    play(story)


@pytest.mark.parametrize("replicas", [1, 3])
def test_41_a_group_may_change_its_size_until_it_is_released(replicas: int) -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        *early, _ = await cluster.pods_there()
        await cluster.arrive(*early)
        await cluster.settle()
        roles = [role("w", replicas, 2)]
        await cluster.change(replicatedJobs=roles)
        await cluster.release_everything()
        await cluster.settle(20)
        assert await words(cluster) == ({"started": "1"} if replicas == 1 else {})
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle()
        await cluster.look()
        assert await words(cluster) == {"started": "1"}

    play(story)


def test_a_group_of_thousands_costs_a_few_writes() -> None:
    """Of the controllers; what nodes say of their pods is theirs."""

    async def story(cluster: GroupCluster) -> None:
        await cluster.group(replicas=1, pods=300, timeout=300)
        before = len(cluster.wire.writes)
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle(30)
        assert await words(cluster) == {"started": "1"}
        written = [request.path for request in cluster.wire.writes[before:] if "/jobs/" not in request.path]
        assert len(written) <= 14

    play(story)


def test_a_jobset_that_has_ended_is_left_alone() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=TIMEOUT)
        await cluster.arrive((await cluster.pods_there())[0])
        await cluster.doom("js-w-0")
        await cluster.release_everything()
        await cluster.settle()
        ended = await cluster.seen()
        assert finish(ended) is not None
        await cluster.settle(TIMEOUT * 2)
        assert (await cluster.seen()).metadata.resource_version == ended.metadata.resource_version

    play(story)


# The law.

STEPS = st.one_of(
    st.tuples(st.just("arrive"), st.integers(0, 3)),
    st.tuples(st.just("all start"), st.sampled_from([0.01, 1.0])),
    st.tuples(st.just("all but one start"), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["suspend", "resume", "restart"]), st.sampled_from([0.0, 0.01, 10.0])),
    st.tuples(st.sampled_from(["forget", "controllers"]), st.just(0)),
    st.tuples(st.just("cut"), st.integers(1, 4)),
    st.tuples(st.just("pass"), st.sampled_from([0.01, 10.0])),
)


async def step(cluster: GroupCluster, what: str, which: Any) -> None:
    there = await cluster.pods_there()
    match what:
        case "arrive":
            await cluster.arrive(*there[which : which + 1])
        case "all start":
            await cluster.arrive(*there)
            await cluster.clock.sleep(which)
            await cluster.look()
        case "all but one start":
            await cluster.arrive(*there[:which], *there[which + 1 :])
            await cluster.clock.sleep(1)
            await cluster.look()
        case "end" if which < len(there):
            await cluster.end(there[which], "Failed")
        case "suspend" | "resume":
            await cluster.client.patch(JOB_SET, "js", {"spec": {"suspend": what == "suspend"}}, "default")
            await cluster.gone(which)
        case "restart":
            for name in list(await cluster.jobs())[:1]:
                await cluster.doom(name)
            await cluster.gone(which)
        case "forget":
            with ignoring("NotFound"):
                await cluster.client.delete(CONFIG_MAP, NAME, "default")
        case "controllers":
            await cluster.kill_controller()
            await cluster.start_controller()
        case "cut":  # they can write no more than so much from now on, until others take their place
            cluster.wire.writes_left = which
        case "pass":
            await cluster.gone(which)


@example([("all start", 1.0), ("suspend", 10.0), ("resume", 10.0), ("all but one start", 0)])
@example([("all start", 1.0), ("restart", 10.0), ("pass", 10.0), ("all but one start", 0)])
@given(st.lists(STEPS, min_size=5, max_size=25))
@settings(max_examples=max(15, settings.default.max_examples // 10), deadline=None)
def test_none_begins_before_all_have_started_and_each_group_starts_or_fails_in_time(
    steps: list[tuple[str, Any]],
) -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=TIMEOUT, failurePolicy={"maxRestarts": 100})
        for what, which in steps:
            await step(cluster, what, which)
        await step(cluster, "controllers", 0)
        for _ in range(TIMEOUT + 10):
            await cluster.clock.sleep(1)
            await cluster.release_everything()
            await cluster.look()
        jobset = await cluster.seen()
        assert jobset.spec.suspend or has_started_or_failed(jobset, cluster)

    play(story)


def has_started_or_failed(jobset: JobSet, cluster: GroupCluster) -> bool:
    """Released and begun as far as pods are there, ended, or in an epoch that none of its pods has seen in time."""
    group = jobset.status.group_scheduling
    assert group is not None
    if finish(jobset) is not None or group.released_epoch == group.epoch:
        return True
    return group.start_time is None or (cluster.clock.now() - group.start_time).total_seconds() < TIMEOUT + 5
