"""The APIServices that list what a server serves itself."""

from tests.system.apiserver.test_custom_resources import crd
from tests.system.cluster.test_custom_kinds import DEFINITION, NAME
from tests.system.cluster.test_serviceaccounts import found, reachable
from tests.system.plane import virtual

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.kueue import WORKLOAD
from muster.api.server.apiregistration import API_SERVICE

SERVICE = API_SERVICE.seen_as(dict)
LABEL = "kube-aggregator.kubernetes.io/automanaged"


def without_time(service):
    return [{k: v for k, v in c.items() if k != "lastTransitionTime"} for c in service["status"]["conditions"]]


async def by_name(world):
    return {one["metadata"]["name"]: one for one in (await world.client.list(SERVICE)).items}


@reachable
async def test_all_that_is_served_is_local_and_available(world):
    await world.settle()
    services = await by_name(world)
    for kind, managed, priorities in (
        (POD, "onstart", (18000, 1)),
        (JOB, "onstart", (17400, 15)),
        (WORKLOAD, "true", (1000, 100)),
    ):
        service = services[f"{kind.version}.{kind.group}"]
        spec = service["spec"]
        assert (spec.get("group", ""), spec["version"], "service" in spec) == (kind.group, kind.version, False)
        assert (spec["groupPriorityMinimum"], spec["versionPriority"]) == priorities
        assert service["metadata"]["labels"] == {LABEL: managed}
    served = {(r.kind.group, r.kind.version) for r in world.plane.server.registry}
    listed = {(s["spec"].get("group", ""), s["spec"]["version"]) for s in services.values()}
    assert served - listed == {("apiregistration.k8s.io", "v1")}
    assert listed <= served
    message = "Local APIServices are always available"
    available = [{"type": "Available", "status": "True", "reason": "Local", "message": message}]
    assert all(without_time(service) == available for service in services.values())


@reachable
async def test_they_come_back_and_follow_definitions(world):
    await world.client.create(DEFINITION, crd())
    await world.settle()
    assert (await found(world, SERVICE, "v1.example.com", ""))["metadata"]["labels"] == {LABEL: "true"}
    for name in ("v1.batch", "v1.example.com"):
        await world.client.delete(SERVICE, name)
    await world.client.patch(SERVICE, "v1.", {"status": {"conditions": []}}, subresource="status")
    await world.settle()
    services = await by_name(world)
    assert {"v1.batch", "v1.example.com"} <= services.keys()
    assert services["v1."]["status"]["conditions"]
    await world.client.delete(DEFINITION, NAME)
    await world.settle(20)
    assert "v1.example.com" not in await by_name(world)


@reachable
async def test_what_others_serve_is_theirs(world):
    other = {"group": "metrics.k8s.io", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    service = {"name": "metrics", "namespace": "kube-system"}
    await world.client.create(
        SERVICE, {"metadata": {"name": "v1.metrics.k8s.io"}, "spec": other | {"service": service}}
    )
    await world.settle()
    before = await by_name(world)
    assert "conditions" not in before["v1.metrics.k8s.io"].get("status", {})
    # Kueue's manifests have one of a group that is served here: it is not written back and forth.
    await world.client.patch(SERVICE, "v1.batch", {"spec": {"service": service}})
    await world.settle(60)
    assert (await by_name(world))["v1.batch"]["spec"]["service"]["name"] == "metrics"


@virtual
async def test_there_are_none_where_nobody_comes_from_outside(world):
    await world.settle()
    assert await by_name(world) == {}
