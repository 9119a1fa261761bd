"""Watches: where they begin, what they say, how they end."""

import asyncio
import json

import pytest
from tests.system.apiserver.harness import (
    EVENTS,
    EVENTS_V1,
    MAPS,
    NAMESPACES,
    PARTIAL,
    PODS,
    TABLE,
    api,
    config_map,
    pod,
)


@pytest.mark.parametrize("version", ["", "0"])
@api
async def test_without_a_version_everything_is_new(api, version):
    await api.made(MAPS, config_map("a"))
    await api.made(MAPS, config_map("b"))
    async with api.watch(MAPS, resourceVersion=version) as events:
        assert await events.names(2) == ["ADDED a", "ADDED b"]
        await api.delete(f"{MAPS}/a")
        await api.merge(f"{MAPS}/b", {"data": {"x": "y"}})
        assert await events.names(2) == ["DELETED a", "MODIFIED b"]


@api
async def test_from_a_version_on(api):
    await api.made(MAPS, config_map("a"))
    then = api.store.revision
    changed = (await api.merge(f"{MAPS}/a", {"data": {"x": "y"}})).json
    await api.made(PODS, pod())
    await api.made(f"{NAMESPACES}/kube-system/configmaps", config_map("elsewhere"))
    await api.delete(f"{MAPS}/a")
    async with api.watch(MAPS, resourceVersion=then) as events:
        assert await events.next() == ("MODIFIED", changed)
        type_, last = await events.next()
        assert type_ == "DELETED"
        assert int(last["metadata"]["resourceVersion"]) == api.store.revision
        assert last["data"] == {"x": "y"}
        await api.made(MAPS, config_map("b"))
        assert await events.names(1) == ["ADDED b"]
        assert await events.silent()
    async with api.watch("/api/v1/configmaps", resourceVersion=then) as events:
        assert await events.names(4) == ["MODIFIED a", "ADDED elsewhere", "DELETED a", "ADDED b"]


@api
async def test_objects_come_and_go_with_the_selection(api):
    await api.made(PODS, pod("a", labels={"on": "1"}))
    await api.made(PODS, pod("b"))
    then = api.store.revision
    async with api.watch(PODS, resourceVersion=then, labelSelector="on=1") as events:
        joined = await api.merge(f"{PODS}/b", {"metadata": {"labels": {"on": "1"}}})
        assert await events.next() == ("ADDED", joined.json)
        before = (await api.get(f"{PODS}/a")).json
        left = await api.merge(f"{PODS}/a", {"metadata": {"labels": {"on": "0"}}})
        type_, obj = await events.next()
        assert type_ == "DELETED"
        assert obj["metadata"].pop("resourceVersion") == left.meta["resourceVersion"]
        before["metadata"].pop("resourceVersion")
        assert obj == before  # as it last was when it was selected
        await api.merge(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
        await api.delete(f"{PODS}/a")
        await api.delete(f"{PODS}/b")
        assert await events.names(1) == ["DELETED b"]
        assert await events.silent()


@api
async def test_a_node_watches_its_own_pods(api):
    await api.made(PODS, pod("a", node="n1"))
    await api.made(PODS, pod("b"))
    async with api.watch("/api/v1/pods", fieldSelector="spec.nodeName=n1") as events:
        assert await events.names(1) == ["ADDED a"]
        await api.post(f"{PODS}/b/binding", {"target": {"kind": "Node", "name": "n1"}})
        assert await events.names(1) == ["ADDED b"]
    async with api.watch(PODS, fieldSelector="metadata.name=b", resourceVersion="0") as events:
        assert await events.names(1) == ["ADDED b"]
        await api.merge(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
        assert await events.silent()


@api
async def test_bookmarks(api):
    await api.made(MAPS, config_map("a"))
    async with api.watch(MAPS, resourceVersion=api.store.revision, allowWatchBookmarks="true") as events:
        await api.made(PODS, pod())
        type_, obj = await events.next(61)
        assert (type_, obj["kind"], obj["metadata"]["resourceVersion"]) == (
            "BOOKMARK",
            "ConfigMap",
            str(api.store.revision),
        )
        assert 59 < api.clock.monotonic() < 61
        await api.made(MAPS, config_map("b"))
        assert await events.names(1) == ["ADDED b"]
    async with api.watch(MAPS, resourceVersion=api.store.revision) as events:
        assert await events.silent(300)


@api
async def test_streaming_lists(api):
    await api.made(MAPS, config_map("a"))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "resourceVersion": str(api.store.revision),
    }
    async with api.watch(MAPS, **query) as events:
        assert await events.names(1) == ["ADDED a"]
        type_, obj = await events.next()
        assert (type_, obj["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
        assert obj["metadata"]["resourceVersion"] == str(api.store.revision)
        await api.made(MAPS, config_map("b"))
        assert await events.names(1) == ["ADDED b"]
    async with api.watch(MAPS, sendInitialEvents="false", resourceVersionMatch="NotOlderThan") as events:
        assert await events.silent()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sendInitialEvents": "true"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ({"resourceVersionMatch": "NotOlderThan"}, "forbidden for watch unless sendInitialEvents is provided"),
        ({"resourceVersionMatch": "Exact", "sendInitialEvents": "true"}, "Unsupported value"),
        ({"resourceVersion": "x"}, "invalid syntax"),
        ({"timeoutSeconds": "x"}, "invalid syntax"),
        ({"fieldSelector": "a=b"}, "is not a known field selector"),
        ({"continue_": "x"}, "resourceVersionMatch is forbidden when continue is provided"),
    ],
)
@api
async def test_refusals(api, query, message):
    answer = await api.get(MAPS, watch="true", **query)
    assert answer.status in (400, 422)
    assert message in answer.message


@pytest.mark.parametrize(
    ("seconds", "least", "most"),
    [(30, 29, 31), (-1, 0, 1), (-(2**63), 0, 1), (0, 1799, 3601), ("", 1799, 3601), (2**63 - 1, 604_799, 604_801)],
)
@api
async def test_how_long_it_lasts(api, seconds, least, most):
    await api.made(MAPS, config_map("a"))
    before = api.clock.monotonic()
    async with api.watch(MAPS, timeoutSeconds=seconds) as events:
        assert await events.names(1) == ["ADDED a"]
        assert await events.rest() == []
    assert least <= api.clock.monotonic() - before <= most


@pytest.mark.parametrize("seconds", [-1, 0, 5])
@api
async def test_a_list_has_no_time_to_keep(api, seconds):
    assert (await api.get(MAPS, timeoutSeconds=seconds)).status == 200
    assert (await api.get(MAPS, timeoutSeconds="soon")).status == 400


@api
async def test_it_ends_when_it_should(api):
    async with api.watch(MAPS, timeoutSeconds=30, resourceVersion=api.store.revision) as events:
        assert await events.rest() == []
        assert 29 < api.clock.monotonic() < 31
    before = api.clock.monotonic()
    async with api.watch(MAPS, timeoutSeconds=70, allowWatchBookmarks="1", resourceVersion="1") as events:
        assert [type_ for type_, _ in await events.rest()] == ["BOOKMARK", "BOOKMARK"]
        assert 69 < api.clock.monotonic() - before < 71
    before = api.clock.monotonic()
    async with api.watch(MAPS) as events:
        await events.rest()
        assert 1799 < api.clock.monotonic() - before < 3601


@api
async def test_the_server_ends_it(api):
    async with api.watch(MAPS) as one, api.watch(PODS, resourceVersion="1") as two:
        assert await one.silent()
        api.server.stop()
        assert await two.rest() == []
    async with api.watch(MAPS) as late:
        assert await late.rest() == []


@api
async def test_history_is_bounded(api):
    await api.made(MAPS, config_map("a"))
    await api.store.compact(api.store.revision)
    async with api.watch(MAPS, resourceVersion=1) as events:
        [(type_, status)] = await events.rest()
    assert (type_, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


@api
async def test_a_watcher_that_falls_behind_is_told(api):
    async with api.watch(MAPS, resourceVersion=api.store.revision) as events:
        await api.made(MAPS, config_map("a"))
        assert await events.names(1) == ["ADDED a"]
        await api.made(MAPS, config_map("b"))
        await api.store.compact(api.store.revision)
        [(type_, status)] = await events.rest()
    assert (type_, status["code"]) == ("ERROR", 410)


@api
async def test_tables(api):
    await api.made(PODS, pod("a"))
    async with api.watch(PODS, accept=TABLE) as events:
        type_, table = await events.next()
        assert (type_, table["kind"], table["rows"][0]["cells"][0]) == ("ADDED", "Table", "a")
        assert table["metadata"]["resourceVersion"]
        await api.delete(f"{PODS}/a")
        type_, table = await events.next()
        assert (type_, table["rows"][0]["object"]["metadata"]["name"]) == ("DELETED", "a")
    async with api.watch(PODS, accept=TABLE, allowWatchBookmarks="true") as events:
        type_, table = await events.next(61)
        row = {"cells": [], "object": table["rows"][0]["object"]}
        assert (type_, table["kind"], table["rows"]) == ("BOOKMARK", "Table", [row])
        assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@api
async def test_ages_in_tables_go_on_while_the_watch_lasts(api):
    async with api.watch(MAPS, accept=TABLE, resourceVersion=api.store.revision) as events:
        await asyncio.sleep(40)
        await api.made(MAPS, config_map("a"))
        _, table = await events.next()
        assert table["rows"][0]["cells"][-1] == "0s"
        await asyncio.sleep(30)
        await api.delete(f"{MAPS}/a")
        _, table = await events.next()
        assert table["rows"][0]["cells"][-1] == "30s"


@api
async def test_metadata_alone(api):
    await api.made(PODS, pod("a"))
    async with api.watch(PODS, accept=PARTIAL, allowWatchBookmarks="true") as events:
        type_, obj = await events.next()
        assert (type_, obj["kind"], "spec" in obj) == ("ADDED", "PartialObjectMetadata", False)
        type_, obj = await events.next(61)
        assert (type_, obj["kind"], set(obj)) == (
            "BOOKMARK",
            "PartialObjectMetadata",
            {"kind", "apiVersion", "metadata"},
        )


@api
async def test_another_view_of_the_same_objects(api):
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "message": "hello"}
    async with api.watch(EVENTS_V1) as events:
        await api.made(EVENTS, event)
        type_, obj = await events.next()
        assert (type_, obj["apiVersion"], obj["note"]) == ("ADDED", "events.k8s.io/v1", "hello")


@api
async def test_long_bursts_come_in_pieces(api):
    big = "x" * 100_000
    for n in range(40):
        await api.made(MAPS, config_map(f"m{n:02}", data={"a": big}))
    from muster.cluster.apiserver.inprocess import InProcessTransport
    from muster.cluster.apiserver.verbs.watchpieces import PIECE_BYTES
    from muster.runtime.transport import Request

    transport = InProcessTransport(api.server)
    async with transport.stream(Request("GET", MAPS, {"watch": "1", "timeoutSeconds": "1"})) as chunks:
        pieces = [chunk async for chunk in chunks]
    assert max(map(len, pieces)) <= PIECE_BYTES
    names = [json.loads(line)["object"]["metadata"]["name"] for line in b"".join(pieces).splitlines()]
    assert names == [f"m{n:02}" for n in range(40)]
