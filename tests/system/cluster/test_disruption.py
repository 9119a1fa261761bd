"""Disruption budgets as those see them who evict: the answers are those of kube-apiserver with its controllers."""

import asyncio

import pytest
from tests.system.apiserver.harness import DEFAULT, JOBS, PODS, job, pod
from tests.system.gangs.evictions import BUDGETS, budget, cause, cluster, evict, make, numbers, run, status
from tests.system.plane import looks


@cluster
async def test_the_status_of_a_budget(api):
    await make(api, "a0", "a1", "a2")
    await budget(api, minAvailable=2)
    found = await status(api)
    assert (
        found.pop("conditions")[0].items()
        > {
            "type": "DisruptionAllowed",
            "status": "True",
            "observedGeneration": 1,
            "reason": "SufficientPods",
            "message": "",
        }.items()
    )
    assert found == {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 3,
        "desiredHealthy": 2,
        "expectedPods": 3,
    }


@cluster
async def test_pitfall_29_a_budget_is_spent_by_the_eviction_itself(api):
    await make(api, "a0", "a1", "a2")
    await budget(api, minAvailable=2)
    await status(api)
    assert (await evict(api, "a0")).status == 201
    left = (await api.get(f"{BUDGETS}/b")).json["status"]
    assert (left["disruptionsAllowed"], list(left["disruptedPods"])) == (0, ["a0"])
    refused = await evict(api, "a1")
    assert (refused.status, "retry-after" in refused.headers) == (429, False)
    assert cause(refused).startswith("The disruption budget b ")
    after = await status(api)
    assert (after["currentHealthy"], "disruptedPods" in after) == (2, False)
    assert cause(await evict(api, "a1")) == "The disruption budget b needs 2 healthy pods and has 2 currently"
    assert (await api.get(f"{PODS}/a1")).meta.get("deletionTimestamp") is None


@cluster
async def test_a_pod_that_has_failed_by_itself_is_not_disrupted_by_an_eviction(api):
    made = pod("p", node="n1")
    made["metadata"]["finalizers"] = ["example.com/keep"]
    await api.made(PODS, made)
    await run(api, "p", "Failed", ready=False)
    assert (await evict(api, "p")).status == 201
    left = await api.get(f"{PODS}/p")
    assert left.meta["deletionTimestamp"]
    assert "DisruptionTarget" not in [one["type"] for one in left.json["status"]["conditions"]]


@cluster
async def test_pitfall_29_many_evictions_at_once_are_let_through_as_far_as_the_budget_goes(api):
    names = [f"a{n}" for n in range(20)]
    await make(api, *names)
    await budget(api, minAvailable=13)
    await status(api)
    answers = await asyncio.gather(*(evict(api, name) for name in names))
    assert sorted(answer.status for answer in answers) == [201] * 7 + [429] * 13
    assert await numbers(api) == (20, 13, 13, 0)


@cluster
async def test_what_is_refused_or_tried_costs_nothing(api):
    await make(api, "a0", "a1")
    await budget(api, minAvailable=1)
    before = await status(api)
    stale = {"preconditions": {"resourceVersion": "1"}}
    assert (await evict(api, "a0", deleteOptions=stale)).status == 409
    assert (await evict(api, "a0", deleteOptions={"preconditions": {"uid": "x"}})).status == 409
    assert (await evict(api, "a0", dry=True)).status == 201
    assert await status(api) == before
    assert (await evict(api, "a0")).status == 201
    assert (await evict(api, "a1", dry=True)).status == 429


@pytest.mark.parametrize(("phase", "ready"), [("Pending", False), ("Succeeded", False), ("Failed", False)], ids=str)
@cluster
async def test_pods_that_do_not_run_go_without_a_budget(api, phase, ready):
    await make(api, "a0", phase=phase, ready=ready)
    await budget(api, "one", minAvailable=1)
    await budget(api, "two", minAvailable=1)
    await status(api, "one")
    assert (await evict(api, "a0")).status == 201


@cluster
async def test_a_pod_of_several_budgets(api):
    await make(api, "a0", "a1")
    await budget(api, "one", minAvailable=0)
    await budget(api, "two", minAvailable=0)
    await status(api, "one")
    refused = await evict(api, "a0")
    assert refused.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        "code": 500,
    }
    assert refused.status == 500


@cluster
async def test_a_budget_that_was_not_looked_at_yet(api):
    await make(api, "a0", "a1")
    await budget(api, minAvailable=1)
    refused = await evict(api, "a0")
    assert cause(refused) == "The disruption budget b is still being processed by the server."
    assert (refused.status, refused.headers["retry-after"]) == (429, "10")
    await status(api)
    assert (await evict(api, "a0")).status == 201


@cluster
async def test_a_budget_is_asked_as_it_is_now(api):
    await make(api, "a0", "a1")
    await budget(api, minAvailable=2)
    await status(api)
    assert (await evict(api, "a0")).status == 429
    await api.merge(f"{BUDGETS}/b", {"spec": {"selector": {"matchLabels": {"app": "other"}}}})
    assert (await evict(api, "a0")).status == 201
    await api.merge(f"{PODS}/a1", {"metadata": {"labels": {"app": "other"}}})
    assert (await evict(api, "a1")).status == 429


@pytest.mark.parametrize(
    ("policy", "healthy", "code"),
    [("AlwaysAllow", 1, 201), ("IfHealthyBudget", 1, 429), ("IfHealthyBudget", 2, 201), (None, 1, 429), (None, 2, 201)],
)
@cluster
async def test_unhealthy_pods(api, policy, healthy, code):
    await make(api, *[f"a{n}" for n in range(healthy)])
    await make(api, "sick", ready=False)
    await budget(api, minAvailable=2, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    await status(api)
    assert (await evict(api, "sick")).status == code
    assert await numbers(api) == (healthy + 1, 2, healthy, 0)  # it goes in its grace period


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"maxUnavailable": 1}, (4, 3, 4, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 4, 2)),
        ({"minAvailable": "60%"}, (4, 3, 4, 1)),
    ],
)
@cluster
async def test_a_part_of_what_a_job_wants(api, spec, expected):
    """Upstream has no scale of Jobs; here they have one."""
    await api.made(JOBS, job(parallelism=4))
    await api.clock.sleep(1)
    for name in (await api.get(PODS)).names:
        await run(api, name)
    await budget(api, label="batch.kubernetes.io/job-name", app="j", **spec)
    assert await numbers(api) == expected


@cluster
async def test_the_pods_of_a_deployment_count_against_its_replicas(api):
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    apps = "/apis/apps/v1/namespaces/default"
    deployment = await api.made(
        f"{apps}/deployments",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec | {"replicas": 3}},
    )
    meta = {"name": "r", "ownerReferences": [owner_of(deployment)]}
    replicas = await api.made(
        f"{apps}/replicasets",
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec | {"replicas": 1}},
    )
    await make(api, "a0", owner=owner_of(replicas))
    await budget(api, maxUnavailable=1)
    assert await numbers(api) == (3, 2, 1, 0)


def owner_of(made, **changes):
    meta = {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"], "controller": True}
    return {"apiVersion": made["apiVersion"], "kind": made["kind"], **meta, **changes}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "configmaps does not implement the scale subresource"),
        (
            {"apiVersion": "example.com/v1", "kind": "Thing"},
            'no matches for kind "Thing" in version "example.com/v1"',
        ),
        ({"apiVersion": "batch/v1", "kind": "Job"}, 'found no controllers for pod "a0"'),
    ],
)
@cluster
async def test_owners_that_say_no_number(api, changes, why):
    made = await api.made(f"{DEFAULT}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    owner = owner_of(made, **changes)
    await api.made(
        PODS,
        pod("a0", node="n1", labels={"app": "a"})
        | {"metadata": {"name": "a0", "labels": {"app": "a"}, "ownerReferences": [owner]}},
    )
    await budget(api, maxUnavailable=1)
    found = await status(api)
    assert ("observedGeneration" in found, found["disruptionsAllowed"]) == (False, 0)
    (condition,) = found["conditions"]
    assert (condition["reason"], condition["message"]) == ("SyncFailed", why)


@cluster
async def test_many_pods_of_a_budget_that_change_together_are_one_look(api):
    await budget(api, maxUnavailable="10%")
    await api.clock.sleep(1)
    names, before = [f"a{n}" for n in range(50)], looks(api.plane, "disruption-controller")
    await make(api, *names, owner={"apiVersion": "v1", "kind": "ReplicationController", "name": "rc", "uid": "rc"})
    await status(api)
    assert looks(api.plane, "disruption-controller") - before <= 3, "one, and one for each time that it writes"
