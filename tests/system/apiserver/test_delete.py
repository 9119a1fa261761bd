"""DELETE: grace, finalizers, propagation, preconditions, namespaces, collections."""

import pytest
from tests.system.apiserver.harness import (
    CLASSES,
    DEFAULT,
    EVENTS,
    JOBS,
    MAPS,
    NAMESPACES,
    PODS,
    api,
    config_map,
    job,
    pod,
)

NOW = "2026-01-01T00:00:00Z"
GONE = None

PODS_DELETED = [
    # pod, status, options, what is left of the metadata (or GONE)
    ({}, {}, {}, GONE),
    ({"node": "n"}, {}, {}, ("2026-01-01T00:00:30Z", 30)),
    ({"node": "n", "terminationGracePeriodSeconds": 5}, {}, {}, ("2026-01-01T00:00:05Z", 5)),
    ({"node": "n"}, {}, {"gracePeriodSeconds": 60}, ("2026-01-01T00:01:00Z", 60)),
    ({"node": "n"}, {}, {"gracePeriodSeconds": 0}, GONE),
    ({"node": "n"}, {}, {"gracePeriodSeconds": -5}, ("2026-01-01T00:00:01Z", 1)),
    ({"node": "n"}, {"phase": "Succeeded"}, {}, GONE),
    ({"node": "n"}, {"phase": "Failed"}, {"gracePeriodSeconds": 10}, GONE),
    ({"node": "n"}, {"phase": "Running"}, {"gracePeriodSeconds": 10}, ("2026-01-01T00:00:10Z", 10)),
]


@pytest.mark.parametrize(("spec", "status", "options", "left"), PODS_DELETED)
@pytest.mark.parametrize("where", ["body", "query"])
@api
async def test_pods_end_gracefully(api, spec, status, options, left, where):
    await api.made(PODS, pod(**spec))
    if status:
        await api.merge(f"{PODS}/p/status", {"status": status})
    answer = await (api.delete(f"{PODS}/p", options) if where == "body" else api.delete(f"{PODS}/p", **options))
    assert (answer.status, answer.json["kind"]) == (200, "Pod")
    found = await api.get(f"{PODS}/p")
    if left is GONE:
        assert found.status == 404
        assert answer.meta["deletionGracePeriodSeconds"] == 0
    else:
        assert (found.meta["deletionTimestamp"], found.meta["deletionGracePeriodSeconds"]) == left
        assert found.meta["generation"] == 2
        assert answer.json == found.json


@api
async def test_grace_is_only_shortened_and_the_node_ends_it(api):
    await api.made(PODS, pod(node="n"))
    first = await api.delete(f"{PODS}/p")
    for options in ({}, {"gracePeriodSeconds": 30}, {"gracePeriodSeconds": 100}):
        assert (await api.delete(f"{PODS}/p", options)).json == first.json
    shorter = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 10})
    assert (shorter.meta["deletionTimestamp"], shorter.meta["deletionGracePeriodSeconds"]) == (
        "2026-01-01T00:00:10Z",
        10,
    )
    assert (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})).status == 200
    assert (await api.get(f"{PODS}/p")).status == 404


@api
async def test_finalizers_hold_an_object(api):
    finalizers = ["example.com/a", "example.com/b"]
    await api.made(MAPS, config_map(finalizers=finalizers))
    answer = await api.delete(f"{MAPS}/m")
    assert (answer.status, answer.json["kind"], answer.meta["deletionTimestamp"]) == (200, "ConfigMap", NOW)
    assert answer.meta["deletionGracePeriodSeconds"] == 0
    added = await api.merge(f"{MAPS}/m", {"metadata": {"finalizers": [*finalizers, "example.com/c"]}})
    assert added.status == 422
    assert "no new finalizers can be added if the object is being deleted" in added.message
    kept = await api.merge(f"{MAPS}/m", {"metadata": {"finalizers": finalizers[:1], "deletionTimestamp": None}})
    assert (kept.status, kept.meta["deletionTimestamp"]) == (200, NOW)
    assert (await api.delete(f"{MAPS}/m")).json == kept.json
    last = await api.merge(f"{MAPS}/m", {"metadata": {"finalizers": None}})
    assert last.status == 200
    assert (await api.get(f"{MAPS}/m")).status == 404


@api
async def test_a_pods_finalizer_outlives_its_node(api):
    await api.made(PODS, pod(node="n") | {"metadata": {"name": "p", "finalizers": ["example.com/f"]}})
    await api.delete(f"{PODS}/p")
    ended = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert ended.meta["deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{PODS}/p")).status == 200
    await api.merge(f"{PODS}/p", {"metadata": {"finalizers": []}})
    assert (await api.get(f"{PODS}/p")).status == 404


@api
async def test_losing_the_last_finalizer_does_not_end_grace(api):
    await api.made(PODS, pod(node="n") | {"metadata": {"name": "p", "finalizers": ["example.com/f"]}})
    await api.delete(f"{PODS}/p")
    await api.merge(f"{PODS}/p", {"metadata": {"finalizers": []}})
    assert (await api.get(f"{PODS}/p")).meta["deletionGracePeriodSeconds"] == 30


PROPAGATION = [
    # kind, options, finalizers afterwards (GONE: it went at once)
    ("map", {}, GONE),
    ("map", {"propagationPolicy": "Background"}, GONE),
    ("map", {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
    ("map", {"propagationPolicy": "Orphan"}, ["orphan"]),
    ("map", {"orphanDependents": True}, ["orphan"]),
    ("map", {"orphanDependents": False}, GONE),
    ("job", {}, ["orphan"]),
    ("job", {"propagationPolicy": "Background"}, GONE),
    ("job", {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
    ("event", {"propagationPolicy": "Orphan"}, GONE),
]


@pytest.mark.parametrize(("kind", "options", "left"), PROPAGATION)
@api
async def test_what_becomes_of_dependents_is_written_down(api, kind, options, left):
    path, body = {
        "map": (MAPS, config_map("x")),
        "job": (JOBS, job("x")),
        "event": (EVENTS, {"metadata": {"name": "x"}, "involvedObject": {"namespace": "default"}}),
    }[kind]
    await api.made(path, body)
    answer = await api.delete(f"{path}/x", options)
    assert answer.status == 200
    found = await api.get(f"{path}/x")
    if left is GONE:
        assert found.status == 404
        assert answer.json["status"] == "Success"
    else:
        assert found.meta["finalizers"] == left
        if left != ["orphan"] or kind == "job":
            background = await api.delete(f"{path}/x", {"propagationPolicy": "Background"})
            assert (background.status, (await api.get(f"{path}/x")).status) == (200, 404)


@api
async def test_deleting_a_job_without_saying_how_warns(api):
    await api.made(JOBS, job())
    assert "child pods are preserved by default" in (await api.delete(f"{JOBS}/j", dryRun="All")).headers["warning"]
    assert "child pods are preserved by default" in (await api.delete(JOBS, dryRun="All")).headers["warning"]
    assert "warning" not in (await api.delete(JOBS, {"propagationPolicy": "Orphan"}, dryRun="All")).headers
    assert "warning" not in (await api.delete(f"{JOBS}/j", {"propagationPolicy": "Background"})).headers


@api
async def test_what_is_deleted_at_once_is_reported(api):
    made = await api.made(MAPS, config_map())
    answer = await api.delete(f"{MAPS}/m")
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "m", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    again = await api.delete(f"{MAPS}/m")
    assert (again.status, again.message) == (404, 'configmaps "m" not found')


DELETE_REFUSALS = [
    ({"preconditions": {"uid": "x"}}, 409, 'cannot be fulfilled on ConfigMap "m": the UID in the precondition'),
    ({"preconditions": {"uid": "x"}}, 409, "the UID in the precondition (x) does not match the UID in record"),
    ({"preconditions": {"resourceVersion": "1"}}, 409, "the ResourceVersion in the precondition (1) does not match"),
    ({"propagationPolicy": "Sideways"}, 422, 'propagationPolicy: Unsupported value: "Sideways"'),
    ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "cannot be both set"),
    ({"dryRun": ["Some"]}, 422, "dryRun: Unsupported value"),
    ({"gracePeriodSeconds": "x"}, 400, "json: cannot unmarshal string into Go struct field DeleteOptions"),
    ({"kind": "Pod"}, 400, "must be of type DeleteOptions"),
    (b"{", 400, "must be of type DeleteOptions"),
]


@pytest.mark.parametrize(("options", "status", "message"), DELETE_REFUSALS)
@api
async def test_delete_refusals(api, options, status, message):
    await api.made(MAPS, config_map())
    answer = await api.delete(f"{MAPS}/m", options)
    assert (answer.status, message in answer.message) == (status, True), answer.body
    assert (await api.get(f"{MAPS}/m")).status == 200


@api
async def test_preconditions_that_hold(api):
    meta = (await api.made(MAPS, config_map()))["metadata"]
    held = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    assert (await api.delete(f"{MAPS}/m", {"preconditions": held})).status == 200


@pytest.mark.parametrize("how", ["body", "query"])
@api
async def test_dry_run_deletes_nothing(api, how):
    made = await api.made(PODS, pod(node="n"))
    options = {"dryRun": ["All"]} if how == "body" else None
    query = {"dryRun": "All"} if how == "query" else {}
    answer = await api.delete(f"{PODS}/p", options, **query)
    assert answer.meta["deletionGracePeriodSeconds"] == 30
    assert (await api.get(f"{PODS}/p")).json == made


@api
async def test_a_namespace_is_emptied_first(api):
    path = f"{NAMESPACES}/x"
    await api.made(NAMESPACES, {"metadata": {"name": "x"}})
    await api.made(f"{path}/configmaps", config_map())
    answer = await api.delete(path)
    assert (answer.status, answer.json["status"]["phase"], answer.meta["deletionTimestamp"]) == (
        200,
        "Terminating",
        NOW,
    )
    refused = await api.post(f"{path}/configmaps", config_map("n"))
    assert refused.status == 403
    assert refused.message == (
        'configmaps "n" is forbidden: unable to create new content in namespace x because it is being terminated'
    )
    [cause] = refused.json["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("NamespaceTerminating", "metadata.namespace")
    assert (await api.merge(f"{path}/configmaps/m", {"data": {"a": "b"}})).status == 200
    assert (await api.delete(path)).json == answer.json
    await api.delete(f"{path}/configmaps")
    finalized = await api.put(f"{path}/finalize", answer.json | {"spec": {"finalizers": []}})
    assert finalized.status == 200
    assert (await api.get(path)).status == 404
    assert (await api.post(f"{path}/configmaps", config_map())).status == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
@api
async def test_some_namespaces_stay(api, name):
    answer = await api.delete(f"{NAMESPACES}/{name}")
    assert (answer.status, answer.message) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )


@pytest.mark.parametrize("name", ["system-cluster-critical", "system-node-critical"])
@api
async def test_classes_of_the_system_stay(api, name):
    answer = await api.delete(f"{CLASSES}/{name}")
    why = "this is a system priority class and cannot be deleted"
    message = f'priorityclasses.scheduling.k8s.io "{name}" is forbidden: {why}'
    assert (answer.status, answer.message) == (403, message)
    assert (await api.delete(CLASSES)).status == 403
    assert name in (await api.get(CLASSES)).names


@api
async def test_collections(api):
    for n in range(250):
        await api.made(MAPS, config_map(f"m{n}", labels={"odd": str(n % 2)}))
    await api.made(MAPS, config_map("held", labels={"odd": "1"}, finalizers=["example.com/f"]))
    answer = await api.delete(MAPS, labelSelector="odd=1")
    assert (answer.status, answer.json["kind"], len(answer.json["items"])) == (200, "ConfigMapList", 126)
    assert int(answer.meta["resourceVersion"]) > 0
    left = (await api.get(MAPS)).json["items"]
    assert len(left) == 126
    assert [item["metadata"]["name"] for item in left if "deletionTimestamp" in item["metadata"]] == ["held"]
    assert (await api.delete(MAPS, fieldSelector="metadata.name=m0")).names == ["m0"]
    assert (await api.delete(MAPS, dryRun="All")).status == 200
    assert len((await api.get(MAPS)).json["items"]) == 125
    assert (await api.delete("/api/v1/configmaps")).status == 405
    assert (await api.delete(NAMESPACES)).status == 405
    assert (await api.delete(f"{DEFAULT}/pods", {"propagationPolicy": "x"})).status == 422


@api
async def test_a_collection_is_deleted_no_further_than_its_limit(api):
    for n in range(5):
        await api.made(MAPS, config_map(f"m{n}", labels={"odd": str(n % 2)}))
    first = await api.delete(MAPS, limit=2)
    assert (first.names, first.meta["remainingItemCount"]) == (["m0", "m1"], 3)
    assert (await api.get(MAPS)).names == ["m2", "m3", "m4"]
    rest = await api.delete(MAPS, limit=2, continue_=first.meta["continue"], labelSelector="odd=0")
    assert (rest.names, "continue" in rest.meta) == (["m2", "m4"], False)
    assert (await api.get(MAPS)).names == ["m3"]
