"""What `/metrics` says of requests, by upstream's names."""

import pytest
from tests.system.apiserver.harness import DEFAULT, MAPS, PODS, api, config_map, pod


def labels(**values):
    names = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code")
    values = {"dry_run": "", "component": "apiserver"} | values
    return ",".join(f'{name}="{values.get(name, "")}"' for name in sorted(names))


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", PODS, {"verb": "LIST", "version": "v1", "resource": "pods", "scope": "namespace", "code": 200}),
        ("GET", "/api/v1/pods", {"verb": "LIST", "version": "v1", "resource": "pods", "scope": "cluster", "code": 200}),
        (
            "GET",
            f"{PODS}/p/status",
            {
                "verb": "GET",
                "version": "v1",
                "resource": "pods",
                "subresource": "status",
                "scope": "resource",
                "code": 200,
            },
        ),
        (
            "GET",
            "/apis/batch/v1/namespaces/default/jobs/none",
            {"verb": "GET", "group": "batch", "version": "v1", "resource": "jobs", "scope": "resource", "code": 404},
        ),
        # What clients make up is not told apart.
        (
            "GET",
            f"{PODS}/p/nonsense",
            {"verb": "GET", "version": "v1", "resource": "pods", "scope": "resource", "code": 404},
        ),
        ("GET", f"{DEFAULT}/nonsense", {"verb": "LIST", "code": 404}),
        ("GET", "/version", {"verb": "GET", "code": 200}),
    ],
)
@api
async def test_requests_are_counted(api, method, path, expected):
    await api.made(PODS, pod())
    await api.call(method, path)
    text = (await api.get("/metrics")).body.decode()
    assert f"apiserver_request_total{{{labels(**expected)}}} 1.0" in text
    assert "apiserver_request_duration_seconds_bucket{" in text


@api
async def test_a_creation_is_a_post(api):
    await api.made(MAPS, config_map())
    text = (await api.get("/metrics")).body.decode()
    expected = {"verb": "POST", "version": "v1", "resource": "configmaps", "scope": "resource", "code": 201}
    assert f"apiserver_request_total{{{labels(**expected)}}} 1.0" in text
