"""Server-side apply and field management, end to end through the server in process."""

import json
from typing import Any

import pytest
import yaml
from tests.system.apiserver.harness import DEFAULT, JOBS, MAPS, PODS, Answer, Api, api, config_map, job, pod

from muster.cluster.apiserver.fields.sets import list_paths
from muster.cluster.apiserver.identity.users import ADMIN
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.runtime.transport import APPLY_PATCH, JSON, JSON_PATCH, STRATEGIC_MERGE_PATCH, Request

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def applied(api: Api, path: str, config: Any, manager: str = "me", **query: Any) -> Answer:
    return await api.call("PATCH", path, config, type=APPLY_PATCH, fieldManager=manager, **query)


def managed(obj: Any) -> dict[str, list[str]]:
    """What each manager has: updates marked with `*`, subresources by `/name`."""
    found = {}
    for entry in obj["metadata"].get("managedFields", []):
        place = f"/{entry['subresource']}" if "subresource" in entry else ""
        mark = "" if entry["operation"] == "Apply" else "*"
        found[entry.get("manager", "") + place + mark] = sorted(list_paths(entry["fieldsV1"]))
    return found


def deployment(**spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80}]}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template, **spec},
    }


@api
async def test_create_then_change(api):
    made = await applied(api, f"{MAPS}/m", config_map(data={"a": "1"}))
    assert (made.status, made.json["data"]) == (201, {"a": "1"})
    assert made.meta["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": made.meta["creationTimestamp"],
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        }
    ]
    changed = await applied(api, f"{MAPS}/m", config_map(data={"a": "2"}))
    assert (changed.status, changed.json["data"]) == (200, {"a": "2"})
    assert (await api.get(f"{MAPS}/m")).json == changed.json


@api
async def test_applying_again_writes_nothing(api):
    made = await applied(api, f"{DEPLOYMENTS}/d", deployment())
    assert made.status == 201, made.body
    await api.clock.sleep(60)
    again = await applied(api, f"{DEPLOYMENTS}/d", deployment() | {"status": {}})
    assert (again.status, again.json) == (200, made.json)
    with_null = deployment()
    with_null["metadata"]["creationTimestamp"] = None
    assert (await applied(api, f"{DEPLOYMENTS}/d", with_null)).json == made.json


@api
async def test_conflicts_name_the_owners(api):
    await applied(api, f"{MAPS}/m", config_map(data={"a": "1", "b": "1"}), "one")
    await api.merge(f"{MAPS}/m", {"data": {"b": "2"}}, fieldManager="two")
    answer = await applied(api, f"{MAPS}/m", config_map(data={"a": "3", "b": "3"}), "three")
    assert answer.status == 409
    assert answer.json["reason"] == "Conflict"
    assert answer.message == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\nconflicts with "two" using v1:\n- .data.b'
    )
    assert answer.json["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"},
        {"reason": "FieldManagerConflict", "message": 'conflict with "two" using v1', "field": ".data.b"},
    ]
    forced = await applied(api, f"{MAPS}/m", config_map(data={"a": "3", "b": "3"}), "three", force="true")
    assert managed(forced.json) == {"three": [".data.a", ".data.b"]}


@api
async def test_what_is_left_out_goes_unless_others_own_it(api):
    await applied(api, f"{MAPS}/m", config_map(data={"a": "1", "b": "1", "c": "1"}), "one")
    await applied(api, f"{MAPS}/m", config_map(data={"b": "1"}), "two")
    answer = await applied(api, f"{MAPS}/m", config_map(data={"c": "1"}), "one")
    assert answer.json["data"] == {"b": "1", "c": "1"}
    assert managed(answer.json) == {"one": [".data.c"], "two": [".data.b"]}


@api
async def test_every_writer_is_noted(api):
    await api.made(PODS, pod(node="n"), fieldManager="creator")
    await api.call(
        "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, type=STRATEGIC_MERGE_PATCH, fieldManager="labeller"
    )
    await api.merge(f"{PODS}/p/status", {"status": {"phase": "Running"}}, fieldManager="kubelet")
    shown = (await api.get(f"{PODS}/p")).json
    assert {name: fields[:2] for name, fields in managed(shown).items() if name != "creator*"} == {
        "labeller*": [".metadata.labels", ".metadata.labels.a"],
        "kubelet/status*": [".status.phase"],
    }
    assert '.spec.containers[name="c"].image' in managed(shown)["creator*"]
    assert not [path for path in managed(shown)["creator*"] if path.startswith(".status")]
    whole = shown | {"spec": shown["spec"] | {"activeDeadlineSeconds": 5}}
    await api.put(f"{PODS}/p", whole, fieldManager="replacer")
    assert managed((await api.get(f"{PODS}/p")).json)["replacer*"] == [".spec.activeDeadlineSeconds"]


@api
async def test_the_user_agent_is_the_manager_of_who_says_nothing(api):
    body = json.dumps(config_map(data={"a": "1"})).encode()
    request = Request("POST", MAPS, {}, body, JSON, JSON, user_agent="kubectl/v1.31.0 (linux/amd64)")
    await InProcessTransport(api.server, ADMIN).request(request)
    assert list(managed((await api.get(f"{MAPS}/m")).json)) == ["kubectl*"]


@api
async def test_items_are_merged_by_their_keys(api):
    made = await applied(api, f"{DEPLOYMENTS}/d", deployment(), "one")
    config = deployment()
    config["spec"] = {
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "env": [{"name": "E", "value": "1"}],
                        "ports": [{"containerPort": 80, "protocol": "UDP"}],
                    },
                    {"name": "sidecar", "image": "s"},
                ]
            }
        }
    }
    answer = await applied(api, f"{DEPLOYMENTS}/d", config, "two")
    assert answer.status == 200, answer.body
    first, second = answer.json["spec"]["template"]["spec"]["containers"]
    assert first["image"] == "i"
    assert first["env"] == [{"name": "E", "value": "1"}]
    assert [(port["containerPort"], port["protocol"]) for port in first["ports"]] == [(80, "TCP"), (80, "UDP")]
    assert second["name"] == "sidecar"
    back = await applied(api, f"{DEPLOYMENTS}/d", config | {"spec": {}}, "two")
    assert back.json["spec"] == made.json["spec"]


@api
async def test_a_controller_may_own_the_replicas(api):
    await applied(api, f"{DEPLOYMENTS}/d", deployment(replicas=3), "owner")
    scaled = await api.merge(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 5}}, fieldManager="autoscaler")
    assert scaled.status == 200, scaled.body
    conflict = await applied(api, f"{DEPLOYMENTS}/d", deployment(replicas=3), "owner")
    assert conflict.message == (
        'Apply failed with 1 conflict: conflict with "autoscaler" with subresource "scale" using apps/v1: '
        ".spec.replicas"
    )
    answer = await applied(api, f"{DEPLOYMENTS}/d", deployment(), "owner")
    assert answer.json["spec"]["replicas"] == 5
    assert managed(answer.json)["autoscaler/scale*"] == [".spec.replicas"]


@api
async def test_apply_to_scale(api):
    await applied(api, f"{DEPLOYMENTS}/d", deployment(replicas=3), "owner")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 4}}
    refused = await applied(api, f"{DEPLOYMENTS}/d/scale", scale, "other")
    assert (refused.status, refused.message) == (
        409,
        'Apply failed with 1 conflict: conflict with "owner": .spec.replicas',
    )
    forced = await applied(api, f"{DEPLOYMENTS}/d/scale", scale, "other", force="true")
    assert (forced.status, forced.json["kind"], forced.json["spec"]) == (200, "Scale", {"replicas": 4})
    shown = (await api.get(f"{DEPLOYMENTS}/d")).json
    assert managed(shown)["other/scale"] == [".spec.replicas"]
    assert ".spec.replicas" not in managed(shown)["owner"]
    missing = await applied(api, f"{DEPLOYMENTS}/none/scale", scale | {"metadata": {"name": "none"}})
    assert missing.status == 404


@api
async def test_apply_to_status(api):
    await api.made(PODS, pod(node="n"))
    condition = {"type": "example.com/ready", "status": "True"}
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": [condition]}}
    answer = await applied(api, f"{PODS}/p/status", config, "gate")
    assert answer.status == 200, answer.body
    assert answer.json["status"]["conditions"] == [condition]
    assert answer.json["status"]["phase"] == "Pending"
    key = '.status.conditions[type="example.com/ready"]'
    assert managed(answer.json)["gate/status"] == [key, f"{key}.status", f"{key}.type"]
    gone = await applied(api, f"{PODS}/p/status", config | {"status": {}}, "gate")
    assert not gone.json["status"].get("conditions")
    spec = config | {"spec": {"activeDeadlineSeconds": 7}}
    assert "activeDeadlineSeconds" not in (await applied(api, f"{PODS}/p/status", spec, "gate")).json["spec"]
    other = await applied(api, f"{PODS}/none/status", config | {"metadata": {"name": "none"}})
    assert other.status == 404


@api
async def test_the_main_resource_does_not_take_the_status(api):
    made = await applied(api, f"{JOBS}/j", job() | {"status": {"active": 5}})
    assert made.status == 201, made.body
    assert made.json.get("status", {}).get("active") is None
    assert not [path for path in managed(made.json)["me"] if path.startswith(".status")]


@api
async def test_a_new_objects_status_is_nobodys(api):
    made = await api.made(JOBS, job() | {"status": {"active": 5}}, fieldManager="me")
    assert not [path for path in managed(made)["me*"] if path.startswith(".status")]


@api
async def test_who_was_there_before_the_first_apply_has_no_status(api):
    made = await api.made(PODS, pod(node="n"))
    reset = {"metadata": {"managedFields": [{}], "resourceVersion": made["metadata"]["resourceVersion"]}}
    assert managed((await api.merge(f"{PODS}/p", reset)).json) == {}
    answer = await applied(
        api, f"{PODS}/p", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}}
    )
    assert answer.status == 200, answer.body
    assert managed(answer.json)["me"] == [".metadata.labels.a"]
    assert not [path for path in managed(answer.json)["before-first-apply*"] if path.startswith(".status")]


@api
async def test_dry_run(api):
    dry = await applied(api, f"{MAPS}/m", config_map(data={"a": "1"}), dryRun="All")
    assert (dry.status, managed(dry.json)) == (201, {"me": [".data.a"]})
    assert (await api.get(f"{MAPS}/m")).status == 404
    made = await applied(api, f"{MAPS}/m", config_map(data={"a": "1"}))
    changed = await applied(api, f"{MAPS}/m", config_map(data={"a": "2"}), dryRun="All")
    assert changed.json["data"] == {"a": "2"}
    assert (await api.get(f"{MAPS}/m")).json == made.json


@api
async def test_bodies_are_yaml(api):
    body = yaml.safe_dump(config_map(data={"a": "1"})).encode()
    answer = await applied(api, f"{MAPS}/m", body)
    assert (answer.status, answer.json["data"]) == (201, {"a": "1"})


@api
async def test_the_url_names_what_is_applied(api):
    made = await applied(api, f"{MAPS}/m", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}})
    assert (made.status, made.meta["name"], made.meta["namespace"]) == (201, "m", "default")


@api
async def test_who_gives_up_all_is_no_manager_any_more(api):
    await applied(api, f"{MAPS}/m", config_map(data={"a": "1"}))
    emptied = await applied(api, f"{MAPS}/m", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    assert (emptied.status, managed(emptied.json), emptied.json.get("data")) == (200, {}, None)
    assert (await api.get(f"{MAPS}/m")).json == emptied.json


REFUSALS: list[tuple[Any, dict[str, Any], int, str]] = [
    (config_map(), {"fieldManager": ""}, 422, "fieldManager: Required value: is required for apply patch"),
    (config_map(), {"fieldManager": "x" * 129}, 422, "fieldManager: Too long: may not be more than 128 bytes"),
    (config_map(), {"fieldManager": "a\nb"}, 422, "should only contain printable characters"),
    (config_map(managedFields=[]), {}, 400, "metadata.managedFields must be nil"),
    (
        config_map() | {"bogus": 1},
        {},
        400,
        "failed to create typed patch object (default/m; /v1, Kind=ConfigMap): .bogus: field not declared in schema",
    ),
    (config_map(data={"a": 1}), {}, 400, ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
    (config_map() | {"kind": "Secret"}, {}, 400, ""),
    (config_map() | {"apiVersion": "v2"}, {}, 400, ""),
    ({"metadata": {"name": "m"}}, {}, 400, ""),
    (config_map("other"), {}, 400, "the name of the object (other) does not match the name on the URL (m)"),
    (config_map(namespace="x"), {}, 400, "the namespace of the provided object does not match the namespace sent"),
    (config_map(resourceVersion="1"), {}, 409, "the object has been modified"),
    (config_map(uid="x"), {}, 422, 'metadata.uid: Invalid value: "x": field is immutable'),
    (b"\x00", {}, 400, ""),
    (b"[]", {}, 400, ""),
    (b"a: {", {}, 400, ""),
    (b"", {}, 400, ""),
]


@pytest.mark.parametrize(("config", "query", "status", "message"), REFUSALS, ids=str)
@api
async def test_refusals(api, config, query, status, message):
    made = await api.made(MAPS, config_map(data={"k": "v"}))
    answer = await applied(api, f"{MAPS}/m", config, **({"manager": query.pop("fieldManager")} if query else {}))
    assert (answer.status, message in answer.message) == (status, True), answer.body
    assert (await api.get(f"{MAPS}/m")).json == made


@api
async def test_force_is_for_applies(api):
    await api.made(MAPS, config_map())
    answer = await api.merge(f"{MAPS}/m", {}, force="true")
    assert (answer.status, "force: Forbidden: may not be specified for non-apply patch" in answer.message) == (
        422,
        True,
    )


@api
async def test_a_new_object_with_an_identity_is_refused(api):
    known = await applied(api, f"{MAPS}/m", config_map(uid="x"))
    assert (known.status, "uid mismatch: the provided object specified uid x" in known.message) == (409, True)
    versioned = await applied(api, f"{MAPS}/m", config_map(resourceVersion="5"))
    assert (versioned.status, versioned.message) == (400, "resourceVersion should not be set on objects to be created")
    assert (await api.get(f"{MAPS}/m")).status == 404


@api
async def test_the_rules_of_the_kind_are_kept(api):
    await applied(api, f"{PODS}/p", pod())
    answer = await applied(api, f"{PODS}/p", pod(restartPolicy="Never"))
    assert (answer.status, "pod updates may not change fields other than" in answer.message) == (422, True)
    new = await applied(api, f"{PODS}/q", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}, "spec": {}})
    assert (new.status, "spec.containers: Required value" in new.message) == (422, True)


@api
async def test_generations_count_applies_that_change_the_spec(api):
    made = await applied(api, f"{DEPLOYMENTS}/d", deployment(replicas=1))
    assert made.meta["generation"] == 1
    labelled = deployment(replicas=1)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert (await applied(api, f"{DEPLOYMENTS}/d", labelled)).meta["generation"] == 1
    assert (await applied(api, f"{DEPLOYMENTS}/d", deployment(replicas=2))).meta["generation"] == 2


@api
async def test_managed_fields_are_reset_by_hand(api):
    await api.made(MAPS, config_map(data={"a": "1"}), fieldManager="x")
    kept = await api.merge(f"{MAPS}/m", {"metadata": {"managedFields": []}}, fieldManager="x")
    assert list(managed(kept.json)) == ["x*"]
    reset = await api.merge(f"{MAPS}/m", {"metadata": {"managedFields": [{}]}}, fieldManager="x")
    assert (reset.status, managed(reset.json)) == (200, {})
    await api.merge(f"{MAPS}/m", {"data": {"b": "1"}}, fieldManager="x")
    after = await applied(api, f"{MAPS}/m", config_map(data={"c": "1"}))
    assert managed(after.json) == {"before-first-apply*": [".data", ".data.a", ".data.b"], "me": [".data.c"]}


@api
async def test_coming_from_client_side_apply(api):
    """What kubectl does at the first `apply --server-side` of an object that was applied client-side."""
    config = config_map(data={"a": "1", "b": "1"})
    last = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(config)}
    await api.made(
        MAPS, config_map(data={"a": "1", "b": "1"}, annotations=last), fieldManager="kubectl-client-side-apply"
    )
    answer = await applied(api, f"{MAPS}/m", config_map(data={"a": "2"}), "kubectl")
    assert answer.status == 200, answer.body
    assert answer.json["data"] == {"a": "2", "b": "1"}
    followed = answer.meta["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert json.loads(followed)["data"] == {"a": "2"}
    # Then the client gives all that client-side apply owned to the applier, by a JSON patch of managedFields.
    entries = answer.meta["managedFields"]
    mine = next(entry for entry in entries if entry["manager"] == "kubectl")
    data = {"f:data": {"f:a": {}, "f:b": {}}, "f:metadata": {"f:annotations": {"f:" + next(iter(last)): {}}}}
    patch = [
        {"op": "replace", "path": "/metadata/managedFields", "value": [mine | {"fieldsV1": data}]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": answer.meta["resourceVersion"]},
    ]
    moved = await api.call("PATCH", f"{MAPS}/m", patch, type=JSON_PATCH, fieldManager="kubectl")
    assert (moved.status, list(managed(moved.json))) == (200, ["kubectl"])
    done = await applied(api, f"{MAPS}/m", config_map(data={"a": "2"}), "kubectl")
    assert done.json["data"] == {"a": "2"}


@api
async def test_watchers_see_applies_and_their_managers(api):
    async with api.watch(MAPS, resourceVersion=(await api.get(MAPS)).meta["resourceVersion"]) as events:
        await applied(api, f"{MAPS}/m", config_map(data={"a": "1"}))
        type_, obj = await events.next()
        assert (type_, managed(obj)) == ("ADDED", {"me": [".data.a"]})
        await applied(api, f"{MAPS}/m", config_map(data={"a": "1"}))
        assert await events.silent()


@api
async def test_services_keep_ports_apart_by_protocol(api):
    def service(*ports: Any) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s"},
            "spec": {"clusterIP": "None", "ports": ports},
        }

    path = f"{DEFAULT}/services/s"
    made = await applied(api, path, service({"name": "dns", "port": 53, "protocol": "UDP"}), "one")
    assert made.status == 201, made.body
    both = await applied(api, path, service({"name": "dns-tcp", "port": 53}), "two")
    assert [(p["name"], p["protocol"]) for p in both.json["spec"]["ports"]] == [("dns", "UDP"), ("dns-tcp", "TCP")]
    twice = await applied(api, path, service({"port": 53}, {"port": 53, "protocol": "TCP"}), "two")
    assert (twice.status, 'duplicate entries for key [port=53,protocol="TCP"]' in twice.message) == (400, True)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"


def thing(spec: Any, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", **meta}, "spec": spec}


def definition() -> dict[str, Any]:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["name"],
    }
    spec = {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": item,
            },
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "mode": {"type": "string", "default": "slow"},
        },
    }
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object", "properties": {"phase": {"type": "string"}}}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@api
async def test_custom_resources(api):
    await api.made(CRDS, definition())
    config = thing({"items": [{"name": "a", "size": 1}], "tags": ["x"], "free": {"p": {"q": 1}}}, labels={"l": "1"})
    made = await applied(api, f"{THINGS}/t", config, "one")
    assert (made.status, made.json["spec"]["mode"]) == (201, "slow"), made.body
    assert managed(made.json) == {
        "one": [
            ".metadata.labels.l",
            ".spec.free.p",
            ".spec.free.p.q",
            '.spec.items[name="a"]',
            '.spec.items[name="a"].name',
            '.spec.items[name="a"].size',
            '.spec.tags[="x"]',
        ]
    }
    other = await applied(api, f"{THINGS}/t", thing({"items": [{"name": "b"}], "tags": ["y"], "free": {"r": 2}}), "two")
    assert other.json["spec"]["items"] == [{"name": "a", "size": 1}, {"name": "b"}]
    assert other.json["spec"]["tags"] == ["x", "y"]
    assert other.json["spec"]["free"] == {"p": {"q": 1}, "r": 2}
    refused = await applied(api, f"{THINGS}/t", thing({"items": [{"name": "a", "size": 2}]}), "two")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "one": .spec.items[name="a"].size'
    unknown = await applied(api, f"{THINGS}/t", thing({"bogus": 1}), "two")
    assert ".spec.bogus: field not declared in schema" in unknown.message
    status = thing({}) | {"status": {"phase": "Done"}}
    done = await applied(api, f"{THINGS}/t/status", status, "controller")
    assert (done.json["status"], managed(done.json)["controller/status"]) == ({"phase": "Done"}, [".status.phase"])
    gone = await applied(api, f"{THINGS}/t", thing({}), "one")
    assert gone.json["spec"] == {"items": [{"name": "b"}], "tags": ["y"], "free": {"r": 2}, "mode": "slow"}
    assert "labels" not in gone.meta


@api
async def test_new_custom_resources_are_noted(api):
    await api.made(CRDS, definition())
    made = await api.made(THINGS, thing({"tags": ["x"]}), fieldManager="creator")
    assert managed(made) == {"creator*": [".spec", ".spec.mode", ".spec.tags", '.spec.tags[="x"]']}


@pytest.mark.parametrize(
    ("validation", "status", "warned"), [("Strict", 422, False), ("Warn", 201, True), ("Ignore", 201, False)]
)
@api
async def test_members_that_are_there_twice(api, validation, status, warned):
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: '1', a: '2'}\n"
    answer = await applied(api, f"{MAPS}/m", body, fieldValidation=validation)
    assert (answer.status, "warning" in answer.headers) == (status, warned), answer.body
    said = answer.message if status == 422 else answer.headers.get("warning", "")
    assert ("already set in map" in said) == (validation != "Ignore")
