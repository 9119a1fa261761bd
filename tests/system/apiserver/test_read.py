"""GET and LIST: versions, pages, selectors, forms."""

import base64
import json
import tracemalloc
from hashlib import sha256

import pytest
from tests.system.apiserver.harness import (
    DEFAULT,
    EVENTS,
    JOBS,
    MAPS,
    NAMESPACES,
    PARTIAL,
    PODS,
    TABLE,
    api,
    config_map,
    job,
    pod,
)

from muster.cluster.apiserver.identity.users import ADMIN
from muster.cluster.apiserver.request.paging import PINNED_FOR, PINNED_SNAPSHOTS
from muster.runtime.transport import Request


async def maps(api, count, namespace="default", prefix="m"):
    for n in range(count):
        await api.made(f"{NAMESPACES}/{namespace}/configmaps", config_map(f"{prefix}{n:03}"))


@api
async def test_get_and_list_show_the_stored_object(api):
    made = await api.made(MAPS, config_map(data={"a": "b"}))
    assert (await api.get(f"{MAPS}/m")).json == made
    listed = (await api.get(MAPS)).json
    assert (listed["kind"], listed["apiVersion"], listed["items"]) == ("ConfigMapList", "v1", [made])
    assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    missing = await api.get(f"{MAPS}/none")
    assert (missing.status, missing.message) == (404, 'configmaps "none" not found')
    assert (await api.get("/apis/batch/v1/namespaces/default/jobs/none")).message == 'jobs.batch "none" not found'


@api
async def test_lists_are_sorted_and_span_namespaces(api):
    await maps(api, 2, "kube-system", "z")
    await maps(api, 2, "default", "b")
    everywhere = await api.get("/api/v1/configmaps")
    assert everywhere.names == ["b000", "b001", "z000", "z001"]
    assert (await api.get(f"{NAMESPACES}/kube-system/configmaps")).names == ["z000", "z001"]
    assert (await api.get(f"{NAMESPACES}/missing/configmaps")).json["items"] == []


# -- versions


@pytest.mark.parametrize(
    ("query", "status", "found"),
    [
        # what is asked, at version "then" (one object) with "now" three objects and "soon" still to come
        ({}, 200, 3),
        ({"resourceVersion": "0"}, 200, 3),
        ({"resourceVersion": "then"}, 200, 3),
        ({"resourceVersion": "then", "resourceVersionMatch": "NotOlderThan"}, 200, 3),
        ({"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}, 200, 3),
        ({"resourceVersion": "then", "resourceVersionMatch": "Exact"}, 200, 1),
        ({"resourceVersion": "then", "limit": 5}, 200, 1),
        ({"resourceVersion": "then", "limit": 5, "resourceVersionMatch": "NotOlderThan"}, 200, 3),
        ({"resourceVersion": "now", "resourceVersionMatch": "Exact"}, 200, 3),
        ({"resourceVersion": "soon"}, 504, "Timeout: Too large resource version: "),
        ({"resourceVersion": "soon", "resourceVersionMatch": "Exact"}, 504, "Too large resource version: "),
        (
            {"resourceVersionMatch": "Exact"},
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422, 'is forbidden for resourceVersion "0"'),
        ({"resourceVersion": "then", "resourceVersionMatch": "Newest"}, 422, 'Unsupported value: "Newest"'),
        ({"resourceVersion": "x"}, 400, 'invalid resource version: resourceVersion: Invalid value: "x": strconv.Parse'),
        ({"resourceVersion": "-1"}, 400, 'parsing "-1": invalid syntax'),
        ({"resourceVersion": "9" * 30}, 400, "value out of range"),
        (
            {"resourceVersion": "1", "resourceVersionMatch": "Exact", "continue_": "x"},
            422,
            "forbidden when continue is",
        ),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
        ({"limit": "x"}, 400, 'parsing "x": invalid syntax'),
        ({"limit": "9" * 30}, 400, "value out of range"),
        ({"limit": "-5"}, 200, 3),
        ({"continue_": "nonsense"}, 400, "continue key is not valid"),
    ],
)
@api
async def test_versions(api, query, status, found):
    await maps(api, 1)
    then = (await api.get(MAPS)).meta["resourceVersion"]
    await api.made(MAPS, config_map("other"))
    await api.merge(f"{MAPS}/m000", {"data": {"a": "changed"}})
    await api.made(MAPS, config_map("third"))
    versions = {"then": then, "now": str(api.store.revision), "soon": str(api.store.revision + 1)}
    asked = {name: versions.get(value, value) for name, value in query.items()}
    answer = await api.get(MAPS, **asked)
    assert answer.status == status, answer.body
    if status != 200:
        assert found in answer.message
        return
    assert len(answer.json["items"]) == found
    if found == 1:
        assert answer.meta["resourceVersion"] == then
        assert answer.json["items"][0].get("data", {}) == {}
    if status == 504:
        assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@api
async def test_an_exact_version_shows_what_was_deleted_since(api):
    await maps(api, 3)
    then = str(api.store.revision)
    await api.delete(f"{MAPS}/m001")
    await api.made(MAPS, config_map("m001"))
    await api.delete(f"{MAPS}/m002")
    exact = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    assert (await api.get(MAPS, **exact)).names == ["m000", "m001", "m002"]
    assert (await api.get("/api/v1/configmaps", **exact)).names == ["m000", "m001", "m002"]
    await api.store.compact(api.store.revision)
    assert (await api.get(MAPS)).status == 200
    gone = await api.get(MAPS, **exact)
    assert (gone.status, gone.json["reason"]) == (410, "Expired")


@api
async def test_get_at_a_version(api):
    await maps(api, 1)
    assert (await api.get(f"{MAPS}/m000", resourceVersion="0")).status == 200
    assert (await api.get(f"{MAPS}/m000", resourceVersion=api.store.revision)).status == 200
    assert (await api.get(f"{MAPS}/m000", resourceVersion=api.store.revision + 1)).status == 504


# -- pages


@api
async def test_pages_show_one_version(api):
    await maps(api, 10)
    first = await api.get(MAPS, limit=4)
    assert (first.names, first.meta["remainingItemCount"]) == (["m000", "m001", "m002", "m003"], 6)
    await api.delete(f"{MAPS}/m005")
    await api.made(MAPS, config_map("m0035"))
    await api.merge(f"{MAPS}/m007", {"data": {"a": "changed"}})
    second = await api.get(MAPS, limit=4, continue_=first.meta["continue"])
    assert (second.names, second.meta["remainingItemCount"]) == (["m004", "m005", "m006", "m007"], 2)
    assert second.meta["resourceVersion"] == first.meta["resourceVersion"]
    assert second.json["items"][3].get("data", {}) == {}
    last = await api.get(MAPS, continue_=second.meta["continue"])
    assert (last.names, "continue" in last.meta, "remainingItemCount" in last.meta) == (["m008", "m009"], False, False)
    assert (await api.get(MAPS, limit=100)).names[4] == "m0035"


@api
async def test_pages_of_a_selection(api):
    for n in range(10):
        await api.made(MAPS, config_map(f"m{n}", labels={"odd": str(n % 2)}))
    first = await api.get(MAPS, limit=3, labelSelector="odd=1")
    assert (first.names, "remainingItemCount" in first.meta) == (["m1", "m3", "m5"], False)
    rest = await api.get(MAPS, limit=3, labelSelector="odd=1", continue_=first.meta["continue"])
    assert (rest.names, "continue" in rest.meta) == (["m7", "m9"], False)
    exactly = await api.get(MAPS, limit=5, labelSelector="odd=0")
    assert (len(exactly.names), "continue" in exactly.meta) == (5, False)


@api
async def test_a_page_outlives_its_pin(api):
    await maps(api, 5)
    token = (await api.get(MAPS, limit=2)).meta["continue"]
    for n in range(PINNED_SNAPSHOTS + 1):
        await api.made(MAPS, config_map(f"x{n}"))
        await api.get(MAPS, limit=1)
    await api.clock.sleep(PINNED_FOR.total_seconds() + 1)
    assert (await api.get(MAPS, continue_=token)).names == ["m002", "m003", "m004"]


@api
async def test_a_token_expires_with_its_history(api):
    await maps(api, 5)
    token = (await api.get(MAPS, limit=2)).meta["continue"]
    await api.made(MAPS, config_map("m0015"))
    await api.made(MAPS, config_map("m0035"))
    await api.clock.sleep(PINNED_FOR.total_seconds() + 1)
    await api.store.compact(api.store.revision)
    gone = await api.get(MAPS, continue_=token)
    assert (gone.status, gone.json["reason"]) == (410, "Expired")
    assert gone.message.startswith("The provided continue parameter is too old to display a consistent list result.")
    onward = await api.get(MAPS, limit=2, continue_=gone.meta["continue"])
    assert onward.names == ["m0015", "m002"]
    assert (await api.get(MAPS, continue_=onward.meta["continue"])).names == ["m003", "m0035", "m004"]


def token(**members):
    return base64.urlsafe_b64encode(json.dumps(members).encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        token(v="meta.k8s.io/v2", rv=5, start="default/a"),
        token(v="meta.k8s.io/v1", rv=0, start="default/a"),
        token(v="meta.k8s.io/v1", rv=-7, start="default/a"),
        token(v="meta.k8s.io/v1", rv=10**9, start="default/a"),
        token(v="meta.k8s.io/v1", rv=10**30, start="default/a"),
        token(v="meta.k8s.io/v1", rv=5, start="a"),
        token(v="meta.k8s.io/v1", rv="5", start="default/a"),
        "%%%",
        "W10",
        "é",
    ],
)
@api
async def test_forged_tokens(api, text):
    answer = await api.get(MAPS, continue_=text)
    expected = "invalid continue token: continue key is not valid: "
    assert (answer.status, answer.message[: len(expected)]) == (400, expected)


@api
async def test_a_token_goes_with_no_version(api):
    await maps(api, 3)
    text = (await api.get(MAPS, limit=1)).meta["continue"]
    answer = await api.get(MAPS, continue_=text, resourceVersion="2")
    assert (answer.status, answer.message) == (400, "specifying resource version is not allowed when using continue")
    assert (await api.get(MAPS, continue_=text, resourceVersion="0")).names == ["m001", "m002"]


# -- selectors


async def some_pods(api):
    for name, node, phase, labels in (
        ("a", "n1", "Running", {"app": "x", "tier": "1"}),
        ("b", "n2", "Running", {"app": "x"}),
        ("c", "", "Pending", {"app": "y"}),
        ("d", "n1", "Failed", None),
    ):
        await api.made(PODS, pod(name, node=node, labels=labels))
        await api.merge(f"{PODS}/{name}/status", {"status": {"phase": phase, "podIP": f"127.0.0.{ord(name)}"}})


@pytest.mark.parametrize(
    ("labels", "fields", "names"),
    [
        ("app=x", "", "ab"),
        ("app!=x", "", "cd"),
        ("app in (x,y),!tier", "", "bc"),
        ("app", "", "abc"),
        ("", "spec.nodeName=n1", "ad"),
        ("", "spec.nodeName=", "c"),
        ("", "spec.nodeName!=", "abd"),
        ("", "spec.host=n2", "b"),
        ("", "status.phase=Running,spec.nodeName!=n2", "a"),
        ("", "status.podIP=127.0.0.98", "b"),
        ("", "status.podIPs=127.0.0.98", "b"),
        ("", "spec.schedulerName=default-scheduler,spec.restartPolicy=Always", "abcd"),
        ("", "spec.serviceAccountName=default,spec.hostNetwork=false", "abcd"),
        ("", "status.nominatedNodeName=", "abcd"),
        ("", "metadata.name=c", "c"),
        ("", "metadata.name=zz", ""),
        ("", "metadata.name!=c,metadata.namespace=default", "abd"),
        ("", "metadata.namespace=other", ""),
        ("app=y", "metadata.name=a", ""),
        ("app=x", "status.phase=Running,metadata.name=a", "a"),
    ],
)
@pytest.mark.parametrize("path", [PODS, "/api/v1/pods"])
@api
async def test_pods_by_selectors(api, labels, fields, names, path):
    await some_pods(api)
    assert (await api.get(path, labelSelector=labels, fieldSelector=fields)).names == list(names)


@pytest.mark.parametrize(
    ("path", "query", "message"),
    [
        (PODS, {"fieldSelector": "spec.foo=1"}, "field label not supported: spec.foo"),
        (JOBS, {"fieldSelector": "spec.foo=1"}, 'field label "spec.foo" not supported for batchv1.Job'),
        (
            MAPS,
            {"fieldSelector": "data.a=1"},
            '"data.a" is not a known field selector: only "metadata.name", "metadata',
        ),
        (MAPS, {"fieldSelector": "nonsense"}, "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        (MAPS, {"labelSelector": "a in b"}, "unable to parse requirement"),
        (MAPS, {"labelSelector": "-"}, "unable to parse requirement"),
    ],
)
@api
async def test_selectors_that_make_no_sense(api, path, query, message):
    answer = await api.get(path, **query)
    assert (answer.status, message in answer.message) == (400, True), answer.body


@api
async def test_fields_of_other_kinds(api):
    await api.made(JOBS, job("done"))
    status = {"succeeded": 2, "startTime": "2026-01-01T00:00:00Z"}
    assert (await api.merge(f"{JOBS}/done/status", {"status": status})).status == 200
    await api.made(JOBS, job("other"))
    assert (await api.get(JOBS, fieldSelector="status.successful=2")).names == ["done"]
    assert (await api.get(JOBS, fieldSelector="status.successful=0")).names == ["other"]
    await api.made(f"{DEFAULT}/secrets", {"metadata": {"name": "s"}, "type": "example.com/t"})
    assert (await api.get(f"{DEFAULT}/secrets", fieldSelector="type=example.com/t")).names == ["s"]
    await api.made("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"unschedulable": True}})
    await api.made("/api/v1/nodes", {"metadata": {"name": "m"}})
    assert (await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=true")).names == ["n"]
    assert (await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false")).names == ["m"]
    await api.made(NAMESPACES, {"metadata": {"name": "x"}})
    await api.delete(f"{NAMESPACES}/x")
    assert (await api.get(NAMESPACES, fieldSelector="status.phase=Terminating")).names == ["x"]
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u", "fieldPath": "f"},
        "reason": "R",
        "type": "Normal",
        "source": {"component": "c"},
    }
    await api.made(EVENTS, event)
    fields = "involvedObject.kind=Pod,involvedObject.name=p,involvedObject.uid=u,reason=R,type=Normal,source=c"
    assert (await api.get(EVENTS, fieldSelector=fields)).names == ["e"]
    assert (await api.get(EVENTS, fieldSelector="involvedObject.name!=p")).names == []


# -- forms


@api
async def test_tables(api):
    await some_pods(api)
    table = (await api.get(PODS, accept=TABLE)).json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert [row["cells"][0] for row in table["rows"]] == ["a", "b", "c", "d"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["metadata"]["resourceVersion"] == str(api.store.revision)
    bare = (await api.get(PODS, accept=TABLE, includeObject="None", limit=1)).json
    assert (len(bare["rows"]), bare["rows"][0].get("object")) == (1, None)
    assert bare["metadata"]["continue"]
    whole = (await api.get(f"{PODS}/a", accept=TABLE, includeObject="Object")).json
    assert whole["rows"][0]["object"]["spec"]["nodeName"] == "n1"
    assert whole["metadata"]["resourceVersion"] == whole["rows"][0]["object"]["metadata"]["resourceVersion"]
    assert (await api.get(PODS, accept=TABLE, includeObject="Some")).status == 400
    refused = await api.get(f"{PODS}/none", accept=TABLE)
    assert (refused.status, refused.json["kind"]) == (404, "Status")


@api
async def test_metadata_alone(api):
    await some_pods(api)
    listed = (await api.get(PODS, accept=PARTIAL)).json
    assert (listed["kind"], len(listed["items"])) == ("PartialObjectMetadataList", 4)
    one = (await api.get(f"{PODS}/a", accept=PARTIAL)).json
    assert one == listed["items"][0]
    assert set(one) == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("application/json;charset=utf-8", 200),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("application/vnd.kubernetes.protobuf", 406),
        ("application/yaml", 406),
        ("application/json;as=Table;v=v7;g=meta.k8s.io", 406),
        ("application/json;as=Table;v=v7;g=meta.k8s.io,application/json", 200),
        ("application/json;as=Chart;v=v1;g=meta.k8s.io", 406),
        ("text/html", 406),
        (";;;,,,;q=x", 200),
        ("a" * 10_000, 406),
    ],
)
@api
async def test_what_clients_accept(api, accept, status):
    await maps(api, 1)
    assert (await api.get(f"{MAPS}/m000", accept=accept)).status == status
    assert (await api.get(MAPS, accept=accept)).status == status


@api
async def test_big_lists_are_made_once(api):
    await maps(api, 150)
    first = await api.get(MAPS)
    await api.made(PODS, pod())  # another resource: the list is the same, its version is not
    second, third = await api.get(MAPS), await api.get(MAPS)
    assert first.json["items"] == second.json["items"] == third.json["items"]
    assert third.meta["resourceVersion"] == str(api.store.revision)
    await api.merge(f"{MAPS}/m000", {"data": {"a": "b"}})
    assert (await api.get(MAPS)).json["items"][0]["data"] == {"a": "b"}
    table = await api.get(MAPS, accept=TABLE)
    assert len(table.json["rows"]) == 150


@api
async def test_lists_of_packed_objects_have_the_same_bytes(api):
    for n in range(3):
        await api.made(MAPS, config_map(f"long{n}", {f"key{each}": f"{n}" * 40 for each in range(200)}))
        await api.made(MAPS, config_map(f"short{n}"))
    requests = [
        {},
        {"limit": "2"},
        {"labelSelector": "!missing"},
        {"accept": TABLE},
        {"accept": PARTIAL},
    ]
    before = [(await api.get(MAPS, **options)).body for options in requests]
    await api.store.pack()
    sizes = [len(entry.fragments) for entry in api.store.list("configmaps", "default").entries]
    assert sorted(sizes)[:3] == [1, 1, 1]
    assert sorted(sizes)[3] > 1
    assert [(await api.get(MAPS, **options)).body for options in requests] == before


@api
async def test_a_long_list_of_packed_objects_is_never_whole_in_memory(api):
    for n in range(320):
        await api.made(MAPS, config_map(f"m{n:03}", {"key": f"{n:04}" * 14_000}))
    before = sha256((await api.get(MAPS)).body).digest()
    await api.store.pack()
    after = sha256()
    tracemalloc.start()
    try:
        async with api.chunks(Request("GET", MAPS), ADMIN) as chunks:
            async for chunk in chunks:
                after.update(chunk)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after.digest() == before
    assert most < 5 << 20, "a piece or two, of a list of 17 MB"
