"""What becomes of running groups that lose members, as their users see it (KEP-34, 3.24 and 3.27 of the checklist)."""

import pytest
from tests.system.apiserver.harness import JOBS, PODS, Api, job
from tests.system.plane import World, looks, running

from muster.api.ours.interruptions import WITHDRAWN_ANNOTATION
from muster.runtime.clock import run_virtual

GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/default/podgroups"
NOTED = "/api/v1/namespaces/default/events"


class Gang:
    """A PodGroup of three, a Job that makes its pods, and a node on which they run."""

    def __init__(self, world: World) -> None:
        self.world, self.api = world, Api(world.plane)

    async def begin(self, policy, members=3, **more):
        await self.world.node("n1")
        spec = {"minMembers": members, **more} | ({"policy": policy} if policy is not None else {})
        await self.api.made(
            GROUPS,
            {
                "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": "g"},
                "spec": spec,
            },
        )
        made = job(parallelism=members, completions=members, backoffLimit=3)
        made["spec"]["template"]["metadata"] = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
        await self.api.made(JOBS, made)
        await self.run()

    async def run(self, seconds=3.0):
        """Play the node for a while: what is bound runs, what is to go goes."""
        for _ in range(int(seconds)):
            await self.world.settle(1)
            for pod in await self.pods():
                if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                    await self.phase(pod, "Running")
                if pod["metadata"].get("deletionTimestamp"):
                    await self.phase(pod, "Failed")
                    await self.api.delete(f"{PODS}/{pod['metadata']['name']}", gracePeriodSeconds=0)

    async def phase(self, pod, phase):
        if pod["status"]["phase"] not in (phase, "Succeeded", "Failed"):
            await self.api.merge(f"{PODS}/{pod['metadata']['name']}/status", {"status": {"phase": phase}})

    async def pods(self):
        return (await self.api.get(PODS)).json["items"]

    async def live(self):
        """The names of those that run."""
        found = [pod for pod in await self.pods() if pod["status"]["phase"] == "Running"]
        return {pod["metadata"]["name"] for pod in found if not pod["metadata"].get("deletionTimestamp")}

    async def lose_one(self):
        """The kubelet rejects or loses a pod."""
        pods = await self.pods()
        await self.phase(next(pod for pod in pods if pod["status"]["phase"] == "Running"), "Failed")

    async def status(self):
        return (await self.api.get(f"{GROUPS}/g")).json.get("status", {})

    async def told(self):
        events = (await self.api.get(NOTED)).json["items"]
        return [(e["reason"], e["message"]) for e in events if e["involvedObject"]["kind"] == "PodGroup"]


def gang(test):
    def run(**parameters):
        async def body():
            async with running() as plane:
                await test(Gang(World(plane)), **parameters)

        run_virtual(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@gang
async def test_3_24_restart_makes_the_whole_group_anew(g):
    await g.begin({"onBelowMin": "Restart"})
    before = await g.live()
    assert (len(before), "startTime" in await g.status()) == (3, True)
    await g.lose_one()
    await g.run(20)
    after = await g.live()
    assert (len(after), after & before) == (3, set())
    status = await g.status()
    assert (status["restarts"], "startTime" in status) == (1, True)
    job = (await g.api.get(f"{JOBS}/j")).json["status"]
    assert (job["failed"], job["active"]) == (1, 3)  # the others went for no fault of theirs
    (told,) = [message for reason, message in await g.told() if reason == "Restarting"]
    assert told == "Restart 1: 2 running and 0 succeeded pods are fewer than the 3 that must run"


@gang
async def test_the_deletions_of_a_restart_are_no_failures_of_the_job(g):
    await g.begin({"onBelowMin": "Restart"})
    await g.lose_one()
    await g.world.settle(5)
    deleted = [pod["metadata"] for pod in await g.pods() if pod["metadata"].get("deletionTimestamp")]
    assert [meta["annotations"].get(WITHDRAWN_ANNOTATION) for meta in deleted] == [meta["uid"] for meta in deleted]
    assert len(deleted) == 2


@gang
async def test_3_27_pitfall_28_a_member_that_its_kubelet_rejects_is_lost(g):
    """Two schedulers gave the room of a node away: nobody makes the pod anew but its controller."""
    await g.begin({"onBelowMin": "Restart"})
    before = await g.live()
    rejected = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
    await g.api.merge(f"{PODS}/{min(before)}/status", {"status": rejected})
    await g.run(20)
    after = await g.live()
    assert (len(after), after & before, (await g.status())["restarts"]) == (3, set(), 1)


@pytest.mark.parametrize("policy", [None, {"onBelowMin": "None"}])
def test_3_24_without_a_policy_the_controller_of_the_pods_sees_to_it(policy):
    @gang
    async def scenario(g):
        await g.begin(policy)
        before = await g.live()
        await g.lose_one()
        await g.run(30)
        after = await g.live()
        assert (len(after), len(after & before)) == (3, 2)
        assert "restarts" not in await g.status()

    scenario()


@gang
async def test_3_24_fail_ends_what_runs_and_lets_nothing_start(g):
    await g.begin({"onBelowMin": "Fail"})
    await g.lose_one()
    await g.run(120)
    assert await g.live() == set()
    (condition,) = [one for one in (await g.status())["conditions"] if one["type"] == "Failed"]
    sentence = "2 running and 0 succeeded pods are fewer than the 3 that must run"
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "BelowMinMembers", sentence)
    assert ("Failed", sentence) in await g.told()
    assert ("Unschedulable", f'PodGroup "g" has failed: {sentence}') in await g.told()
    assert {pod["status"]["phase"] for pod in await g.pods()} == {"Failed", "Pending"}


@gang
async def test_3_24_after_the_last_restart_it_has_failed(g):
    await g.begin({"onBelowMin": "Restart", "maxRestarts": 1})
    for _ in range(2):
        await g.lose_one()
        await g.run(60)
    status = await g.status()
    (condition,) = [one for one in status["conditions"] if one["type"] == "Failed"]
    assert (status["restarts"], condition["reason"], await g.live()) == (1, "MaxRestartsExceeded", set())


@gang
async def test_3_24_a_member_that_is_back_in_time_restarts_nothing(g):
    await g.begin({"onBelowMin": "Restart", "backoffSeconds": 30})
    before = await g.live()
    await g.lose_one()
    await g.run(60)
    after = await g.live()
    assert (len(after), len(after & before)) == (3, 2)
    assert {"restarts", "belowMinTime"}.isdisjoint(await g.status())


@gang
async def test_3_24_a_member_that_is_not_back_in_time_restarts_all(g):
    await g.begin({"onBelowMin": "Restart", "backoffSeconds": 20})
    before = await g.live()
    await g.api.merge("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    await g.lose_one()
    await g.run(15)
    assert len(await g.live() & before) == 2
    await g.run(10)
    assert await g.live() & before == set()
    assert (await g.status())["restarts"] == 1


@gang
async def test_3_29_a_group_that_is_done_gives_back_what_it_had_set_aside(g):
    quotas = "/api/v1/namespaces/default/resourcequotas"
    await g.api.made(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}})
    used = []
    await g.begin(None, totalResources={"nvidia.com/gpu": 6})
    for _ in range(2):
        used.append((await g.api.get(f"{quotas}/q")).json["status"]["used"]["requests.nvidia.com/gpu"])
        for pod in await g.pods():
            await g.phase(pod, "Succeeded")
        await g.run(5)
    assert (used, "completionTime" in await g.status()) == (["6", "0"], True)


@gang
async def test_what_the_pods_of_a_group_that_restarts_go_through_is_a_few_looks(g):
    await g.begin({"onBelowMin": "Restart"}, members=40)
    before = looks(g.world.plane, "podgroup-policy")
    await g.lose_one()
    await g.run(20)
    assert (await g.status())["restarts"] == 1
    assert looks(g.world.plane, "podgroup-policy") - before < 20, "of 40 pods that go, and 40 that come and run"
