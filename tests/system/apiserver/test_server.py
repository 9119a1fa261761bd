"""What is no resource, who gets in, and what happens to nonsense."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.system.apiserver.harness import DEFAULT, MAPS, NAMESPACES, PODS, Api, api, config_map, job, pod
from tests.system.plane import running

from muster.cluster.apiserver.identity.users import AUTHENTICATED, User
from muster.runtime.clock import run_virtual

STRANGER = User("eve", frozenset({AUTHENTICATED, "system:nodes"}))


@pytest.mark.parametrize(
    ("path", "query", "status", "text"),
    [
        ("/healthz", {}, 200, "ok"),
        ("/livez", {}, 200, "ok"),
        ("/readyz", {}, 200, "ok"),
        ("/readyz", {"verbose": ""}, 200, "[+]ping ok\n[+]storage ok\n[+]nodes ok\nreadyz check passed\n"),
        ("/livez", {"verbose": "", "exclude": "ping"}, 200, "livez check passed\n"),
        ("/healthz/ping", {}, 200, "ok"),
        ("/healthz/none", {}, 404, None),
        ("/nothing", {}, 404, None),
        ("/api/v2", {}, 404, None),
        ("/apis/none/v1", {}, 404, None),
        ("/apis/batch/v2/jobs", {}, 404, None),
        ("/apis/batch/v1/nosuchjobs", {}, 404, None),
        ("//api//v1/pods", {}, 404, None),
        ("/api/v1/namespaces//pods", {}, 404, None),
        ("/api/v1/nodes/n/../../pods", {}, 404, None),
        ("/x/y/z", {}, 404, None),
    ],
)
@api
async def test_paths(api, path, query, status, text):
    api.server.endpoints.ready_checks["nodes"] = lambda: None
    answer = await api.get(path, **query)
    assert answer.status == status
    if text is None:
        assert answer.message == "the server could not find the requested resource"
        assert answer.json["details"] == {}  # kubectl debug looks into them
    else:
        assert answer.body.decode() == text


@api
async def test_a_failing_check(api):
    api.server.endpoints.live_checks["store"] = lambda: "the disk failed"
    answer = await api.get("/livez")
    assert (answer.status, answer.body) == (500, b"[+]ping ok\n[-]store failed: the disk failed\nlivez check failed\n")
    assert (await api.get("/livez/store")).status == 500
    assert (await api.get("/livez/ping")).status == 200


@api
async def test_version_metrics_and_documents(api):
    version = (await api.get("/version")).json
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "34", "v1.34.0+muster")
    await api.get(f"{MAPS}/none")
    metrics = (await api.get("/metrics")).body.decode()
    labels = 'group="",resource="configmaps",scope="resource",subresource="",verb="GET",version="v1"'
    assert re.search(f'apiserver_request_total{{code="404",.*{labels}}} 1.0', metrics), metrics
    assert re.search('apiserver_request_duration_seconds_bucket{.*resource="configmaps"', metrics)
    assert "/api" in (await api.get("/")).json["paths"]
    groups = [group["name"] for group in (await api.get("/apis")).json["groups"]]
    assert groups[:2] == ["apiregistration.k8s.io", "apps"]
    assert {"apps", "batch", "kueue.x-k8s.io", "rbac.authorization.k8s.io"} <= set(groups)
    names = [resource["name"] for resource in (await api.get("/apis/batch/v1")).json["resources"]]
    assert names == ["cronjobs", "cronjobs/status", "jobs", "jobs/log", "jobs/scale", "jobs/status"]
    assert (await api.get("/openapi/v3")).json["paths"]["api/v1"]
    tagged = await api.get("/api")
    assert tagged.headers["etag"]
    assert (await api.post("/version", {})).status == 405


@api
async def test_names_that_clients_make_up_are_no_metrics(api):
    for n in range(5):
        await api.get(f"/apis/made-up/v1/things{n}")
        await api.call(f"VERB{n}", "/api")
    metrics = (await api.get("/metrics")).body.decode()
    assert "things" not in metrics
    assert "VERB" not in metrics
    assert "verb0" not in metrics


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        (
            "GET",
            PODS,
            'pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "default"',
        ),
        (
            "GET",
            f"{PODS}/p",
            'pods "p" is forbidden: User "eve" cannot get resource "pods" in API group "" in the names',
        ),
        (
            "GET",
            "/api/v1/nodes",
            'nodes is forbidden: User "eve" cannot list resource "nodes" in API group "" at the clu',
        ),
        (
            "PATCH",
            "/apis/batch/v1/namespaces/x/jobs/j/scale",
            'jobs.batch "j" is forbidden: User "eve" cannot patch res',
        ),
        ("DELETE", PODS, 'cannot deletecollection resource "pods"'),
        ("POST", f"{PODS}/p/binding", 'cannot create resource "pods/binding" in API group ""'),
        ("GET", "/metrics", 'forbidden: User "eve" cannot get path "/metrics"'),
        ("GET", "/api/v1/unheard-of", 'unheard-of is forbidden: User "eve" cannot list resource "unheard-of"'),
    ],
)
@api
async def test_others_may_do_nothing(api, method, path, message):
    answer = await api.call(method, path, user=STRANGER)
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert message in answer.message


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "", "get"])
@api
async def test_methods_that_there_are_not(api, method):
    assert (await api.call(method, PODS)).status == 405


HOSTILE = [
    b"[" * 100_000,
    b'{"metadata":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"metadata":{"name":"a","labels":' + b'{"a":' * 250 + b"1" + b"}" * 250 + b"}}",
    b'{"metadata":{"name":"\\u0000"}}',
    b'{"metadata":{"name":"../../etc"}}',
    b'{"metadata":{"name":"a","generation":' + b"9" * 500 + b"}}",
    b'{"metadata":{"name":"a","deletionGracePeriodSeconds":99999999999999999999}}',
    b'{"metadata":{"name":"a","creationTimestamp":"tomorrow"}}',
    b'{"metadata":{"name":"a","ownerReferences":[null]}}',
    b'{"metadata":{"name":"a","labels":{"x":null}}}',
    b'{"metadata":[],"spec":"x"}',
    b'{"metadata":null}',
    b'{"kind":[],"apiVersion":{}}',
    b'{"kind":"' + b"x" * 100_000 + b'"}',
    b'{"a":1e999}',
    b"\xff\xfe",
    b'{"a":"\xc3\x28"}',
    b"null",
    b"0",
    b'"',
    b'{"metadata":{"name":"a"}} trailing',
    b'{"metadata":{"name":"a"},"unknown\\n\\r\\u0007\\u00e9":1}',
]
TYPES = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("body", HOSTILE)
@api
async def test_hostile_bodies_are_the_clients_fault(api, body, type_):
    await api.made(MAPS, config_map())
    for method, path, media_type in (
        ("POST", MAPS, type_),
        ("POST", PODS, type_),
        ("PUT", f"{MAPS}/m", type_),
        ("DELETE", f"{MAPS}/other", type_),
        ("POST", f"{PODS}/p/binding", type_),
        ("POST", f"{DEFAULT}/bindings", type_),
        ("PATCH", f"{MAPS}/m", "application/merge-patch+json"),
        ("PATCH", f"{MAPS}/m", "application/json-patch+json"),
        ("PATCH", f"{MAPS}/m", "application/strategic-merge-patch+json"),
    ):
        answer = await api.call(method, path, body, type=media_type, fieldValidation="Warn")
        assert answer.status < 500, (method, path, answer.body)
        assert not any(ord(character) in (*range(32), 127) for character in answer.headers.get("warning", ""))


DOCUMENTS = {
    PODS: pod(node="n", priorityClassName="", volumes=[{"name": "v", "emptyDir": {}}]),
    "/apis/batch/v1/namespaces/default/jobs": job(completions=2, parallelism=2),
    MAPS: config_map(data={"a": "b"}, labels={"a": "b"}, finalizers=["example.com/f"]),
    NAMESPACES: {"metadata": {"name": "x"}, "spec": {"finalizers": ["a.b/c"]}},
    "/api/v1/nodes": {"metadata": {"name": "x"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    f"{DEFAULT}/services": {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    f"{DEFAULT}/secrets": {"metadata": {"name": "x"}, "stringData": {"a": "b"}},
    f"{DEFAULT}/events": {"metadata": {"name": "x"}, "involvedObject": {"namespace": "default"}, "count": 1},
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {"metadata": {"name": "x"}, "spec": {"renewTime": None}},
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"metadata": {"name": "x"}, "value": 1},
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def paths_in(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_in(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths_in(item, (*path, index))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@st.composite
def mutations(draw):
    """A valid object with something else in one place."""
    where = draw(st.sampled_from(sorted(DOCUMENTS)))
    document = DOCUMENTS[where]
    path = draw(st.sampled_from(sorted(paths_in(document), key=str)))
    return where, replaced(document, path, draw(json_values))


@given(mutations())
def test_no_object_is_too_strange(mutation):
    path, document = mutation

    async def body():
        async with running(controllers=False) as plane:
            server = Api(plane)
            data = json.dumps(document).encode()
            created = await server.post(path, data)
            assert created.status < 500, created.body
            if created.status != 201:
                await server.made(path, DOCUMENTS[path])
            name = (await server.get(path)).names[0]
            for method in ("PUT", "PATCH"):
                type_ = "application/merge-patch+json" if method == "PATCH" else "application/json"
                answer = await server.call(method, f"{path}/{name}", data, type=type_)
                assert answer.status < 500, (method, answer.body)
            strategic = await server.call(
                "PATCH", f"{path}/{name}", data, type="application/strategic-merge-patch+json"
            )
            assert strategic.status < 500, strategic.body

    run_virtual(body())
