"""Pods with disruption budgets, and those who evict them, in a cluster with all its controllers."""

from tests.system.apiserver.harness import PODS, Api, pod, with_parameters
from tests.system.plane import running

from muster.runtime.clock import run_virtual

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def cluster(test):
    """Run a test that takes an `Api` first, with all controllers."""

    def run(**parameters):
        async def body():
            async with running() as plane:
                await test(Api(plane), **parameters)

        run_virtual(body())

    return with_parameters(run, test)


async def make(api, *names, app="a", phase="Running", ready=True, owner=None):
    for name in names:
        made = pod(name, node="n1", labels={"app": app})
        if owner is not None:
            made["metadata"]["ownerReferences"] = [owner]
        await api.made(PODS, made)
        await run(api, name, phase, ready)


async def run(api, name, phase="Running", ready=True):
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    patch = {"status": {"phase": phase, "conditions": conditions}}
    assert (await api.merge(f"{PODS}/{name}/status", patch)).status == 200


async def budget(api, name="b", app="a", label="app", **spec):
    selector = {"matchLabels": {label: app}}
    await api.made(
        BUDGETS,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"selector": selector, **spec},
        },
    )


async def status(api, name="b"):
    await api.clock.sleep(1)
    return (await api.get(f"{BUDGETS}/{name}")).json["status"]


async def numbers(api, name="b"):
    found = await status(api, name)
    return tuple(found[field] for field in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"))


async def evict(api, name, **more):
    query = {"dryRun": "All"} if more.pop("dry", False) else {}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}
    return await api.post(f"{PODS}/{name}/eviction", body, **query)


def cause(answer):
    (found,) = answer.json["details"]["causes"]
    assert (answer.message, answer.json["reason"], found["reason"]) == (REFUSED, "TooManyRequests", "DisruptionBudget")
    return found["message"]
