"""Groups of JobSets that start together: what is injected, written and released, whatever befalls pods and others."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.system.jobsets.group_cluster import GroupCluster
from tests.system.jobsets.jobset_cluster import role

from muster.api.batch import JOB, Job
from muster.api.core import CONFIG_MAP, NAMESPACE, POD, ConfigMap, Namespace, Pod
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.meta import ObjectMeta
from muster.jobs.jobset.start.group import is_failing
from muster.jobs.jobset.terms import finish
from muster.runtime.clock import run_virtual
from muster.runtime.refusals import ignoring

NAME = "js-group-scheduling"
TIMEOUT = 30
CONFLICT = f'ConfigMap "{NAME}" does not belong to this JobSet: no main container starts until it is deleted'


def play(story: Any) -> None:
    async def body() -> None:
        async with GroupCluster() as cluster:
            await story(cluster)

    run_virtual(body())


async def words(cluster: GroupCluster) -> dict[str, str]:
    """What the ConfigMap says; of a word that is for this JobSet the epoch."""
    said = (await cluster.client.get(CONFIG_MAP, NAME, "default")).data
    uid = (await cluster.seen()).metadata.uid
    return {name: text.removeprefix(f"{uid} ") for name, text in said.items()}


async def forget(cluster: GroupCluster) -> None:
    with ignoring("NotFound"):
        await cluster.client.delete(CONFIG_MAP, NAME, "default")


def timeouts(pods: list[Pod]) -> set[str]:
    return {pod.spec.init_containers[-1].env[0].value for pod in pods}


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
        await cluster.gone(20)
        await cluster.gone(20)
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
        said = "jobset is suspended" if released else "3/4 pods started"
        await cluster.change(suspend=True)
        await cluster.release_everything()
        await cluster.settle(10)
        assert await cluster.pods_there() == []
        assert await cluster.condition(names.GROUP_SCHEDULING_READY) == ("False", "WaitingForPods", said)
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


@pytest.mark.parametrize("deleted", [["js-w-0"], ["js-w-0", "js-w-1"]])
@pytest.mark.parametrize("controller", ["runs", "is away"])
@pytest.mark.parametrize("pods", ["linger", "go"])
def test_jobs_that_are_deleted_while_a_group_is_suspended_start_with_the_others(
    deleted: list[str], controller: str, pods: str
) -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle()
        await cluster.look()
        if pods == "linger":
            await cluster.delete_jobs(*deleted)
        await cluster.change(suspend=True)
        if controller == "is away":
            await cluster.kill_controller()
        if pods == "go":
            await cluster.delete_jobs(*deleted)
            await cluster.gone(10)
        await cluster.change(suspend=False)
        if controller == "is away":
            await cluster.start_controller()
        await cluster.gone(10)
        await cluster.gone(10)
        first, *others = await cluster.pods_there()
        await cluster.arrive(*others)
        await cluster.settle()
        await cluster.look()
        assert 2 not in cluster.begun
        await cluster.arrive(first)
        await cluster.settle()
        await cluster.look()
        assert (await words(cluster), len(cluster.begun[2])) == ({"started": "2"}, 4)

    play(story)


@pytest.mark.parametrize("writes", range(6))
def test_a_group_that_is_resumed_before_all_its_jobs_are_stopped_starts_as_one(writes: int) -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle()
        cluster.wire.writes_left = writes
        await cluster.change(suspend=True)
        await cluster.settle()
        await cluster.kill_controller()
        await cluster.change(suspend=False)
        await cluster.start_controller()
        await cluster.gone(10)
        await cluster.gone(10)
        there = await cluster.pods_there()
        assert len({pod.metadata.annotations[names.GROUP_SCHEDULING_EPOCH] for pod in there}) == 1
        await cluster.arrive(*there)
        await cluster.settle()
        await cluster.look()
        assert [len(begun) for begun in cluster.begun.values()] == [4]

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


def test_a_job_that_is_restarted_since_the_group_was_too_late_takes_no_other_with_it() -> None:
    async def story(cluster: GroupCluster) -> None:
        again = {"action": "RestartJobAndIgnoreMaxRestarts", "onJobFailureReasons": ["DeadlineExceeded"]}
        await cluster.group(timeout=TIMEOUT, failurePolicy={"maxRestarts": 0, "rules": [again]})
        *early, _ = await cluster.pods_there()
        await cluster.arrive(*early)
        for _ in range(TIMEOUT + 10):
            await cluster.gone(1)
        (workers,) = (await cluster.seen()).status.replicated_jobs_status
        assert workers.job_restarts == (0, 1)
        assert (await words(cluster), timeouts(await cluster.pods_there())) == ({"restarts": "1"}, {str(TIMEOUT + 180)})
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle()
        await cluster.look()
        assert len(cluster.begun[1]) == 4

    play(story)


def test_a_group_fails_before_any_begins_with_an_index_that_has_failed_for_good() -> None:
    async def story(cluster: GroupCluster) -> None:
        roles = role("w", 2, 2, spec={"completionMode": "Indexed", "backoffLimitPerIndex": 0, "backoffLimit": 100})
        await cluster.jobset(roles, groupSchedulingConfig={})
        *early, last = await cluster.pods_there()
        await cluster.arrive(*early)
        await cluster.end(last, "Failed")
        for _ in range(5):
            await cluster.gone(2)
        await cluster.look()
        message = "3/4 pods started; failed for good: indexes 1 of js-w-1"
        assert await cluster.condition(names.GROUP_SCHEDULING_READY) == ("False", "FailedIndexes", message)
        ends = {c.type: (c.reason, c.message) for c in (await cluster.jobs())["js-w-1"].status.conditions}
        assert ends["Failed"] == ("FailedIndexes", f"group cannot start: {message}")
        assert ((await cluster.seen()).status.terminal_state, cluster.begun) == ("Failed", {})

    play(story)


def test_a_group_that_has_failed_for_being_late_is_not_released_by_who_comes_then() -> None:
    """Nor does another Job fail for it, however late its failure is seen."""

    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=TIMEOUT)
        *early, last = await cluster.pods_there()
        await cluster.arrive(*early)
        cluster.wire.lags["jobs"] = 2.0
        while "GroupSchedulingTimeout" not in await cluster.reasons():
            await cluster.settle(0.1)
        await cluster.arrive(last)
        await cluster.settle(10)
        await cluster.look()
        assert cluster.begun == {}
        failed = [name for name, job in (await cluster.jobs()).items() if is_failing(job)]
        assert failed == ["js-w-1"]

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


@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize("labels", [{}, {names.JOBSET_NAME: "js"}])
def test_a_config_map_of_another_holds_the_group_up_until_it_goes(labels: dict[str, str], *, suspend: bool) -> None:
    """No pod mounts it; roles that wait for no group are made."""

    async def story(cluster: GroupCluster) -> None:
        left = ConfigMap(metadata=ObjectMeta(name=NAME, labels=labels), data={"started": "1"})
        await cluster.client.create(CONFIG_MAP, left, "default")
        config = {"timeoutAfterSeconds": 300, "targetReplicatedJobs": ["w"]}
        await cluster.jobset(role("w", 2), role("driver", 1), groupSchedulingConfig=config, suspend=suspend)
        await cluster.settle(2)
        if suspend:
            await cluster.change(suspend=False)
            await cluster.settle(2)
        assert [pod.metadata.labels[names.REPLICATED_JOB_NAME] for pod in await cluster.pods_there()] == ["driver"]
        assert await words(cluster) == {"started": "1"}
        assert "GroupSchedulingBlocked" in await cluster.reasons()
        blocked = ("False", "ConfigMapConflict", "0/2 pods started; " + CONFLICT)
        assert await cluster.condition(names.GROUP_SCHEDULING_READY) == blocked
        await forget(cluster)
        await cluster.settle(11)
        await cluster.arrive(*(pod for pod in await cluster.pods_there() if "driver" not in pod.metadata.name))
        await cluster.settle()
        assert (await cluster.client.get(CONFIG_MAP, NAME, "default")).data["started"] != "1"
        assert await words(cluster) == {"started": "1"}

    play(story)


def test_a_group_whose_config_map_another_has_taken_is_not_released_until_it_goes() -> None:
    """Whoever runs the controller then, and whatever it has seen before."""

    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        await cluster.kill_controller()
        await forget(cluster)
        await cluster.client.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name=NAME), data={"a": "b"}), "default")
        await cluster.arrive(*await cluster.pods_there())
        await cluster.start_controller()
        await cluster.settle(30)
        blocked = ("False", "ConfigMapConflict", "4/4 pods started; " + CONFLICT)
        assert await cluster.condition(names.GROUP_SCHEDULING_READY) == blocked
        await cluster.kill_controller()
        await cluster.start_controller()
        await cluster.settle(30)
        assert await cluster.condition(names.GROUP_SCHEDULING_READY) == blocked
        await forget(cluster)
        await cluster.settle(40)
        assert await words(cluster) == {"started": "1"}

    play(story)


@pytest.mark.parametrize("said", ["1", "9d9f0b0e-0000-4000-8000-000000000000 1"])
def test_what_another_jobset_of_the_name_was_told_opens_nothing(said: str) -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        await cluster.kill_controller()
        await forget(cluster)
        left = ConfigMap(metadata=ObjectMeta(name=NAME), data={"started": said})
        await cluster.client.create(CONFIG_MAP, left, "default")
        await cluster.arrive((await cluster.pods_there())[0])
        await cluster.look()
        assert cluster.begun == {}

    play(story)


def test_a_group_that_is_held_up_writes_nothing_while_it_waits() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.client.create(CONFIG_MAP, ConfigMap(metadata=ObjectMeta(name=NAME)), "default")
        await cluster.group(timeout=100_000)
        await cluster.settle(60)
        before = len(cluster.wire.writes)
        await cluster.settle(3600)
        assert [request.path for request in cluster.wire.writes[before:]] == []

    play(story)


def test_a_pod_of_another_namespace_that_says_that_it_is_of_the_group_stands_in_for_none() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        ours = (await cluster.jobs())["js-w-1"]
        meta = ObjectMeta(labels=ours.metadata.labels, annotations=ours.spec.template.metadata.annotations)
        template = replace(ours.spec.template, metadata=meta)
        job = Job(metadata=ObjectMeta(name="js-w-1"), spec=replace(ours.spec, selector=None, template=template))
        await cluster.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="others")))
        await cluster.client.create(JOB, job, "others")
        await cluster.settle()
        *early, _ = await cluster.pods_there()
        await cluster.arrive(*early, *(await cluster.client.list(POD, "others")).items)
        await cluster.settle()
        group = (await cluster.seen()).status.group_scheduling
        assert group is not None
        assert (group.started, group.released_epoch) == (3, 0)

    play(story)


def test_metrics_say_how_long_groups_waited_from_their_first_pod_and_in_all() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=300)
        await cluster.settle(60)
        first, *others = await cluster.pods_there()
        await cluster.arrive(first)
        await cluster.settle(20)
        await cluster.arrive(*others)
        await cluster.settle()
        await cluster.change(suspend=True)
        await cluster.release_everything()
        await cluster.settle(100)
        await cluster.change(suspend=False)
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle(20)
        lines = cluster.registry.text().decode().splitlines()
        said = dict(line.split(" ") for line in lines if line.startswith("muster_jobset_group_"))
        assert [float(said[f"muster_jobset_group_start_seconds_{what}"]) for what in ("count", "sum")] == [2, 20]
        assert float(said["muster_jobset_group_wait_seconds_count"]) == 2
        assert 80 <= float(said["muster_jobset_group_wait_seconds_sum"]) <= 95

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


def test_41_pods_that_a_shrink_takes_away_stand_in_for_none_that_stays() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(replicas=1, pods=4, timeout=300)
        await cluster.arrive(*(await cluster.pods_there())[2:])
        await cluster.settle()
        await cluster.change(replicatedJobs=[role("w", 1, 2)])
        await cluster.settle()
        await cluster.look()
        assert await words(cluster) == {}
        await cluster.release_everything()
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle()
        await cluster.look()
        assert (await words(cluster), len(cluster.begun[1])) == ({"started": "1"}, 2)

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
        await cluster.gone(10)
        await cluster.gone(10)
        ended = await cluster.seen()
        assert finish(ended) is not None
        await cluster.settle(TIMEOUT * 2)
        assert (await cluster.seen()).metadata.resource_version == ended.metadata.resource_version

    play(story)


@pytest.mark.parametrize("writes", [None, 0, 1])
def test_a_group_that_ended_with_its_cluster_starts_anew_and_together(writes: int | None) -> None:
    """However long the cluster was away; and it has not failed."""

    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=TIMEOUT, failurePolicy={"maxRestarts": 0})
        await cluster.arrive(*await cluster.pods_there())
        await cluster.settle()
        await cluster.look()
        await cluster.clock.sleep(TIMEOUT * 10)
        for pods in (3, 4):  # not all come the first time
            await cluster.restart_cluster(writes=writes)
            await cluster.arrive(*await cluster.pods_there())  # what was made in place of those that ended
            await cluster.look()
            for _ in range(4):
                await cluster.gone(0.5)
            await cluster.arrive(*(await cluster.pods_there())[:pods])
            await cluster.settle()
            await cluster.look()
            await cluster.clock.sleep(TIMEOUT / 2)
        assert {epoch: len(begun) for epoch, begun in cluster.begun.items()} == {1: 4, 3: 4}
        assert finish(await cluster.seen()) is None

    play(story)


def test_the_group_of_what_ended_with_its_cluster_starts_anew_and_whole() -> None:
    async def story(cluster: GroupCluster) -> None:
        await cluster.group(timeout=TIMEOUT)
        first = await cluster.pods_there()
        await cluster.arrive(*first)
        await cluster.settle()
        await cluster.look()
        await cluster.restart_cluster(left=3)
        for _ in range(4):
            await cluster.gone(0.5)
        there = await cluster.pods_there()
        assert not {pod.metadata.uid for pod in first} & {pod.metadata.uid for pod in there}
        await cluster.arrive(*there)
        await cluster.settle()
        await cluster.look()
        assert [pod.status.phase for pod in await cluster.pods_there()] == ["Running"] * 4
        assert list(cluster.begun) == [1, 2]
        status = (await cluster.seen()).status
        assert (status.restarts, status.restarts_count_towards_max) == (1, 0)

    play(story)


# The law.

STEPS = st.one_of(
    st.tuples(st.just("arrive"), st.integers(0, 3)),
    st.tuples(st.just("all start"), st.sampled_from([0.01, 1.0])),
    st.tuples(st.just("all but one start"), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["suspend", "resume", "restart"]), st.sampled_from([0.0, 0.01, 10.0])),
    st.tuples(st.sampled_from(["forget", "controllers"]), st.just(0)),
    st.tuples(st.just("delete jobs"), st.sampled_from([["js-w-0"], ["js-w-1"], ["js-w-0", "js-w-1"]])),
    st.tuples(st.just("leave behind"), st.sampled_from(["1", "2", "old-uid 1", "old-uid 2"])),
    st.tuples(st.just("cut"), st.integers(1, 4)),
    st.tuples(st.just("shrink"), st.integers(1, 2)),
    st.tuples(st.just("cluster"), st.tuples(st.sampled_from([0, 0, 1, 3]), st.sampled_from([None, 0, 1]))),
    st.tuples(st.just("pass"), st.sampled_from([0.01, 10.0])),
)


async def step(cluster: GroupCluster, what: str, which: Any) -> None:
    """Something happens to pods, or to what is above them."""
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
        case "pass":
            await cluster.gone(which)
        case _:
            await interfere(cluster, what, which)


async def shrink(cluster: GroupCluster, pods: int) -> None:
    """Each Job is to have so many pods, if it has more."""
    size = (await cluster.seen()).spec.replicated_jobs[0].template.spec.completions or 0
    await cluster.change(replicatedJobs=[role("w", 2, min(pods, size))])


async def interfere(cluster: GroupCluster, what: str, which: Any) -> None:
    """Users and operators do something."""
    match what:
        case "suspend" | "resume":
            await cluster.client.patch(JOB_SET, "js", {"spec": {"suspend": what == "suspend"}}, "default")
            await cluster.gone(which)
        case "restart":
            for name in list(await cluster.jobs())[:1]:
                await cluster.doom(name)
            await cluster.gone(which)
        case "delete jobs":
            await cluster.delete_jobs(*which)
        case "forget":
            await forget(cluster)
        case "shrink":
            await shrink(cluster, which)
        case "leave behind":  # what an earlier JobSet of the name was told
            await forget(cluster)
            left = ConfigMap(metadata=ObjectMeta(name=NAME), data={"started": which})
            with ignoring("AlreadyExists"):
                await cluster.client.create(CONFIG_MAP, left, "default")
            await cluster.look()
        case "controllers":
            await cluster.kill_controller()
            await cluster.start_controller()
        case "cluster":
            await cluster.restart_cluster(*which)
        case "cut":  # they can write no more than so much from now on, until others take their place
            cluster.wire.writes_left = which


@example([("leave behind", "1"), ("arrive", 0), ("pass", 0.01)], "RestartJobSet")
@example([("all start", 1.0), ("suspend", 10.0), ("resume", 10.0), ("all but one start", 0)], "RestartJobSet")
@example(
    [
        ("all start", 1.0),
        ("delete jobs", ["js-w-0"]),
        ("suspend", 0.01),
        ("resume", 10.0),
        ("pass", 10.0),
        ("all but one start", 0),
    ],
    "RestartJobSet",
)
@example([("all start", 1.0), ("restart", 10.0), ("pass", 10.0), ("all but one start", 0)], "RestartJobSet")
@example([("all start", 1.0), ("cluster", (0, None)), ("arrive", 0), ("pass", 0.01)], "RestartJobSet")
@example([("all start", 1.0), ("cluster", (0, 1)), ("all but one start", 0)], "RestartJobSet")
@example([("arrive", 1), ("arrive", 3), ("shrink", 1), ("pass", 0.01), ("arrive", 0), ("pass", 0.01)], "RestartJobSet")
@example(
    [("all start", 1.0), ("cluster", (2, None)), ("all but one start", 3), ("cluster", (0, None))], "RestartJobSet"
)
@given(st.lists(STEPS, min_size=5, max_size=25), st.sampled_from(["RestartJobSet", "RestartJob"]))
@settings(max_examples=max(15, settings.default.max_examples // 10), deadline=None)
def test_none_begins_before_all_have_started_and_each_group_starts_or_fails_in_time(
    steps: list[tuple[str, Any]], action: str
) -> None:
    async def story(cluster: GroupCluster) -> None:
        rules = [{"name": "each", "action": action}]
        await cluster.group(timeout=TIMEOUT, failurePolicy={"maxRestarts": 100, "rules": rules})
        for what, which in steps:
            await step(cluster, what, which)
        await forget(cluster)
        await step(cluster, "controllers", 0)
        for _ in range(TIMEOUT + 10):
            await cluster.clock.sleep(1)
            await cluster.release_everything()
            await cluster.look()
        jobset = await cluster.seen()
        assert jobset.spec.suspend or has_started_or_failed(jobset, cluster)

    play(story)


def has_started_or_failed(jobset: JobSet, cluster: GroupCluster) -> bool:
    """Released and begun as far as pods exist, ended, or in an epoch that none of its pods has seen in time."""
    group = jobset.status.group_scheduling
    assert group is not None
    if finish(jobset) is not None or group.released_epoch == group.epoch:
        return True
    return group.start_time is None or (cluster.clock.now() - group.start_time).total_seconds() < TIMEOUT + 5
