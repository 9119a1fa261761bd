"""The visibility API: who waits in a queue, in order; asked as clients ask."""

from typing import Any

from tests.system.apiserver.harness import MAPS, Api, api, config_map
from tests.system.plane import World, virtual
from tests.system.queueing.queueing_world import finish, flavor, local_queue, queue, workload

from muster.api.kueue import WORKLOAD
from muster.cluster.apiserver.identity.users import User

GROUP = "/apis/visibility.kueue.x-k8s.io"


def of_queue(name: str, version: str = "v1beta2") -> str:
    return f"{GROUP}/{version}/clusterqueues/{name}/pendingworkloads"


def of_local(name: str, namespace: str = "default", version: str = "v1beta2") -> str:
    return f"{GROUP}/{version}/namespaces/{namespace}/localqueues/{name}/pendingworkloads"


async def lined_up(world: World) -> Api:
    """One workload runs; in order of priority, six wait, of two LocalQueues in turn."""
    await flavor(world)
    await queue(world, "team", cpu=1)
    await local_queue(world, "other", "team")
    await workload(world, "runs", "team")
    await world.settle()
    for number in range(6):
        name = ("team", "other")[number % 2]
        await workload(world, f"w{number}", name, priority=-number)
    await world.settle()
    return Api(world.plane)


def lines(answer: Any) -> list[tuple[str, str, int, int]]:
    assert answer.status == 200, answer.body
    return [
        (
            item["metadata"]["name"],
            item["localQueueName"],
            item["positionInClusterQueue"],
            item["positionInLocalQueue"],
        )
        for item in answer.json["items"]
    ]


EVERYBODY = [(f"w{number}", ("team", "other")[number % 2], number, number // 2) for number in range(6)]


@virtual
async def test_a_line_and_its_parts(world: World) -> None:
    api = await lined_up(world)
    for version in ("v1beta2", "v1beta1"):
        answer = await api.get(of_queue("team", version))
        assert lines(answer) == EVERYBODY
        assert answer.json["apiVersion"] == f"visibility.kueue.x-k8s.io/{version}"
        assert answer.json["kind"] == "PendingWorkloadsSummary"
    for query, part in (
        ({"limit": 2}, EVERYBODY[:2]),
        ({"limit": 2, "offset": 3}, EVERYBODY[3:5]),
        ({"offset": 5}, EVERYBODY[5:]),
        ({"offset": 6}, []),
        ({"limit": 0}, EVERYBODY),
        ({"limit": -1, "offset": -1}, []),
        ({"limit": 10**12}, EVERYBODY),
    ):
        assert lines(await api.get(of_queue("team"), **query)) == part, query
    assert lines(await api.get(of_local("team"))) == EVERYBODY[::2]
    assert lines(await api.get(of_local("other"), limit=1, offset=1)) == [EVERYBODY[3]]


@virtual
async def test_an_item(world: World) -> None:
    api = await lined_up(world)
    uid = (await api.made(MAPS, config_map("m")))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": uid}
    await workload(world, "owned", "team", priority=7, metadata={"ownerReferences": [owner], "labels": {"a": "b"}})
    await world.settle()
    (item,) = (await api.get(of_queue("team"), limit=1)).json["items"]
    meta = item.pop("metadata")
    assert meta.pop("creationTimestamp")
    assert meta == {"name": "owned", "namespace": "default", "ownerReferences": [owner]}
    assert item == {
        "priority": 7,
        "localQueueName": "team",
        "positionInClusterQueue": 0,
        "positionInLocalQueue": 0,
    }


@virtual
async def test_whoever_is_admitted_or_gone_waits_no_longer(world: World) -> None:
    api = await lined_up(world)
    await finish(world, "runs")
    await world.client.delete(WORKLOAD, "w1", "default")
    await world.settle()
    assert [line[0] for line in lines(await api.get(of_queue("team")))] == ["w2", "w3", "w4", "w5"]


@virtual
async def test_an_empty_line(world: World) -> None:
    await flavor(world)
    await queue(world, "team", cpu=1)
    await world.settle()
    api = Api(world.plane)
    for path in (of_queue("team"), of_local("team")):
        assert (await api.get(path)).json["items"] == []


@virtual
async def test_refusals(world: World) -> None:
    api = await lined_up(world)
    await api.made("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    stranger = User("stranger", frozenset())
    for code, path, options, message in (
        (404, of_queue("nobody"), {}, 'clusterqueue.visibility.kueue.x-k8s.io "nobody" not found'),
        (404, of_local("nobody"), {}, 'localqueue.visibility.kueue.x-k8s.io "nobody" not found'),
        (404, of_local("team", "elsewhere"), {}, 'localqueue.visibility.kueue.x-k8s.io "team" not found'),
        (400, of_queue("team"), {"limit": "x"}, 'limit: strconv.ParseInt: parsing "x": invalid syntax'),
        (404, of_queue("team", "v1"), {}, "the server could not find the requested resource"),
        (404, f"{GROUP}/v1beta2/namespaces/default/clusterqueues/team/pendingworkloads", {}, None),
        (404, f"{GROUP}/v1beta2/localqueues/team/pendingworkloads", {}, None),
        (405, f"{GROUP}/v1beta2/clusterqueues", {}, None),
        (405, f"{GROUP}/v1beta2/clusterqueues/team", {}, None),
    ):
        answer = await api.get(path, **options)
        assert answer.status == code, path
        assert message is None or answer.message == message
    assert (await api.post(of_queue("team"), {})).status == 405
    answer = await api.get(of_queue("team"), user=stranger)
    assert answer.status == 403
    assert answer.message == (
        'clusterqueues.visibility.kueue.x-k8s.io "team" is forbidden: User "stranger" cannot get resource '
        '"clusterqueues/pendingworkloads" in API group "visibility.kueue.x-k8s.io" at the cluster scope'
    )


@api
async def test_without_controllers_nobody_knows(api: Api) -> None:
    answer = await api.get(of_queue("team"))
    assert (answer.status, answer.json["reason"]) == (503, "ServiceUnavailable")


@api
async def test_discovery(api: Api) -> None:
    (group,) = [
        group for group in (await api.get("/apis")).json["groups"] if group["name"] == "visibility.kueue.x-k8s.io"
    ]
    assert [version["version"] for version in group["versions"]] == ["v1beta2", "v1beta1"]
    for version in ("v1beta2", "v1beta1"):
        listed = (await api.get(f"{GROUP}/{version}")).json["resources"]
        assert {(one["name"], one["namespaced"], one["kind"], tuple(one["verbs"])) for one in listed} == {
            ("clusterqueues", False, "ClusterQueue", ()),
            ("clusterqueues/pendingworkloads", False, "PendingWorkloadsSummary", ("get",)),
            ("localqueues", True, "LocalQueue", ()),
            ("localqueues/pendingworkloads", True, "PendingWorkloadsSummary", ("get",)),
        }


@api
async def test_schema(api: Api) -> None:
    document = (await api.get("/openapi/v3/apis/visibility.kueue.x-k8s.io/v1beta2")).json
    read = document["paths"][of_queue("{name}")]["get"]
    assert {parameter["name"] for parameter in read["parameters"]} == {"limit", "offset"}
    reference = read["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    summary = document["components"]["schemas"][reference.rpartition("/")[2]]
    assert set(summary["properties"]) >= {"metadata", "items"}
