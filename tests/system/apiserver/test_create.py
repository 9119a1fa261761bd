"""POST: identity, defaults, strictness, admission, refusals."""

import asyncio
import re

import pytest
from tests.system.apiserver.harness import (
    CLASSES,
    DEFAULT,
    EVENTS,
    EVENTS_V1,
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


@api
async def test_the_server_sets_what_is_its_own(api):
    meta = {"name": "p", "uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 7,
            "deletionTimestamp": "1999-01-01T00:00:00Z", "selfLink": "/x", "managedFields": [{"manager": "x"}],
            "labels": {"a": "b"}}  # fmt: skip
    obj = await api.made(PODS, pod() | {"metadata": meta, "status": {"phase": "Running"}})
    assert re.fullmatch("[0-9a-f-]{36}", obj["metadata"].pop("uid"))
    assert obj["metadata"].pop("resourceVersion").isdigit()
    assert all("manager" not in entry for entry in obj["metadata"].pop("managedFields"))  # nobody said a name
    assert obj["metadata"] == {
        "name": "p",
        "namespace": "default",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"a": "b"},
    }
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert obj["spec"]["restartPolicy"] == "Always"
    assert (await api.get(f"{PODS}/p")).json["metadata"]["generation"] == 1


@api
async def test_names_are_generated_and_unique(api):
    document = config_map() | {"metadata": {"generateName": "a-"}}
    names = {(await api.made(MAPS, document))["metadata"]["name"] for _ in range(50)}
    assert len(names) == 50
    assert all(re.fullmatch("a-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    long = await api.made(MAPS, config_map() | {"metadata": {"generateName": "x" * 100 + "-"}})
    assert long["metadata"]["name"].startswith("x" * 58)
    assert len(long["metadata"]["name"]) == 63


@api
async def test_writes_through_events_k8s_io_are_core_events(api):
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        "note": "hello",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    made = await api.made(EVENTS_V1, event)
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "hello")
    core = (await api.get(f"{EVENTS}/e")).json
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "hello", "p")
    assert "note" not in core
    listed = (await api.get(EVENTS_V1, fieldSelector="regarding.name=p")).json
    assert (listed["kind"], listed["apiVersion"]) == ("EventList", "events.k8s.io/v1")
    assert listed["items"][0]["regarding"]["name"] == "p"
    assert (
        await api.merge(f"{EVENTS_V1}/e", {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}})
    ).status == 200
    assert (await api.get(f"{EVENTS}/e")).json["series"]["count"] == 2
    assert (await api.get(f"{EVENTS}/e")).json["metadata"]["uid"] == made["metadata"]["uid"]


@pytest.mark.parametrize(
    ("validation", "status", "warning"),
    [
        ("Strict", 400, None),
        ("Warn", 201, r'299 - "unknown field \"spec.containers[0].bar\"", 299 - "unknown field \"spec.foo\""'),
        ("", 201, r'299 - "unknown field \"spec.containers[0].bar\"", 299 - "unknown field \"spec.foo\""'),
        ("Ignore", 201, None),
    ],
)
@api
async def test_unknown_fields(api, validation, status, warning):
    document = pod(foo=1)
    document["spec"]["containers"][0]["bar"] = {"x": 1}
    answer = await api.post(PODS, document, fieldValidation=validation)
    assert answer.status == status
    assert answer.headers.get("warning") == warning
    if status == 400:
        assert answer.message == (
            'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
            'unknown field "spec.containers[0].bar", unknown field "spec.foo"'
        )
        assert (await api.get(f"{PODS}/p")).status == 404
    else:
        assert "foo" not in answer.json["spec"]


@api
async def test_repeated_fields(api):
    body = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m"},"data":{"a":"1","a":"2"}}'
    strict = await api.post(MAPS, body, fieldValidation="Strict")
    assert (strict.status, 'strict decoding error: duplicate field "data.a"' in strict.message) == (400, True)
    lax = await api.post(MAPS, body)
    assert lax.headers["warning"] == r'299 - "duplicate field \"data.a\""'
    assert lax.json["data"] == {"a": "2"}


@api
async def test_a_body_may_be_yaml_and_may_leave_out_its_kind(api):
    yaml = b"metadata:\n  name: m\ndata:\n  on: 'yes'\n"
    made = await api.made(MAPS, yaml, type="application/yaml")
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"on": "yes"})


@pytest.mark.parametrize("name", ["a-b", "x.y.z", "0"])
@api
async def test_dry_run_stores_nothing(api, name):
    before = api.store.revision
    answer = await api.post(MAPS, config_map(name), dryRun="All")
    assert answer.status == 201
    assert answer.json["metadata"]["uid"]
    assert "resourceVersion" not in answer.json["metadata"]
    assert (await api.get(f"{MAPS}/{name}")).status == 404
    assert api.store.revision == before


CREATE_REFUSALS = [
    # path, body, status, reason, message
    (PODS, pod("P"), 422, "Invalid", 'Pod "P" is invalid: metadata.name: Invalid value: "P": a lowercase RFC 1123'),
    (MAPS, config_map(""), 422, "Invalid", "metadata.name: Required value: name or generateName is required"),
    (
        MAPS,
        config_map(data={"k": "v" * (1 << 20) + "v"}),
        422,
        "Invalid",
        "Too long: may not be more than 1048576 bytes",
    ),
    (MAPS, config_map(resourceVersion="1"), 400, "BadRequest", "resourceVersion should not be set on objects to be cr"),
    (MAPS, config_map(namespace="x"), 400, "BadRequest", "the namespace of the provided object does not match"),
    (MAPS, config_map(finalizers=["x"]), 422, "Invalid", "name is neither a standard finalizer name nor is it fully"),
    (
        MAPS,
        config_map(labels={"a": 1}),
        400,
        "BadRequest",
        "json: cannot unmarshal number into Go struct field ObjectM",
    ),
    (
        MAPS,
        {**config_map(), "kind": "Secret"},
        400,
        "BadRequest",
        'Secret in version "v1" cannot be handled as a Confi',
    ),
    (MAPS, {**config_map(), "apiVersion": "v2"}, 400, "BadRequest", "the API version in the data (v2) does not match"),
    (MAPS, {**config_map(), "apiVersion": 2}, 400, "BadRequest", ""),
    (MAPS, b"", 400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap)"),
    (MAPS, b"[]", 400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap)"),
    (MAPS, b"{", 400, "BadRequest", "couldn't get version/kind; json parse error"),
    (
        LEASES,
        {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x" * (3 << 19)}},
        413,
        "RequestEntityTooLarge",
        "limit is 1572864",
    ),
    (MAPS, b"x" * (3 << 20) + b"x", 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
    (f"{NAMESPACES}/none/configmaps", config_map(), 404, "NotFound", 'namespaces "none" not found'),
    ("/api/v1/configmaps", config_map(), 405, "MethodNotAllowed", ""),
    (f"{MAPS}/m", config_map(), 405, "MethodNotAllowed", ""),
    (f"{DEFAULT}/namespaces", {"metadata": {"name": "x"}}, 404, "NotFound", "could not find the requested resource"),
    (f"{DEFAULT}/widgets", {}, 404, "NotFound", "the server could not find the requested resource"),
    (PODS, pod(priorityClassName="none"), 403, "Forbidden", "no PriorityClass with name none was found"),
    (PODS, pod(priority=5), 403, "Forbidden", "the integer value of priority (5) must not be provided in pod spec"),
    (JOBS, job(completions=-1), 422, "Invalid", "spec.completions: Invalid value: -1: must be greater than or equal"),
    (
        PODS,
        pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"a": None}}}]),
        400,
        "BadRequest",
        'Pod in version "v1" cannot be handled as a Pod',
    ),
    (PODS, {"metadata": {"name": "p"}}, 422, "Invalid", "spec.containers: Required value"),
]


@pytest.mark.parametrize(("path", "body", "status", "reason", "message"), CREATE_REFUSALS)
@api
async def test_refusals(api, path, body, status, reason, message):
    before = api.store.revision
    answer = await api.post(path, body)
    assert (answer.status, answer.json["reason"]) == (status, reason), answer.body
    assert message in answer.message
    assert answer.json["code"] == status
    assert api.store.revision == before


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"dryRun": "Some"}, 'dryRun: Unsupported value: "Some": supported values: "All"'),
        ({"fieldValidation": "x"}, 'fieldValidation: Unsupported value: "x"'),
    ],
)
@api
async def test_bad_options(api, query, message):
    answer = await api.post(MAPS, config_map(), **query)
    assert answer.status == 422
    assert answer.message.startswith('CreateOptions.meta.k8s.io "" is invalid: ')
    assert message in answer.message


@pytest.mark.parametrize(
    ("type_", "status"),
    [("application/xml", 415), ("text/plain", 415), ("application/json; charset=utf-8", 201), ("", 201)],
)
@api
async def test_media_types(api, type_, status):
    assert (await api.post(MAPS, config_map(), type=type_)).status == status


@api
async def test_what_nobody_accepts_is_not_even_stored(api):
    answer = await api.post(MAPS, config_map(), accept="application/xml")
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")
    assert (await api.get(f"{MAPS}/m")).status == 404


@api
async def test_a_second_object_of_that_name(api):
    await api.made(MAPS, config_map())
    again = await api.post(MAPS, config_map())
    assert (again.status, again.json["reason"]) == (409, "AlreadyExists")
    assert again.message == 'configmaps "m" already exists'
    assert again.json["details"] == {"name": "m", "kind": "configmaps"}


@api
async def test_many_at_once_create_one(api):
    import asyncio

    answers = await asyncio.gather(*(api.post(MAPS, config_map()) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 19


@api
async def test_the_cluster_begins_with_namespaces_and_classes(api):
    assert (await api.get(NAMESPACES)).names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    namespace = (await api.get(f"{NAMESPACES}/default")).json
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    assert (namespace["spec"], namespace["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    assert (await api.get(CLASSES)).names == ["system-cluster-critical", "system-node-critical"]


@api
async def test_priorities_come_from_classes(api):
    high = {"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"}
    usual = {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True}
    await api.made(CLASSES, high)
    await api.made(PODS, pod("before"))
    await api.made(CLASSES, usual)
    second = await api.post(CLASSES, {"metadata": {"name": "other"}, "value": 4, "globalDefault": True})
    assert (second.status, "PriorityClass usual is already marked as default" in second.message) == (403, True)
    found = {}
    for document in (pod("named", priorityClassName="high"), pod("unnamed"), pod("same", priority=3)):
        spec = (await api.made(PODS, document))["spec"]
        found[document["metadata"]["name"]] = (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"])
    assert found == {
        "named": ("high", 10, "Never"),
        "unnamed": ("usual", 3, "PreemptLowerPriority"),
        "same": ("usual", 3, "PreemptLowerPriority"),
    }
    before = (await api.get(f"{PODS}/before")).json["spec"]
    assert (before["priority"], "priorityClassName" in before) == (0, False)


@api
async def test_of_priority_classes_that_are_made_at_once_one_is_the_default(api):
    documents = [{"metadata": {"name": f"c{n}"}, "value": n, "globalDefault": True} for n in range(3)]
    answers = await asyncio.gather(*[api.post(CLASSES, document) for document in documents])
    assert sorted(answer.status for answer in answers) == [201, 403, 403]


NOT_READY, UNREACHABLE = (
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for why in ("not-ready", "unreachable")
)
OWN = {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}
# DefaultTolerationSeconds: what a pod says, and what it lacks then.
TOLERATIONS = [
    ([], [NOT_READY, UNREACHABLE]),
    ([OWN], [NOT_READY, UNREACHABLE]),
    ([NOT_READY | {"tolerationSeconds": 5}], [UNREACHABLE]),
    ([UNREACHABLE | {"effect": "NoSchedule", "tolerationSeconds": None}], [NOT_READY, UNREACHABLE]),
    ([{"key": UNREACHABLE["key"], "operator": "Exists"}], [NOT_READY]),
    ([{"operator": "Exists"}], []),
    ([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
]


@pytest.mark.parametrize(("said", "added"), TOLERATIONS)
@api
async def test_pods_bear_a_lost_node_for_five_minutes(api, said, added):
    said = [{name: value for name, value in one.items() if value is not None} for one in said]
    made = await api.made(PODS, pod(tolerations=said))
    assert made["spec"].get("tolerations", []) == [*said, *added]
    # The manifest can be put again as it was.
    again = await api.put(f"{PODS}/p", pod(tolerations=said, labels={"a": "b"}))
    assert again.json["spec"].get("tolerations", []) == [*said, *added], again.body


@api
async def test_pods_run_as_somebody(api):
    assert (await api.made(PODS, pod("a")))["spec"]["serviceAccountName"] == "default"
    refused = await api.post(PODS, pod("b", serviceAccountName="me"))
    why = 'error looking up service account default/me: serviceaccount "me" not found'
    assert (refused.status, refused.message) == (403, f'pods "b" is forbidden: {why}')
    await api.made(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "me"}})
    named = (await api.made(PODS, pod("b", serviceAccountName="me")))["spec"]
    assert (named["serviceAccountName"], named["serviceAccount"]) == ("me", "me")


@api
async def test_gated_pods_say_so(api):
    made = await api.made(PODS, pod(schedulingGates=[{"name": "example.com/wait"}]))
    [condition] = made["status"]["conditions"]
    assert condition["reason"] == "SchedulingGated"
    assert condition["lastTransitionTime"] == made["metadata"]["creationTimestamp"]


@api
async def test_no_pod_has_less_than_no_time_to_end(api):
    assert (await api.made(PODS, pod(terminationGracePeriodSeconds=-1)))["spec"]["terminationGracePeriodSeconds"] == 1


@api
async def test_jobs_get_a_selector_of_their_own(api):
    made = await api.made(JOBS, job())
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"
    assert made["status"] == {}


@api
async def test_put_creates_only_where_upstream_does(api):
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    assert (await api.put(f"{LEASES}/l", lease)).status == 201
    assert (await api.put(f"{LEASES}/l2", lease)).status == 400
    missing = await api.put(f"{MAPS}/m", config_map())
    assert (missing.status, missing.message) == (404, 'configmaps "m" not found')
    other = {"metadata": {"name": "l3", "uid": "x"}}
    assert (await api.put(f"{LEASES}/l3", other)).status == 409


@api
async def test_secrets_turn_texts_into_data(api):
    secret = await api.made(f"{DEFAULT}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert (secret["data"], secret["type"], "stringData" in secret) == ({"a": "Yg=="}, "Opaque", False)
