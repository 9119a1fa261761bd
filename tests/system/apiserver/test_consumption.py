"""`metrics.k8s.io`: what nodes and pods use, as `kubectl top` asks for it."""

import asyncio
from typing import cast

import pytest
from tests.system.apiserver.harness import PODS, TABLE, Api, api, pod

from muster.cluster.apiserver.consumption import compute_rates, sum_usage
from muster.cluster.nodeconnection import NodeConnection, Reading

METRICS = "/apis/metrics.k8s.io/v1beta1"


class PlayedNode:
    """A node whose containers use so many cores."""

    def __init__(self, clock):
        self.clock = clock
        self.cores = {}
        self.readings = 0

    async def measure_usage(self):
        self.readings += 1
        now = self.clock.monotonic()
        return {key: Reading(cores * now, 2048 * 1024) for key, cores in self.cores.items()}


async def node(api: Api) -> PlayedNode:
    await api.made("/api/v1/nodes", {"metadata": {"name": "n", "labels": {"a": "b"}}})
    played = PlayedNode(api.clock)
    api.plane.nodes["n"] = cast("NodeConnection", played)  # it is asked for nothing else
    return played


async def running_pod(api: Api, played: PlayedNode, name: str, cores: float, **about):
    made = await api.made(PODS, pod(name, node="n", **about))
    await api.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
    played.cores[made["metadata"]["uid"], "c"] = cores


def test_a_rate_is_the_difference_of_two_readings():
    old, new = {("u", "c"): Reading(1.0, 1024)}, {("u", "c"): Reading(2.0, 4096), ("u", "new"): Reading(0.5, 0)}
    found = compute_rates(old, new, 2.0).usage
    assert found == {
        ("u", "c"): {"cpu": "500000000n", "memory": "4Ki"},
        ("u", "new"): {"cpu": "250000000n", "memory": "0Ki"},
    }
    assert sum_usage(found.values()) == {"cpu": "750000000n", "memory": "4Ki"}
    assert compute_rates(new, old, 1.0).usage["u", "c"]["cpu"] == "0n", "a counter that went back"


@api
async def test_pods_and_nodes_have_what_their_containers_use(api: Api) -> None:
    played = await node(api)
    await running_pod(api, played, "a", 0.5, labels={"app": "x"})
    await running_pod(api, played, "b", 0.25)
    await api.made(PODS, pod("waits"))
    found = (await api.get(f"{METRICS}/namespaces/default/pods")).json
    assert (found["kind"], [item["metadata"]["name"] for item in found["items"]]) == ("PodMetricsList", ["a", "b"])
    assert found["items"][0]["containers"] == [{"name": "c", "usage": {"cpu": "500000000n", "memory": "2048Ki"}}]
    assert found["items"][0]["window"] == "1.000s"
    one = (await api.get(f"{METRICS}/nodes/n")).json
    assert (one["kind"], one["usage"]) == ("NodeMetrics", {"cpu": "750000000n", "memory": "4096Ki"})


@api
async def test_it_is_selected_and_named_as_pods_are(api: Api) -> None:
    played = await node(api)
    await running_pod(api, played, "a", 0.5, labels={"app": "x"})
    await running_pod(api, played, "b", 0.25)
    assert (await api.get(f"{METRICS}/pods", labelSelector="app=x")).names == ["a"]
    assert (await api.get(f"{METRICS}/pods", fieldSelector="metadata.name=b")).names == ["b"]
    assert (await api.get(f"{METRICS}/namespaces/default/pods/b")).json["metadata"]["name"] == "b"
    assert (await api.get(f"{METRICS}/nodes", labelSelector="a=c")).names == []
    for missing in ("namespaces/default/pods/nobody", "nodes/nobody"):
        assert (await api.get(f"{METRICS}/{missing}")).status == 404


@api
async def test_a_long_list_comes_in_pages(api: Api) -> None:
    played = await node(api)
    for name in "abcde":
        await running_pod(api, played, name, 0.5)
    await api.made(PODS, pod("bb"))
    names, token, pages = [], "", 0
    while pages == 0 or token:
        page = await api.get(f"{METRICS}/pods", limit="2", **({"continue": token} if token else {}))
        names += page.names
        token, pages = page.json["metadata"].get("continue", ""), pages + 1
    assert (names, pages) == ([*"abcde"], 3)
    assert played.readings == 2, "the pages of one second share the readings"
    assert (await api.get(f"{METRICS}/pods", limit="2", **{"continue": "x"})).status == 400
    assert (await api.get(f"{METRICS}/nodes", limit="1")).names == ["n"]


@api
async def test_pages_share_a_reading_that_lacks_containers(api: Api) -> None:
    played = await node(api)
    for name in "abcd":
        await running_pod(api, played, name, 0.5)
        far = f"{name}-far"  # on a machine that the server does not measure
        await api.made(PODS, pod(far, node="far"))
        await api.merge(f"{PODS}/{far}/status", {"status": {"phase": "Running"}})
    [(ended, container), *_] = played.cores
    del played.cores[ended, container]  # the container has ended, and its pod runs
    token, names = None, []
    while token != "":
        page = await api.get(f"{METRICS}/pods", limit="2", **({"continue": token} if token else {}))
        names += page.names
        token = page.json["metadata"].get("continue", "")
    assert (names, played.readings) == ([*"bcd"], 2)


@api
async def test_a_pod_that_does_not_run_has_no_metrics(api: Api) -> None:
    await api.made(PODS, pod("waits"))
    assert (await api.get(f"{METRICS}/namespaces/default/pods/waits")).status == 404


@api
async def test_however_many_ask_nodes_are_read_once_a_second(api: Api) -> None:
    played = await node(api)
    await running_pod(api, played, "a", 0.5)
    await asyncio.gather(*(api.get(f"{METRICS}/pods") for _ in range(20)))
    assert played.readings == 2
    await asyncio.sleep(10)
    assert played.readings == 2, "nobody has asked"
    found = (await api.get(f"{METRICS}/pods")).json["items"][0]
    assert (played.readings, found["window"]) == (3, "10.000s")
    await asyncio.sleep(600)
    assert (await api.get(f"{METRICS}/pods")).json["items"][0]["window"] == "1.000s"


@api
async def test_a_pod_that_has_just_started_waits_for_the_next_reading(api: Api) -> None:
    played = await node(api)
    await running_pod(api, played, "a", 0.5)
    await api.get(f"{METRICS}/nodes")
    await running_pod(api, played, "b", 0.5)
    assert (await api.get(f"{METRICS}/pods")).names == ["a", "b"]
    assert played.readings == 3


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@api
async def test_nothing_of_it_can_be_written(api: Api, method: str) -> None:
    path = f"{METRICS}/namespaces/default/pods" + ("" if method == "POST" else "/x")
    assert (await api.call(method, path, {"metadata": {"name": "x"}})).status == 405


@api
async def test_kubectl_finds_it_and_takes_the_object_where_there_is_no_table(api: Api) -> None:
    groups = [group["name"] for group in (await api.get("/apis")).json["groups"]]
    assert "metrics.k8s.io" in groups
    assert (await api.get(f"{METRICS}/pods", accept=TABLE)).json["kind"] == "PodMetricsList"
