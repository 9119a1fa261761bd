"""Disruption budgets of PodGroups, as those see them who drain nodes (KEP-34, 3.28 of the checklist)."""

from tests.system.apiserver.harness import PODS, pod
from tests.system.gangs.evictions import BUDGETS, cause, cluster, evict, numbers, run

KEP = "incubator.scheduling.k8s.io/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"
ASKED = {"muster.dev/disruption-budget": "true"}


def path(version):
    return f"/apis/{version}/namespaces/default/podgroups"


async def group(api, version=KEP, annotations=ASKED, **spec):
    meta = {"name": "g", "annotations": annotations}
    await api.made(path(version), {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec})
    await api.clock.sleep(1)


async def members(api, count):
    for n in range(count):
        made = pod(f"p{n}", node="n1")
        made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        await api.made(PODS, made)
        await run(api, f"p{n}")
    await api.clock.sleep(1)


@cluster
async def test_3_28_only_the_surplus_of_a_group_is_drained(api):
    await group(api, minMembers=2)
    await members(api, 3)
    assert await numbers(api, "g") == (3, 2, 3, 1)
    assert (await evict(api, "p0")).status == 201
    await api.clock.sleep(1)
    assert cause(await evict(api, "p1")) == "The disruption budget g needs 2 healthy pods and has 2 currently"


@cluster
async def test_3_28_nobody_gets_a_budget_unasked(api):
    await group(api, annotations={}, minMembers=2)
    assert (await api.get(BUDGETS)).names == []
    await api.merge(f"{path(KEP)}/g", {"metadata": {"annotations": ASKED}})
    await api.clock.sleep(1)
    assert (await api.get(BUDGETS)).names == ["g"]
    await api.merge(f"{path(KEP)}/g", {"metadata": {"annotations": {"muster.dev/disruption-budget": None}}})
    await api.clock.sleep(1)
    assert (await api.get(BUDGETS)).names == []


@cluster
async def test_3_28_a_budget_is_kept_as_its_group_says_and_goes_with_it(api):
    await group(api, VOLCANO, minMember=2)
    await api.delete(f"{BUDGETS}/g")
    await api.clock.sleep(1)
    assert (await api.get(f"{BUDGETS}/g")).json["spec"]["minAvailable"] == 2
    await api.merge(f"{BUDGETS}/g", {"spec": {"minAvailable": None, "maxUnavailable": 5}})
    await api.merge(f"{path(VOLCANO)}/g", {"spec": {"minMember": 3}})
    await api.clock.sleep(1)
    spec = (await api.get(f"{BUDGETS}/g")).json["spec"]
    assert spec == {"minAvailable": 3, "selector": {"matchLabels": {"muster.dev/pod-group": "g"}}}
    await api.delete(f"{path(VOLCANO)}/g")
    await api.clock.sleep(1)
    assert (await api.get(BUDGETS)).names == []


@cluster
async def test_3_28_a_budget_of_somebody_else_is_left_alone(api):
    own = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "g"}, "spec": own}
    await api.made(BUDGETS, budget)
    await group(api, minMembers=2)
    assert (await api.get(f"{BUDGETS}/g")).json["spec"] == own
    events = (await api.get("/api/v1/namespaces/default/events")).json["items"]
    told = [event["message"] for event in events if event["reason"] == "BudgetNotCreated"]
    assert told == ["PodDisruptionBudget g is there already, and not of this group"]


@cluster
async def test_the_label_of_a_pod_says_which_group_it_names(api):
    made = pod("p", labels={"muster.dev/pod-group": "another"})
    made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    assert (await api.made(PODS, made))["metadata"]["labels"] == {"muster.dev/pod-group": "g"}
