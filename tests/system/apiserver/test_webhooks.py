"""Webhooks are asked over TLS, in the right order, and what they say is done."""

import asyncio
import base64
import json
from typing import Any

import pytest
from aiohttp import web
from tests.system.apiserver.harness import DEFAULT, EVENTS, MAPS, NAMESPACES, PODS, config_map, job, pod
from tests.system.apiserver.test_audit import audited
from tests.system.apiserver.webhook_server import (
    MAPS_RULE,
    MUTATING,
    VALIDATING,
    allow,
    hooks_server,
    patching,
    webhooks,
)

from muster.cluster.apiserver.identity.users import ADMIN
from muster.runtime.transport import Request

HOOK = 'admission webhook "{}.example.com" denied the request: {}'
ADD_A = {"op": "add", "path": "/data/a", "value": "1"}


def configuration(name: str, *hooks: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "webhooks": list(hooks)}


def deny(message: str = "no", **status: Any):
    return lambda _: {"allowed": False, "status": {"message": message} | status}


@webhooks
async def test_a_mutating_webhook_changes_the_object(api, hooks):
    await api.made(MUTATING, configuration("c", hooks.webhook("a", patching(ADD_A, warnings=["careful"]))))
    answer = await api.post(MAPS, config_map(data={"b": "2"}), fieldManager="me")
    assert answer.json["data"] == {"a": "1", "b": "2"}
    assert answer.headers["warning"] == '299 - "careful"'
    ((_, request),) = hooks.asked
    assert request["operation"] == "CREATE"
    assert request["resource"] == request["requestResource"]
    assert (request["name"], request["namespace"], request["dryRun"]) == ("m", "default", False)
    assert request["object"]["data"] == {"b": "2"}
    assert request["object"]["metadata"]["uid"] == answer.meta["uid"]
    assert "resourceVersion" not in request["object"]["metadata"]
    assert request["oldObject"] is None
    assert request["options"]["fieldManager"] == "me"
    assert request["userInfo"]["username"] == "kubernetes-admin"
    assert (hooks.headers[0]["query"], hooks.headers[0]["Content-Type"]) == ("timeout=10s", "application/json")


@webhooks
async def test_changes_show_the_old_object_and_the_new_one(api, hooks):
    await api.made(MAPS, config_map(data={"b": "2"}))
    await api.made(MUTATING, configuration("c", hooks.webhook("a", patching(ADD_A))))
    answer = await api.merge(f"{MAPS}/m", {"data": {"b": "3"}})
    assert answer.json["data"] == {"a": "1", "b": "3"}
    ((_, request),) = hooks.asked
    assert (request["operation"], request["oldObject"]["data"], request["object"]["data"]) == (
        "UPDATE", {"b": "2"}, {"b": "3"},
    )  # fmt: skip


@webhooks
async def test_what_a_webhook_makes_is_checked_like_anything_else(api, hooks):
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    no_name = patching({"op": "replace", "path": "/spec/containers/0/name", "value": "A B"})
    await api.made(MUTATING, configuration("c", hooks.webhook("a", no_name, rules=[rule])))
    answer = await api.post(PODS, pod())
    assert answer.status == 422
    assert 'spec.containers[0].name: Invalid value: "A B"' in answer.message
    hooks.respond["/a"] = patching({"op": "add", "path": "/metadata/name", "value": "other"})
    assert (await api.made(PODS, pod()))["metadata"]["name"] == "p"
    sidecar = {"name": "s", "image": "i", "ports": [{"containerPort": 1}]}
    hooks.respond["/a"] = patching({"op": "add", "path": "/spec/containers/-", "value": sidecar})
    made = await api.made(PODS, pod("q"))
    assert made["spec"]["containers"][1]["ports"] == [{"containerPort": 1, "protocol": "TCP"}]


@webhooks
async def test_the_order_is_that_of_names_and_mutation_comes_first(api, hooks):
    seen = []

    def judged(request: Any) -> dict[str, Any]:
        seen.append(request["object"])
        return {"allowed": True}

    await api.made(VALIDATING, configuration("a", hooks.webhook("z", judged)))
    await api.made(VALIDATING, configuration("b", hooks.webhook("y", judged)))
    first = hooks.webhook("one", patching({"op": "add", "path": "/data", "value": {"n": "1"}}))
    second = hooks.webhook("two", patching({"op": "test", "path": "/data/n", "value": "1"}, ADD_A))
    third = hooks.webhook("three", patching({"op": "test", "path": "/data/a", "value": "1"}))
    await api.made(MUTATING, configuration("b", third))
    await api.made(MUTATING, configuration("a", first, second))
    made = await api.made(MAPS, config_map())
    assert hooks.paths[:3] == ["/one", "/two", "/three"]
    assert sorted(hooks.paths[3:]) == ["/y", "/z"]
    assert [obj["data"] for obj in seen] == [made["data"]] * 2 == [{"n": "1", "a": "1"}] * 2


@webhooks
async def test_reinvocation_if_others_have_changed_the_object(api, hooks):
    again = hooks.webhook("again", reinvocationPolicy="IfNeeded")
    never = hooks.webhook("never", reinvocationPolicy="Never")
    await api.made(MUTATING, configuration("c", again, never, hooks.webhook("change", patching(ADD_A))))
    await api.made(MAPS, config_map(data={"x": "y"}))
    assert hooks.paths == ["/again", "/never", "/change", "/again"]
    assert hooks.asked[-1][1]["object"]["data"]["a"] == "1"
    hooks.asked.clear()
    hooks.respond["/change"] = allow
    await api.made(MAPS, config_map("n"))
    assert hooks.paths == ["/again", "/never", "/change"]


@webhooks
async def test_denials(api, hooks):
    await api.made(VALIDATING, configuration("c", hooks.webhook("a", deny("too bad", code=403, reason="Forbidden"))))
    answer = await api.post(MAPS, config_map())
    assert (answer.status, answer.message, answer.json["reason"]) == (403, HOOK.format("a", "too bad"), "Forbidden")
    assert (await api.get(f"{MAPS}/m")).status == 404
    hooks.respond["/a"] = lambda _: {"allowed": False, "warnings": ["w"]}
    answer = await api.post(MAPS, config_map())
    assert (answer.status, answer.headers["warning"]) == (400, '299 - "w"')
    assert answer.message == 'admission webhook "a.example.com" denied the request without explanation'


@webhooks
async def test_deletions_are_judged_too(api, hooks):
    rule = MAPS_RULE | {"operations": ["DELETE"]}
    await api.made(VALIDATING, configuration("c", hooks.webhook("a", deny("keep it"), rules=[rule])))
    await api.made(MAPS, config_map())
    answer = await api.delete(f"{MAPS}/m", {"gracePeriodSeconds": 3})
    assert (answer.status, answer.message) == (400, HOOK.format("a", "keep it"))
    ((_, request),) = hooks.asked
    assert (request["object"], request["oldObject"]["metadata"]["name"]) == (None, "m")
    assert request["options"] == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 3}
    hooks.respond["/a"] = allow
    assert (await api.delete(MAPS)).status == 200
    assert (await api.get(f"{MAPS}/m")).status == 404


async def _slow(_request: Any) -> Any:
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    ("respond", "why"),
    [
        (lambda _: web.Response(status=500, text="boom"),
         'failed to call webhook: an error on the server ("boom") has prevented the request from succeeding'),
        (lambda _: web.Response(status=404),
         "failed to call webhook: the server could not find the requested resource"),
        (lambda _: web.Response(status=302, headers={"Location": "/other"}),
         "failed to call webhook: the server rejected our request for an unknown reason (HTTP 302)"),
        (lambda _: web.Response(text="{}"), ("received invalid webhook response: expected webhook response of "
         "admission.k8s.io/v1, Kind=AdmissionReview, got , Kind=")),
        (lambda _: web.Response(body=b"x" * (3 << 20) + b"x"), "the answer is longer than 3145728 bytes"),
        (lambda _: {"allowed": True, "uid": "another"}, 'expected response.uid="'),
        (_slow, '?timeout=1s": context deadline exceeded'),
        ("down", '?timeout=1s": connection refused'),
        ("stranger", "x509: certificate signed by unknown authority"),
    ],
)  # fmt: skip
@webhooks
async def test_a_webhook_that_cannot_be_asked(api, hooks, respond, why):
    hook = hooks.webhook("a", respond if callable(respond) else allow, timeoutSeconds=1)
    async with hooks_server() as other:
        if respond == "stranger":
            hook["clientConfig"]["caBundle"] = other.bundle
    if respond == "down":
        hook["clientConfig"]["url"] = f"https://127.0.0.1:{other.port}/a"
    await api.made(VALIDATING, configuration("c", hook))
    answer = await api.post(MAPS, config_map())
    assert (answer.status, answer.json["reason"]) == (500, "InternalError")
    assert answer.message.startswith('Internal error occurred: failed calling webhook "a.example.com": ')
    assert why in answer.message
    await api.merge(f"{VALIDATING}/c", {"webhooks": [hook | {"failurePolicy": "Ignore"}]})
    assert (await api.post(MAPS, config_map())).status == 201


@pytest.mark.parametrize(
    ("operations", "why"),
    [
        ([{"op": "test", "path": "/data/a", "value": "2"}], 'applying the patch of admission webhook "a.example.com"'),
        ([{"op": "remove", "path": "/nothing"}], 'applying the patch of admission webhook "a.example.com"'),
        ([{"op": "replace", "path": "", "value": []}], 'applying the patch of admission webhook "a.example.com"'),
        ([{"op": "replace", "path": "/metadata", "value": "x"}], "cannot unmarshal string"),
        ([{"op": "replace", "path": "/data", "value": 5}], "cannot unmarshal number"),
        ([{"op": "add", "path": "/metadata/labels", "value": [1]}], "cannot unmarshal array"),
        (["add"], 'applying the patch of admission webhook "a.example.com"'),
    ],
)
@webhooks
async def test_patches_that_do_not_fit_are_no_matter_of_the_failure_policy(api, hooks, operations, why):
    after = hooks.webhook("b", objectSelector={"matchLabels": {"a": "b"}})
    hook = hooks.webhook("a", patching(*operations), failurePolicy="Ignore")
    await api.made(MUTATING, configuration("c", hook, after))
    answer = await api.post(MAPS, config_map())
    assert (answer.status, why in answer.message) == (500, True)


@webhooks
async def test_a_webhook_cannot_make_another_object_of_it(api, hooks):
    named = patching({"op": "replace", "path": "/metadata", "value": {"name": "n", "uid": "u", "namespace": "x"}})
    await api.made(MUTATING, configuration("c", hooks.webhook("a", named)))
    made = await api.made(MAPS, config_map())
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("m", "default")
    assert made["metadata"]["uid"] != "u"
    hooks.respond["/a"] = patching({"op": "remove", "path": "/metadata"})
    assert (await api.merge(f"{MAPS}/m", {"data": {"a": "b"}})).json["metadata"]["uid"] == made["metadata"]["uid"]
    hooks.respond["/a"] = patching({"op": "replace", "path": "/kind", "value": "Secret"})
    assert (await api.merge(f"{MAPS}/m", {"data": {"a": "c"}})).status == 400


@webhooks
async def test_dry_run_is_said(api, hooks):
    await api.made(VALIDATING, configuration("c", hooks.webhook("a", sideEffects="NoneOnDryRun")))
    assert (await api.post(MAPS, config_map(), dryRun="All")).status == 201
    ((_, request),) = hooks.asked
    assert (request["dryRun"], request["options"]["dryRun"]) == (True, ["All"])
    assert (await api.get(f"{MAPS}/m")).status == 404


@webhooks
async def test_selectors_and_rules_choose(api, hooks):
    in_labelled = hooks.webhook("a", deny("namespace"), namespaceSelector={"matchLabels": {"guarded": "yes"}})
    labelled = hooks.webhook("b", deny("object"), objectSelector={"matchLabels": {"guarded": "yes"}})
    await api.made(VALIDATING, configuration("c", in_labelled, labelled))
    await api.made(MAPS, config_map())
    answer = await api.post(MAPS, config_map("n", labels={"guarded": "yes"}))
    assert answer.message == HOOK.format("b", "object")
    await api.made(NAMESPACES, {"metadata": {"name": "g", "labels": {"guarded": "yes"}}})
    assert (await api.post(f"{NAMESPACES}/g/configmaps", config_map())).message == HOOK.format("a", "namespace")


@webhooks
async def test_equivalent_requests_are_shown_in_the_version_of_the_rule(api, hooks):
    rule = {"operations": ["*"], "apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"]}
    change = patching({"op": "replace", "path": "/note", "value": "changed"})
    await api.made(MUTATING, configuration("c", hooks.webhook("a", change, rules=[rule])))
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "message": "said"}
    assert (await api.made(EVENTS, event))["message"] == "changed"
    ((_, request),) = hooks.asked
    assert (request["object"]["note"], request["kind"]["group"], request["requestKind"]["group"]) == (
        "said", "events.k8s.io", "",
    )  # fmt: skip


@webhooks
async def test_subresources_are_shown_as_they_are(api, hooks):
    rule = {"operations": ["*"], "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs/scale"]}
    three = patching({"op": "replace", "path": "/spec/replicas", "value": 3})
    await api.made(MUTATING, configuration("c", hooks.webhook("a", three, rules=[rule])))
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    await api.made(jobs, job())
    assert hooks.asked == []
    answer = await api.merge(f"{jobs}/j/scale", {"spec": {"replicas": 2}})
    assert answer.json["spec"]["replicas"] == 3
    ((_, request),) = hooks.asked
    assert (request["kind"]["kind"], request["subResource"], request["object"]["spec"]) == (
        "Scale", "scale", {"replicas": 2},
    )  # fmt: skip


@webhooks
async def test_a_change_is_decided_again_if_the_object_changed_meanwhile(api, hooks):
    await api.made(MAPS, config_map())

    async def interfere(request: Any) -> web.Response:
        if len(hooks.asked) == 1:
            assert (await api.merge(f"{MAPS}/m", {"data": {"other": "1"}})).status == 200
        body = {"uid": request["uid"], "allowed": True}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": body})

    await api.made(VALIDATING, configuration("c", hooks.webhook("a", interfere)))
    answer = await api.merge(f"{MAPS}/m", {"data": {"mine": "1"}})
    assert answer.json["data"] == {"other": "1", "mine": "1"}
    assert len(hooks.asked) == 3


@webhooks
async def test_configurations_are_never_sent_to_webhooks(api, hooks):
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    await api.made(VALIDATING, configuration("c", hooks.webhook("a", deny(), rules=[everything])))
    assert (await api.post(MAPS, config_map())).status == 400
    hooks.asked.clear()
    assert (await api.delete(f"{VALIDATING}/c")).status == 200
    assert hooks.asked == []
    assert (await api.post(MAPS, config_map())).status == 201


@webhooks
async def test_a_service_leads_to_its_pods(api, hooks):
    async with hooks_server("hook.default.svc") as server:
        ready = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
        await api.made(PODS, pod(labels={"app": "hook"}))
        port = {"port": 443, "targetPort": server.port}
        service = {"metadata": {"name": "hook"}, "spec": {"selector": {"app": "hook"}, "ports": [port]}}
        await api.made(f"{DEFAULT}/services", service)
        reference = {"name": "hook", "namespace": "default", "path": "/a"}
        hook = server.webhook("a", deny()) | {"clientConfig": {"service": reference, "caBundle": server.bundle}}
        await api.made(VALIDATING, configuration("c", hook))
        answer = await api.post(MAPS, config_map())
        url = "https://hook.default.svc:443/a?timeout=10s"
        failed = f'failed to call webhook: Post "{url}": no endpoints available for service "hook"'
        assert answer.message.endswith(failed)
        assert (await api.merge(f"{PODS}/p/status", {"status": ready})).status == 200
        assert (await api.post(MAPS, config_map())).message == HOOK.format("a", "no")
        assert server.headers[0]["Host"] == "hook.default.svc:443"


@webhooks
async def test_old_webhooks_are_asked_in_their_version(api, hooks):
    await api.made(VALIDATING, configuration("c", hooks.webhook("a", admissionReviewVersions=["v1beta1", "v1"])))
    assert (await api.post(MAPS, config_map())).status == 201


@webhooks
async def test_a_bundle_that_is_none(api, hooks):
    hook = hooks.webhook("a")
    hook["clientConfig"]["caBundle"] = base64.b64encode(b"nothing").decode()
    await api.made(VALIDATING, configuration("c", hook))
    answer = await api.post(MAPS, config_map())
    assert (answer.status, "PEM" in answer.message) == (500, True)


@webhooks
async def test_configurations_have_defaults_and_rules(api, hooks):
    made = await api.made(MUTATING, configuration("c", hooks.webhook("a")))
    hook = made["webhooks"][0]
    assert made["metadata"]["generation"] == 1
    assert {name: hook[name] for name in ("failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy")} == {
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10, "reinvocationPolicy": "Never",
    }  # fmt: skip
    assert (hook["namespaceSelector"], hook["objectSelector"], hook["rules"][0]["scope"]) == ({}, {}, "*")
    changed = await api.merge(f"{MUTATING}/c", {"webhooks": [hook | {"timeoutSeconds": 5}]})
    assert changed.meta["generation"] == 2
    bad = hook | {"name": "a", "timeoutSeconds": 31, "sideEffects": "Some", "clientConfig": {"url": "http://a/?b"}}
    answer = await api.post(MUTATING, configuration("d", bad))
    assert answer.status == 422
    assert json.dumps([cause["field"] for cause in answer.json["details"]["causes"]]) == json.dumps([
        "webhooks[0].name", "webhooks[0].sideEffects", "webhooks[0].timeoutSeconds",
        "webhooks[0].clientConfig.url", "webhooks[0].clientConfig.url",
    ])  # fmt: skip


@webhooks
async def test_conditions_choose(api, hooks):
    conditions = [
        {"name": "not-the-engine", "expression": "!request.userInfo.username.startsWith('system:')"},
        {"name": "has-a", "expression": "has(object.data) && 'a' in object.data"},
        {"name": "new-or-changed", "expression": "oldObject == null || object.data != oldObject.data"},
    ]
    await api.made(VALIDATING, configuration("c", hooks.webhook("a", deny(), matchConditions=conditions)))
    assert (await api.post(MAPS, config_map("a", data={"b": "1"}))).status == 201
    assert (await api.post(MAPS, config_map("b", data={"a": "1"}))).message == HOOK.format("a", "no")
    assert len(hooks.asked) == 1


@webhooks
async def test_conditions_that_cannot_be_evaluated(api, hooks):
    conditions = [{"name": "a", "expression": "object.data.missing == 'x'"}]
    hook = hooks.webhook("a", deny(), matchConditions=conditions)
    await api.made(VALIDATING, configuration("c", hook))
    answer = await api.post(MAPS, config_map())
    assert (answer.status, 'configmaps "m" is forbidden: expression' in answer.message) == (403, True)
    await api.merge(f"{VALIDATING}/c", {"webhooks": [hook | {"failurePolicy": "Ignore"}]})
    assert (await api.post(MAPS, config_map())).status == 201
    assert hooks.asked == []
    bad = hook | {"matchConditions": [{"name": "a", "expression": "object."}]}
    answer = await api.post(VALIDATING, configuration("d", bad))
    assert (answer.status, "webhooks[0].matchConditions[0].expression: Invalid value" in answer.message) == (422, True)


@webhooks
async def test_what_a_webhook_adds_is_completed_by_the_server(api, hooks):
    item = {"type": "Container", "default": {"cpu": "1"}}
    await api.made(f"{DEFAULT}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    sidecar = patching({"op": "add", "path": "/spec/containers/-", "value": {"name": "s", "image": "i"}})
    await api.made(MUTATING, configuration("c", hooks.webhook("a", sidecar, rules=[rule])))
    made = await api.made(PODS, pod())
    assert [each["resources"]["limits"] for each in made["spec"]["containers"]] == [{"cpu": "1"}] * 2


@webhooks
async def test_bindings_and_evictions_are_judged(api, hooks):
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"]}
    resources = ["pods/binding", "pods/eviction"]
    await api.made(PODS, pod())
    await api.made(VALIDATING, configuration("c", hooks.webhook("a", deny(), rules=[rule | {"resources": resources}])))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    for path, body, kind in (
        (f"{PODS}/p/binding", binding, "Binding"),
        (f"{DEFAULT}/bindings", binding, "Binding"),
        (f"{PODS}/p/eviction", {"metadata": {"name": "p"}}, "Eviction"),
    ):
        answer = await api.post(path, body)
        assert (answer.status, answer.message) == (400, HOOK.format("a", "no"))
        request = hooks.asked[-1][1]
        assert (request["kind"]["kind"], request["object"]["kind"], request["name"]) == (kind, kind, "p")
    hooks.respond["/a"] = allow
    assert (await api.post(f"{PODS}/p/binding", binding)).status == 201
    assert (await api.get(f"{PODS}/p")).json["spec"]["nodeName"] == "n"


@webhooks
async def test_a_mutating_webhook_changes_how_a_pod_is_evicted(api, hooks):
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"]}
    patient = patching({"op": "add", "path": "/deleteOptions", "value": {"gracePeriodSeconds": 5}})
    await api.made(PODS, pod(node="n"))
    await api.made(MUTATING, configuration("c", hooks.webhook("a", patient, rules=[rule])))
    assert (await api.post(f"{PODS}/p/eviction", {"metadata": {"name": "p"}})).status == 201
    assert (await api.get(f"{PODS}/p")).meta["deletionGracePeriodSeconds"] == 5


@webhooks
async def test_custom_resources_are_shown_in_the_version_of_the_rule(api, hooks):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v1alpha1")
    ]
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "a.example.com", "scope": "Namespaced", "names": names, "versions": versions}
    definition = {"metadata": {"name": "widgets.a.example.com"}, "spec": spec}
    await api.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    rule = {"operations": ["*"], "apiGroups": ["a.example.com"], "apiVersions": ["v1"], "resources": ["widgets"]}
    change = patching({"op": "add", "path": "/size", "value": 3})
    await api.made(MUTATING, configuration("c", hooks.webhook("a", change, rules=[rule])))
    path = "/apis/a.example.com/v1alpha1/namespaces/default/widgets"
    widget = {"apiVersion": "a.example.com/v1alpha1", "kind": "Widget", "metadata": {"name": "w"}, "size": 1}
    made = await api.made(path, widget)
    assert (made["apiVersion"], made["size"]) == ("a.example.com/v1alpha1", 3)
    request = hooks.asked[-1][1]
    assert (request["object"]["apiVersion"], request["object"]["size"]) == ("a.example.com/v1", 1)
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v1alpha1")
    changed = await api.merge(f"{path}/w", {"size": 5, "color": "red"})
    assert (changed.json["size"], changed.json["color"]) == (3, "red")
    assert hooks.asked[-1][1]["oldObject"]["apiVersion"] == "a.example.com/v1"


@webhooks
async def test_connections_are_judged(api, hooks):
    rule = {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]}
    await api.made(PODS, pod(node="n"))
    await api.merge(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    await api.made(VALIDATING, configuration("c", hooks.webhook("a", deny(), rules=[rule])))
    query = {"stdout": "true", "container": "c"}
    answer = await api.server.handle(Request("GET", f"{PODS}/p/exec", query, lists={"command": ("sh",)}), ADMIN)
    assert (answer.status, json.loads(answer.body)["message"]) == (400, HOOK.format("a", "no"))
    request = hooks.asked[0][1]
    assert (request["kind"]["kind"], request["subResource"], request["options"]) == ("PodExecOptions", "exec", None)
    assert request["object"]["command"] == ["sh"]


@webhooks
async def test_what_a_webhook_notes_is_in_the_audit_log(api, hooks):
    events = audited(api, omitStages=["RequestReceived"])
    noting = lambda _: {"allowed": True, "auditAnnotations": {"score": "7"}}  # noqa: E731
    await api.made(MUTATING, configuration("c", hooks.webhook("a", noting)))
    await api.made(VALIDATING, configuration("d", hooks.webhook("b", deny())))
    await api.post(MAPS, config_map())
    assert events()[-1]["annotations"] == {
        "a.example.com/score": "7",
        "authorization.k8s.io/decision": "allow",
        "authorization.k8s.io/reason": "",
    }


@webhooks
async def test_a_webhook_that_hangs_holds_up_no_other(api, hooks):
    asked, released = asyncio.Semaphore(0), asyncio.Event()

    async def hang(_request):
        asked.release()
        await released.wait()
        return web.Response()

    rule = MAPS_RULE | {"resources": ["secrets"]}
    async with hooks_server() as others:
        await api.made(VALIDATING, configuration("a", hooks.webhook("a", hang, timeoutSeconds=30)))
        await api.made(VALIDATING, configuration("b", others.webhook("b", rules=[rule])))
        waiting = [asyncio.create_task(api.post(MAPS, config_map(f"m{n}"))) for n in range(120)]
        for _ in range(100):  # as many as one webhook's server gets at once
            await asked.acquire()
        await api.made(f"{DEFAULT}/secrets", {"metadata": {"name": "s"}})
        assert not any(task.done() for task in waiting)
        released.set()
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {500}
