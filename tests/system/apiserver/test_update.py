"""PUT and PATCH: versions, what each view may change, generations, no-ops, finalizers."""

import asyncio
import copy

import pytest
from tests.system.apiserver.harness import (
    CLASSES,
    DEFAULT,
    JOBS,
    LEASES,
    MAPS,
    NAMESPACES,
    PODS,
    api,
    config_map,
    job,
    pod,
)

JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
LOCK = (
    'Operation cannot be fulfilled on configmaps "m": the object has been modified; '
    "please apply your changes to the latest version and try again"
)


@api
async def test_versions(api):
    first = await api.made(MAPS, config_map())
    version = first["metadata"]["resourceVersion"]
    second = await api.put(f"{MAPS}/m", config_map(data={"a": "1"}, resourceVersion=version))
    assert second.status == 200
    assert int(second.meta["resourceVersion"]) > int(version)
    stale = await api.put(f"{MAPS}/m", config_map(data={"a": "2"}, resourceVersion=version))
    assert (stale.status, stale.json["reason"], stale.message) == (409, "Conflict", LOCK)
    unconditional = await api.put(f"{MAPS}/m", config_map(data={"a": "3"}))
    assert (unconditional.status, unconditional.json["data"]) == (200, {"a": "3"})
    other = await api.put(f"{MAPS}/m", config_map(uid="other"))
    assert (other.status, "Precondition failed: UID in precondition: other" in other.message) == (409, True)
    for bad in ("abc", "-1"):
        assert (await api.put(f"{MAPS}/m", config_map(resourceVersion=bad))).status == 422


@api
async def test_some_kinds_insist_on_a_version(api):
    await api.made(LEASES, {"metadata": {"name": "l"}, "spec": {}})
    answer = await api.put(f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}})
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0" in answer.message
    assert "must be specified for an update" in answer.message


@api
async def test_of_many_writers_with_one_version_one_wins(api):
    version = (await api.made(MAPS, config_map()))["metadata"]["resourceVersion"]
    bodies = [config_map(data={"n": str(n)}, resourceVersion=version) for n in range(20)]
    answers = await asyncio.gather(*(api.put(f"{MAPS}/m", body) for body in bodies))
    assert sorted(answer.status for answer in answers) == [200] + [409] * 19


@api
async def test_patches_of_many_are_all_made(api):
    await api.made(MAPS, config_map())
    await asyncio.gather(*(api.merge(f"{MAPS}/m", {"data": {str(n): "x"}}) for n in range(20)))
    assert len((await api.get(f"{MAPS}/m")).json["data"]) == 20


@api
async def test_nothing_changed_is_nothing_written(api):
    made = await api.made(PODS, pod(labels={"a": "b"}))
    revision = api.store.revision
    again = await api.put(f"{PODS}/p", made)
    from_manifest = await api.put(f"{PODS}/p", pod(labels={"a": "b"}))
    patched = await api.merge(f"{PODS}/p", {"metadata": {"labels": {"a": "b", "c": None}}})
    strategic = await api.call("PATCH", f"{PODS}/p", {"spec": {"containers": [{"name": "c"}]}}, type=STRATEGIC)
    for answer in (again, from_manifest, patched, strategic):
        assert (answer.status, answer.json) == (200, made)
    assert api.store.revision == revision


@pytest.mark.parametrize(
    ("type_", "body", "data"),
    [
        (MERGE, {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        (STRATEGIC, {"data": {"$patch": "replace", "c": "3"}}, {"c": "3"}),
        (JSON_PATCH, [{"op": "move", "from": "/data/a", "path": "/data/c"}], {"b": "2", "c": "1"}),
    ],
)
@api
async def test_the_kinds_of_patches(api, type_, body, data):
    await api.made(MAPS, config_map(data={"a": "1", "b": "2"}))
    answer = await api.call("PATCH", f"{MAPS}/m", body, type=type_)
    assert (answer.status, answer.json["data"]) == (200, data)
    dry = await api.call("PATCH", f"{MAPS}/m", {"data": {"z": "z"}}, type=MERGE, dryRun="All")
    assert dry.json["data"] == data | {"z": "z"}
    assert dry.meta["resourceVersion"] == answer.meta["resourceVersion"]
    assert (await api.get(f"{MAPS}/m")).json["data"] == data


PATCH_REFUSALS = [
    # type, patch, query, status, message
    ("application/json", {}, {}, 415, "the body of the request was in an unknown format"),
    (MERGE, {"metadata": {"resourceVersion": "1"}}, {}, 409, "the object has been modified"),
    # Controllers that adopt and release pods count on 422 here.
    (MERGE, {"metadata": {"uid": "x"}}, {}, 422, 'metadata.uid: Invalid value: "x": field is immutable'),
    (MERGE, {"metadata": {"name": "x"}}, {}, 400, "the name of the object (x) does not match the name on the URL (m)"),
    (
        MERGE,
        {"metadata": {"namespace": "x"}},
        {},
        400,
        "the namespace of the provided object does not match the namespace",
    ),
    (MERGE, {"kind": "Secret"}, {}, 400, 'Secret in version "v1" cannot be handled as a ConfigMap'),
    (MERGE, {"data": {"a": 1}}, {}, 422, "patch: Invalid value: "),
    (MERGE, {"bogus": 1}, {"fieldValidation": "Strict"}, 422, 'strict decoding error: unknown field "bogus"'),
    (MERGE, [], {}, 400, ""),
    (MERGE, b"{", {}, 400, ""),
    (MERGE, b'{"data":' * 300 + b"1" + b"}" * 300, {}, 400, "the body nests deeper than 200 levels"),
    (STRATEGIC, b'{"spec":[' * 150 + b"1" + b"]}" * 150, {}, 400, "the body nests deeper than 200 levels"),
    (JSON_PATCH, [{"op": "test", "path": "/data/a", "value": "9"}], {}, 422, "testing value /data/a failed"),
    (JSON_PATCH, [{"op": "add", "path": "/a", "value": 1}] * 10001, {}, 413, "maximum operations in a JSON patch"),
    (JSON_PATCH, [{"op": "remove", "path": "/metadata"}], {}, 400, "was undeterminable: name must be provided"),
    (MERGE, {"metadata": None}, {}, 400, "was undeterminable: name must be provided"),
]


@pytest.mark.parametrize(("type_", "patch", "query", "status", "message"), PATCH_REFUSALS)
@api
async def test_patch_refusals(api, type_, patch, query, status, message):
    made = await api.made(MAPS, config_map(data={"a": "1"}))
    answer = await api.call("PATCH", f"{MAPS}/m", patch, type=type_, **query)
    assert answer.status == status, answer.body
    assert message in answer.message
    assert (await api.get(f"{MAPS}/m")).json == made


@api
async def test_a_patch_of_unknown_fields_warns(api):
    await api.made(MAPS, config_map())
    answer = await api.merge(f"{MAPS}/m", {"bogus": 1})
    assert (answer.status, answer.headers["warning"]) == (200, r'299 - "unknown field \"bogus\""')


@api
async def test_the_url_says_what_is_meant(api):
    await api.made(MAPS, config_map())
    wrong = await api.put(f"{MAPS}/m", config_map("other"))
    assert (wrong.status, wrong.message) == (
        400,
        "the name of the object (other) does not match the name on the URL (m)",
    )
    elsewhere = await api.put(f"{MAPS}/m", config_map(namespace="kube-system"))
    assert (elsewhere.status, "does not match the namespace sent on the request" in elsewhere.message) == (400, True)
    assert (await api.put(MAPS, config_map())).status == 405
    assert (await api.merge(f"{MAPS}/none", {})).status == 404


@api
async def test_the_server_keeps_what_is_its_own(api):
    made = await api.made(PODS, pod())
    change = copy.deepcopy(made)
    change["metadata"] |= {"creationTimestamp": "1999-01-01T00:00:00Z", "generation": 9, "labels": {"a": "b"}}
    change["metadata"]["managedFields"] = [{"manager": "x"}]
    answer = (await api.put(f"{PODS}/p", change)).json
    assert answer["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert answer["metadata"]["generation"] == 1
    assert all("manager" not in entry for entry in answer["metadata"]["managedFields"])  # nobody said a name
    refused = await api.merge(f"{PODS}/p", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert (refused.status, "metadata.deletionTimestamp" in refused.message) == (422, True)


@api
async def test_spec_and_status_have_their_own_writers(api):
    await api.made(PODS, pod())
    main = await api.merge(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}})
    assert (main.json["status"]["phase"], main.meta["labels"]) == ("Pending", {"a": "b"})
    change = {
        "metadata": {
            "labels": {"c": "d"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}],
        },
        "spec": {"activeDeadlineSeconds": 5},
        "status": {"phase": "Running"},
    }
    status = await api.merge(f"{PODS}/p/status", change)
    assert status.status == 200
    assert status.json["status"]["phase"] == "Running"
    assert "activeDeadlineSeconds" not in status.json["spec"]
    assert status.meta["labels"] == {"a": "b", "c": "d"}
    assert "ownerReferences" not in status.meta
    whole = await api.put(f"{PODS}/p/status", pod() | {"status": {"phase": "Failed"}})
    assert (whole.status, whole.json["status"]) == (200, {"phase": "Failed", "qosClass": "BestEffort"})
    assert (await api.get(f"{PODS}/p/status")).json == whole.json


@api
async def test_generations_count_changes_of_the_spec(api):
    await api.made(JOBS, job())

    async def generation(path, change):
        return (await api.merge(path, change)).meta["generation"]

    assert await generation(f"{JOBS}/j", {"metadata": {"labels": {"a": "b"}}}) == 1
    assert await generation(f"{JOBS}/j", {"spec": {"parallelism": 3}}) == 2
    assert await generation(f"{JOBS}/j/status", {"status": {"active": 1}}) == 2
    assert await generation(f"{JOBS}/j", {"spec": {"parallelism": 3}}) == 2
    assert "generation" not in (await api.made(MAPS, config_map()))["metadata"]


@api
async def test_a_manifest_can_be_applied_as_it_was(api):
    await api.made(CLASSES, {"metadata": {"name": "c"}, "value": 7})
    made = await api.made(PODS, pod(priorityClassName="c"))
    answer = await api.put(f"{PODS}/p", pod(priorityClassName="c", labels={"a": "b"}))
    assert answer.status == 200
    assert answer.json["spec"] == made["spec"]
    assert answer.meta["generation"] == 1


@api
async def test_rules_of_the_kind_are_kept(api):
    await api.made(PODS, pod())
    answer = await api.merge(f"{PODS}/p", {"spec": {"restartPolicy": "Never"}})
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert "pod updates may not change fields other than" in answer.message
    image = await api.call(
        "PATCH", f"{PODS}/p", {"spec": {"containers": [{"name": "c", "image": "other"}]}}, type=STRATEGIC
    )
    assert (image.status, image.meta["generation"]) == (200, 2)


@api
async def test_a_namespace_gives_up_its_hold_only_through_finalize(api):
    made = await api.made(NAMESPACES, {"metadata": {"name": "x"}, "spec": {"finalizers": ["example.com/mine"]}})
    assert made["spec"]["finalizers"] == ["example.com/mine", "kubernetes"]
    changed = await api.put(f"{NAMESPACES}/x", {"metadata": {"name": "x", "labels": {"a": "b"}}})
    assert (changed.json["spec"], changed.meta["labels"]["a"]) == (made["spec"], "b")
    finalized = await api.put(f"{NAMESPACES}/x/finalize", {"metadata": {"name": "x"}, "spec": {"finalizers": []}})
    assert (finalized.status, finalized.json["spec"].get("finalizers", [])) == (200, [])
    assert (await api.get(f"{NAMESPACES}/x")).json["status"] == {"phase": "Active"}
    assert (
        await api.put(f"{NAMESPACES}/x/status", {"metadata": {"name": "x"}, "status": {"phase": "Gone"}})
    ).status == 422


@api
async def test_services_keep_what_they_have(api):
    path = f"{DEFAULT}/services"
    service = {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    made = await api.made(path, service)
    assert made["spec"]["clusterIPs"] == ["None"]
    again = await api.put(f"{path}/s", {"metadata": {"name": "s"}, "spec": {"selector": {"a": "c"}}})
    assert (again.status, again.json["spec"]["clusterIP"]) == (200, "None")
