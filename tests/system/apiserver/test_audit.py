"""The audit log: a line for each stage of a request, with what the policy says."""

import json
import os
import resource
import stat

from tests.system.apiserver.harness import DEFAULT, MAPS, NAMESPACES, PODS, api, config_map, pod

from muster.cluster.apiserver.access.audit import Audit, AuditLog
from muster.cluster.apiserver.access.audit_policy import parse
from muster.cluster.apiserver.identity.users import AUTHENTICATED, User

BOB = User("bob", frozenset({AUTHENTICATED}), "u-1", {"scopes": ("x",)})


def audited(api, *rules, **more):
    """Let the server log; the events, as they come."""
    head = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules or [{"level": "Metadata"}]}
    lines: list[bytes] = []
    around = api.plane.inputs
    policy = parse(json.dumps(head | more))
    api.server.audit = Audit(policy, lines.append, api.plane.access.rbac.decide, around.clock, around.ids)
    return lambda: [json.loads(line) for line in lines]


@api
async def test_what_an_event_says(api):
    events = audited(api)
    await api.get(f"{PODS}/none/log", user=BOB, tailLines=5, container="a b")
    received, complete = events()
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert received["auditID"] == complete["auditID"]
    assert "responseStatus" not in received
    assert {name: complete[name] for name in ("kind", "apiVersion", "level", "verb", "requestURI")} == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "verb": "get",
        "requestURI": f"{PODS}/none/log?tailLines=5&container=a+b",
    }
    assert complete["user"] == {"username": "bob", "uid": "u-1", "groups": [AUTHENTICATED], "extra": {"scopes": ["x"]}}
    reference = {"resource": "pods", "namespace": "default", "name": "none", "apiVersion": "v1", "subresource": "log"}
    assert complete["objectRef"] == reference
    assert (complete["responseStatus"]["code"], complete["responseStatus"]["reason"]) == (403, "Forbidden")
    assert complete["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert complete["requestReceivedTimestamp"] == received["stageTimestamp"]


@api
async def test_levels(api):
    events = audited(
        api,
        {"level": "None", "verbs": ["list"]},
        {"level": "Metadata", "verbs": ["get"]},
        {"level": "Request", "verbs": ["create"]},
        {"level": "RequestResponse"},
        omitStages=["RequestReceived"],
    )
    await api.get(MAPS)
    await api.made(MAPS, config_map("m", {"a": "b"}))
    await api.get(f"{MAPS}/m")
    await api.merge(f"{MAPS}/m", {"data": {"a": "c"}})
    create, get, patch = events()
    assert create["requestObject"]["data"] == {"a": "b"}
    assert "responseObject" not in create
    assert not {"requestObject", "responseObject"} & get.keys()
    assert patch["requestObject"] == {"data": {"a": "c"}}
    assert patch["responseObject"]["data"] == {"a": "c"}
    assert patch["responseStatus"] == {"metadata": {}, "code": 200}


@api
async def test_what_is_secret_is_not_written_down(api):
    events = audited(api, {"level": "RequestResponse"})
    await api.made(f"{DEFAULT}/secrets", {"metadata": {"name": "s"}, "stringData": {"password": "hidden"}})
    await api.get(f"{DEFAULT}/secrets")
    await api.put(f"{DEFAULT}/secrets/s/status", {"stringData": {"password": "hidden"}})
    await api.made(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "robot"}})
    made = await api.made(f"{DEFAULT}/serviceaccounts/robot/token", {"spec": {}})
    review = {"spec": {"token": made["status"]["token"]}}
    await api.made("/apis/authentication.k8s.io/v1/tokenreviews", review)
    text = json.dumps(events())
    assert "hidden" not in text
    assert "aGlkZGVu" not in text
    assert made["status"]["token"] not in text


@api
async def test_who_acts_for_whom(api):
    events = audited(api, omitStages=["RequestReceived"])
    await api.get(PODS, headers=(("impersonate-user", "eve"), ("impersonate-group", "g")))
    await api.get(PODS, user=BOB, headers=(("impersonate-user", "eve"),))
    allowed, refused = events()
    assert allowed["user"]["username"] == "kubernetes-admin"
    assert allowed["impersonatedUser"] == {"username": "eve", "groups": ["g", AUTHENTICATED]}
    assert allowed["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert "impersonatedUser" not in refused
    assert refused["responseStatus"]["code"] == 403


@api
async def test_a_watch_begins_and_ends(api):
    events = audited(api, omitStages=["RequestReceived"])
    async with api.watch(PODS) as seen:
        await api.made(PODS, pod())
        assert await seen.names(1) == ["ADDED p"]
        assert [event["stage"] for event in events() if event["verb"] == "watch"] == ["ResponseStarted"]
    stages = [event["stage"] for event in events() if event["verb"] == "watch"]
    assert stages == ["ResponseStarted", "ResponseComplete"]


@api
async def test_managed_fields_can_be_left_out(api):
    body = {"metadata": {"name": "n", "managedFields": [{"manager": "m"}]}}
    for omit in (False, True):
        events = audited(api, {"level": "Request"}, omitManagedFields=omit, omitStages=["RequestReceived"])
        await api.post(NAMESPACES, body, dryRun="All")
        assert ("managedFields" in events()[0]["requestObject"]["metadata"]) is not omit


@api
async def test_bodies_that_nobody_can_read(api):
    events = audited(api, {"level": "RequestResponse"}, omitStages=["RequestReceived"])
    await api.post(MAPS, b"{nonsense")
    await api.post(MAPS, b"a: b", type="application/yaml")
    broken, yaml = events()
    assert "requestObject" not in broken
    assert broken["responseStatus"]["code"] == 400
    assert yaml["requestObject"] == {"a": "b"}
    assert yaml["responseObject"]["kind"] == "Status"


def test_the_file_is_its_owners_and_is_moved_aside_when_it_is_full(tmp_path):
    path = tmp_path / "audit.log"
    log = AuditLog(path, max_bytes=100)
    for i in range(12):
        log.write(f"{i:020}".encode())
    log.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = (tmp_path / "audit.log.1").read_text().split() + path.read_text().split()
    assert [int(line) for line in lines] == list(range(4, 12))


def test_a_new_file_that_cannot_be_had_is_tried_for_again(tmp_path, caplog):
    path = tmp_path / "audit.log"
    log = AuditLog(path, max_bytes=10)
    log.write(b"first")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        log.write(b"second")
        log.write(b"third")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    log.write(b"fourth")
    log.close()
    assert (path.read_bytes(), (tmp_path / "audit.log.1").read_bytes()) == (b"fourth\n", b"first\n")
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_disk_that_is_full_stops_nobody(tmp_path, caplog):
    log = AuditLog(tmp_path / "audit.log")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._descriptor)
    os.close(full)
    log.write(b"x")
    log.write(b"y")
    log.close()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "not complete" in caplog.text
