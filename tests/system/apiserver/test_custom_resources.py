"""CustomResourceDefinitions end to end, in process: installed, served at once, kept to their schemas."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.documents import files
from tests.system.apiserver.harness import TABLE, Api, api

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def version(name: str = "v1", schema: Any = None, **more: Any) -> dict[str, Any]:
    spec = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    root = {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {
        "phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"}}}}}  # fmt: skip
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": root}, **more}


def crd(*versions: dict[str, Any], names: Any = None, scope: str = "Namespaced", **spec: Any) -> dict[str, Any]:
    names = {"plural": "widgets", "kind": "Widget"} | (names or {})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.example.com"},
        "spec": {
            "group": "example.com",
            "names": names,
            "scope": scope,
            "versions": list(versions or (version(),)),
            **spec,
        },
    }


def widget(name: str = "w", spec: Any = None, api_version: str = "example.com/v1", **more: Any) -> dict[str, Any]:
    body = {"apiVersion": api_version, "kind": "Widget", "metadata": {"name": name}, **more}
    return body | ({"spec": spec} if spec is not None else {})


def conditions(definition: Any) -> dict[str, str]:
    return {c["type"]: f"{c['status']} {c['reason']}" for c in definition["status"]["conditions"]}


STRICT = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "default": "red", "enum": ["red", "green"]},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


@pytest.mark.parametrize("path", files("crds/*/*.yaml"), ids=lambda path: path.stem)
@api
async def test_the_peers_definitions_install_and_serve(api: Api, path: Path) -> None:
    manifest = yaml.load(path.read_text(), yaml.CSafeLoader)
    made = await api.made(f"/apis/{manifest['apiVersion']}/customresourcedefinitions", manifest)
    stored = (await api.get(f"{CRDS}/{manifest['metadata']['name']}")).json
    assert conditions(stored)["Established"] == "True InitialNamesAccepted"
    assert made["metadata"]["name"] == manifest["metadata"]["name"]
    spec = stored["spec"]
    for each in spec["versions"]:
        found = await api.get(f"/apis/{spec['group']}/{each['name']}/{spec['names']['plural']}")
        assert found.status == 200 or not each["served"]
        listed = (await api.get(f"/apis/{spec['group']}/{each['name']}")).json["resources"]
        assert spec["names"]["plural"] in [resource["name"] for resource in listed]


@api
async def test_a_kind_is_served_with_the_answer_and_gone_with_its_definition(api: Api) -> None:
    assert (await api.get(WIDGETS)).status == 404
    made = await api.made(CRDS, crd(names={"shortNames": ["wd"], "categories": ["all"]}))
    assert conditions(made) == {"NamesAccepted": "True NoConflicts", "Established": "True InitialNamesAccepted"}
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["status"]["acceptedNames"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
        "categories": ["all"],
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    (entry,) = (await api.get("/apis/example.com/v1")).json["resources"]
    assert entry["shortNames"] == ["wd"]
    assert entry["categories"] == ["all"]
    assert entry["singularName"] == "widget"
    await api.made(WIDGETS, widget(spec={"any": {"thing": [1]}}))
    found = (await api.get(f"{WIDGETS}/w")).json
    assert found["spec"] == {"any": {"thing": [1]}}
    assert found["metadata"]["generation"] == 1
    assert (await api.get(WIDGETS)).json["kind"] == "WidgetList"
    assert (await api.delete(f"{WIDGETS}/w")).json["status"] == "Success"
    deleted = (await api.delete(f"{CRDS}/widgets.example.com")).json
    assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(deleted)["Terminating"] == "True InstanceDeletionPending"
    assert (await api.post(WIDGETS, widget())).status == 405
    assert (await api.merge(f"{CRDS}/widgets.example.com", {"metadata": {"finalizers": None}})).status == 200
    assert (await api.get(WIDGETS)).status == 404
    assert (await api.get("/apis/example.com")).status == 404


BROKEN: list[tuple[Any, str]] = [
    ({}, "spec.size: Required value"),
    ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
    ({"size": "x"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'),
    ({"size": 1, "color": "blue"}, 'spec.color: Unsupported value: "blue": supported values: "red", "green"'),
    ({"size": 1, "tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
    (
        {"size": 1, "port": True},
        'spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"',
    ),
]


@pytest.mark.parametrize(("spec", "message"), BROKEN, ids=lambda value: str(value)[:30])
@api
async def test_objects_keep_to_their_schema(api: Api, spec: Any, message: str) -> None:
    await api.made(CRDS, crd(version(schema=STRICT)))
    answer = await api.post(WIDGETS, widget(spec=spec))
    assert (answer.status, answer.message) == (422, f'Widget.example.com "w" is invalid: {message}')
    await api.made(WIDGETS, widget(spec={"size": 2}))
    answer = await api.merge(f"{WIDGETS}/w", {"spec": {"size": None} | spec})
    assert (answer.status, answer.message) == (422, f'Widget.example.com "w" is invalid: {message}')


@api
async def test_pruning_and_defaults(api: Api) -> None:
    await api.made(CRDS, crd(version(schema=STRICT)))
    spec = {"size": 1, "other": 1, "note": None, "tags": None, "free": {"x": {"y": None}}}
    answer = await api.post(WIDGETS, widget(spec=spec, extra={"a": 1}), fieldValidation="Warn")
    assert answer.json["spec"] == {"size": 1, "color": "red", "note": None, "free": {"x": {"y": None}}}
    assert "extra" not in answer.json
    assert 'unknown field \\"spec.other\\"' in answer.headers["warning"]
    refused = await api.post(WIDGETS, widget("x", spec=spec), fieldValidation="Strict")
    assert refused.status == 400
    assert 'strict decoding error: unknown field "spec.other"' in refused.message


@api
async def test_status_is_written_by_itself(api: Api) -> None:
    await api.made(CRDS, crd(version(subresources={"status": {}})))
    made = await api.made(WIDGETS, widget(spec={"a": 1}, status={"phase": "Done"}))
    assert "status" not in made
    changed = await api.merge(f"{WIDGETS}/w/status", {"status": {"phase": "Run"}, "spec": {"a": 2}})
    assert changed.json["status"] == {"phase": "Run"}
    assert changed.json["spec"] == {"a": 1}
    assert changed.json["metadata"]["generation"] == 1
    changed = await api.merge(f"{WIDGETS}/w", {"spec": {"a": 2}, "status": {"phase": "No"}})
    assert changed.json["status"] == {"phase": "Run"}
    assert changed.json["metadata"]["generation"] == 2
    refused = await api.merge(f"{WIDGETS}/w/status", {"status": {"phase": 1}})
    assert refused.status == 422


@api
async def test_without_a_status_subresource_everything_counts(api: Api) -> None:
    await api.made(CRDS, crd())
    made = await api.made(WIDGETS, widget(status={"phase": "Done"}))
    assert made["status"] == {"phase": "Done"}
    assert (await api.get(f"{WIDGETS}/w/status")).status == 404
    changed = await api.merge(f"{WIDGETS}/w", {"status": {"phase": "Gone"}})
    assert changed.json["metadata"]["generation"] == 2
    same = await api.merge(f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}})
    assert same.json["metadata"]["generation"] == 2


@api
async def test_scale(api: Api) -> None:
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    await api.made(CRDS, crd(version(subresources={"status": {}, "scale": paths})))
    await api.made(WIDGETS, widget(spec={"replicas": 2}))
    await api.merge(f"{WIDGETS}/w/status", {"status": {"replicas": 1, "selector": "a=b"}})
    scale = (await api.get(f"{WIDGETS}/w/scale")).json
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 1, "selector": "a=b"},
    )
    scaled = await api.merge(f"{WIDGETS}/w/scale", {"spec": {"replicas": 5}})
    assert scaled.json["spec"] == {"replicas": 5}
    found = (await api.get(f"{WIDGETS}/w")).json
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)
    refused = await api.merge(f"{WIDGETS}/w/scale", {"spec": {"replicas": -1}})
    assert (refused.status, ".spec.replicas: Invalid value: -1" in refused.message) == (422, True)
    put = {"metadata": {"name": "w", "namespace": "default"}, "spec": {"replicas": 3}}
    assert (await api.put(f"{WIDGETS}/w/scale", put)).json["spec"] == {"replicas": 3}
    await api.made(WIDGETS, widget("x", {}))
    assert (await api.merge(f"{WIDGETS}/x/scale", {"spec": {"replicas": 4}})).json["spec"] == {"replicas": 4}


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("kind", "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing"),
        ("apiVersion", "the API version in the data () does not match the expected API version (example.com/v1)"),
    ],
)
@api
async def test_custom_resources_say_what_they_are(api: Api, missing: str, message: str) -> None:
    await api.made(CRDS, crd())
    answer = await api.post(WIDGETS, {name: value for name, value in widget().items() if name != missing})
    assert (answer.status, answer.message) == (400, message)


@api
async def test_printer_columns(api: Api) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
    ]
    await api.made(CRDS, crd(version(additionalPrinterColumns=columns)))
    ready = {"conditions": [{"type": "A", "status": "No"}, {"type": "Ready", "status": "True"}]}
    schemaless = widget(spec={"size": 3, "on": True})
    await api.made(WIDGETS, schemaless)
    table = (await api.get(WIDGETS, accept=TABLE)).json
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Size", "Ready", "Since", "On"]
    assert [c["priority"] for c in table["columnDefinitions"]] == [0, 0, 0, 1, 0]
    assert table["rows"][0]["cells"] == ["w", 3, None, "0s", True]
    changed = crd(version(additionalPrinterColumns=columns[1:2]))
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].pop("status")
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    assert (await api.merge(f"{CRDS}/widgets.example.com", {"spec": changed["spec"]})).status == 200
    await api.merge(f"{WIDGETS}/w", {"status": ready})
    table = (await api.get(f"{WIDGETS}/w", accept=TABLE)).json
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Ready"]
    assert table["rows"][0]["cells"] == ["w", "True"]


@api
async def test_strategic_merge_patch_is_not_for_custom_resources(api: Api) -> None:
    await api.made(CRDS, crd())
    await api.made(WIDGETS, widget())
    answer = await api.call("PATCH", f"{WIDGETS}/w", {}, type="application/strategic-merge-patch+json")
    assert answer.status == 415
    assert "application/merge-patch+json" in answer.message


@api
async def test_versions_that_differ_by_name(api: Api) -> None:
    old = version("v1beta1", schema=STRICT, deprecated=True, deprecationWarning="use v1")
    await api.made(CRDS, crd(version(schema=STRICT), old))
    await api.made(WIDGETS, widget(spec={"size": 1}))
    older = await api.get(f"{WIDGETS}/w".replace("/v1/", "/v1beta1/"))
    assert older.json["apiVersion"] == "example.com/v1beta1"
    assert older.headers["warning"] == '299 - "use v1"'
    made = await api.made(WIDGETS.replace("/v1/", "/v1beta1/"), widget("x", {"size": 2}, "example.com/v1beta1"))
    assert made["apiVersion"] == "example.com/v1beta1"
    listed = (await api.get(WIDGETS)).json["items"]
    assert [item["apiVersion"] for item in listed] == ["example.com/v1"] * 2
    async with api.watch(
        WIDGETS.replace("/v1/", "/v1beta1/"), resourceVersion=made["metadata"]["resourceVersion"]
    ) as w:
        await api.merge(f"{WIDGETS}/x", {"spec": {"size": 3}})
        type_, seen = await w.next()
        assert (type_, seen["apiVersion"], seen["spec"]["size"]) == ("MODIFIED", "example.com/v1beta1", 3)


@pytest.mark.parametrize(
    ("deprecated", "others", "warning"),
    [
        ("v1beta1", ("v1", "v2alpha1", "v2"), "example.com/v1beta1 Widget is deprecated; use example.com/v2 Widget"),
        ("v2", ("v1",), "example.com/v2 Widget is deprecated"),
    ],
)
@api
async def test_a_deprecated_version_names_a_newer_one(
    api: Api, deprecated: str, others: tuple[str, ...], warning: str
) -> None:
    served = (version(name, schema=STRICT) for name in others)
    await api.made(CRDS, crd(*served, version(deprecated, schema=STRICT, deprecated=True)))
    answer = await api.get(WIDGETS.replace("/v1/", f"/{deprecated}/"))
    assert answer.headers["warning"] == f'299 - "{warning}"'


@api
async def test_what_was_stored_under_an_older_schema_is_seen_in_todays_form(api: Api) -> None:
    loose = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    await api.made(CRDS, crd(version(schema=loose)))
    await api.made(WIDGETS, widget(spec={"a": 1, "b": 2}))
    tight = {"type": "object", "properties": {"a": {"type": "integer"}, "c": {"type": "string", "default": "new"}}}
    changed = await api.merge(f"{CRDS}/widgets.example.com", {"spec": crd(version(schema=tight))["spec"]})
    assert changed.json["metadata"]["generation"] == 2
    assert (await api.get(f"{WIDGETS}/w")).json["spec"] == {"a": 1, "c": "new"}
    assert (await api.get(WIDGETS)).json["items"][0]["spec"] == {"a": 1, "c": "new"}
    changed = await api.merge(f"{WIDGETS}/w", {"metadata": {"labels": {"x": "y"}}})
    assert changed.json["spec"] == {"a": 1, "c": "new"}


@api
async def test_the_storage_version_changes(api: Api) -> None:
    both = [version("v1", schema=STRICT), version("v2", schema=STRICT)]
    await api.made(CRDS, crd(*both))
    await api.made(WIDGETS, widget(spec={"size": 1}))
    both[0]["storage"], both[1]["storage"] = False, True
    changed = await api.merge(f"{CRDS}/widgets.example.com", {"spec": {"versions": both}})
    assert changed.json["status"]["storedVersions"] == ["v1", "v2"]
    found = (await api.get(f"{WIDGETS}/w".replace("/v1/", "/v2/"))).json
    assert found["apiVersion"] == "example.com/v2"
    rewritten = await api.put(f"{WIDGETS}/w".replace("/v1/", "/v2/"), found)
    assert rewritten.status == 200
    (entry,) = api.store.list("widgets.example.com").entries
    assert b'"apiVersion":"example.com/v2"' in entry.body
    gone = await api.merge(f"{CRDS}/widgets.example.com", {"spec": {"versions": both[1:]}})
    assert gone.status == 422
    assert 'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions' in gone.message
    await api.merge(f"{CRDS}/widgets.example.com/status", {"status": {"storedVersions": ["v2"]}})
    assert (await api.merge(f"{CRDS}/widgets.example.com", {"spec": {"versions": both[1:]}})).status == 200
    assert (await api.get(WIDGETS)).status == 404


@api
async def test_a_name_goes_to_who_asks_first(api: Api) -> None:
    await api.made(CRDS, crd(names={"shortNames": ["wd"]}))
    rival = await api.made(CRDS, crd(names={"plural": "gadgets", "kind": "Widget", "shortNames": ["wd"]}))
    assert conditions(rival) == {"NamesAccepted": "False ListKindConflict", "Established": "False NotAccepted"}
    messages = {c["type"]: c["message"] for c in rival["status"]["conditions"]}
    assert messages["NamesAccepted"] == '"WidgetList" is already in use'
    assert (await api.get("/apis/example.com/v1/gadgets")).status == 404


@api
async def test_the_scope_of_an_established_definition_never_changes(api: Api) -> None:
    made = await api.made(CRDS, crd())
    made["spec"]["scope"] = "Cluster"
    refused = await api.put(f"{CRDS}/{made['metadata']['name']}", made)
    assert (refused.status, "spec.scope: Invalid value" in refused.message) == (422, True)


@api
async def test_selectable_fields(api: Api) -> None:
    fields = [{"jsonPath": ".spec.color"}]
    await api.made(CRDS, crd(version(schema=STRICT, selectableFields=fields)))
    await api.made(WIDGETS, widget("a", {"size": 1, "color": "red"}))
    await api.made(WIDGETS, widget("b", {"size": 1, "color": "green"}))
    assert (await api.get(WIDGETS, fieldSelector="spec.color=green")).names == ["b"]
    refused = await api.get(WIDGETS, fieldSelector="spec.size=1")
    assert (refused.status, refused.message) == (400, "field label not supported: spec.size")


@api
async def test_metadata_is_everybodys(api: Api) -> None:
    await api.made(CRDS, crd())
    refused = await api.post(WIDGETS, widget("Bad_Name"))
    assert refused.status == 422
    assert refused.message.startswith('Widget.example.com "Bad_Name" is invalid: metadata.name: Invalid value')
    refused = await api.post(WIDGETS, widget() | {"metadata": {"name": "w", "labels": {"a": 1}}})
    assert refused.status == 400
    made = await api.made(WIDGETS, widget() | {"metadata": {"generateName": "w-"}})
    assert made["metadata"]["name"].startswith("w-")
    unversioned = await api.put(f"{WIDGETS}/{made['metadata']['name']}", widget(made["metadata"]["name"]))
    assert unversioned.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in unversioned.message


@api
async def test_true_is_not_one(api: Api) -> None:
    await api.made(CRDS, crd(version(schema=STRICT)))
    await api.made(WIDGETS, widget(spec={"size": 1, "free": {"a": 1}}))
    changed = (await api.merge(f"{WIDGETS}/w", {"spec": {"free": {"a": True}}})).json
    assert changed["spec"]["free"]["a"] is True
    assert changed["metadata"]["generation"] == 2


@api
async def test_a_definition_always_says_what_objects_are_stored_in(api: Api) -> None:
    await api.made(CRDS, crd())
    changed = await api.merge(f"{CRDS}/widgets.example.com/status", {"status": {"storedVersions": []}})
    assert changed.json["status"]["storedVersions"] == ["v1"]


@api
async def test_objects_of_a_definition_that_goes_can_be_reached_though_no_version_is_served(api: Api) -> None:
    await api.made(CRDS, crd())
    await api.made(WIDGETS, widget())
    path = f"{CRDS}/widgets.example.com"
    await api.merge(path, {"spec": {"versions": [version() | {"served": False}]}})
    assert (await api.get(WIDGETS)).status == 404
    await api.delete(path)
    assert [item["metadata"]["name"] for item in (await api.get(WIDGETS)).json["items"]] == ["w"]


@api
async def test_metadata_of_embedded_resources(api: Api) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    await api.made(CRDS, crd(version(schema=embedded)))
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}, "more": 1}, "spec": {}}
    assert (await api.made(WIDGETS, widget(spec=inner)))["spec"] == inner
    refused = await api.post(WIDGETS, widget("x", inner | {"metadata": {"labels": {"a": 1}}}))
    assert refused.status == 422
    assert "spec.metadata.labels.a in body must be of type string" in refused.message


@api
async def test_finalizers_need_no_domain(api: Api) -> None:
    await api.made(CRDS, crd())
    held = widget() | {"metadata": {"name": "w", "finalizers": ["resources-finalizer.example.com"]}}
    await api.made(WIDGETS, held)
    assert (await api.merge(f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}})).status == 200
    path = f"{CRDS}/widgets.example.com"
    await api.delete(path)
    assert (await api.merge(path, {"metadata": {"labels": {"a": "b"}}})).status == 200


@api
async def test_watches_end_when_what_is_served_changes(api: Api) -> None:
    await api.made(CRDS, crd())
    async with api.watch(WIDGETS) as events:
        await api.made(WIDGETS, widget("a"))
        assert await events.names(1) == ["ADDED a"]
        await api.merge(f"{CRDS}/widgets.example.com", {"metadata": {"labels": {"a": "b"}}})
        await api.made(WIDGETS, widget("b"))
        assert await events.names(1) == ["ADDED b"]
        await api.merge(f"{CRDS}/widgets.example.com", {"spec": {"versions": [version(schema=STRICT)]}})
        assert await events.rest(10) == []


@api
async def test_writes_to_a_definition_and_its_objects_race(api: Api) -> None:
    await api.made(CRDS, crd())
    results = await asyncio.gather(*(api.post(WIDGETS, widget(f"w{n}")) for n in range(20)))
    assert {result.status for result in results} == {201}
    assert len((await api.get(WIDGETS)).names) == 20


RULES = {
    "type": "object",
    "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string"}},
    "x-kubernetes-validations": [
        {"rule": "self.min <= self.max", "messageExpression": "'min ' + string(self.min) + ' is above max'"},
        {
            "rule": "!has(oldSelf.name) || self.name == oldSelf.name",
            "message": "name is immutable",
            "fieldPath": ".name",
        },
    ],
}


@api
async def test_rules_in_cel(api: Api) -> None:
    await api.made(CRDS, crd(version(schema=RULES)))
    refused = await api.post(WIDGETS, widget(spec={"min": 2, "max": 1}))
    assert (refused.status, refused.message) == (
        422,
        'Widget.example.com "w" is invalid: spec: Invalid value: "object": min 2 is above max',
    )
    await api.made(WIDGETS, widget(spec={"min": 1, "max": 1, "name": "a"}))
    refused = await api.merge(f"{WIDGETS}/w", {"spec": {"name": "b"}})
    assert refused.status == 422
    assert "spec.name: Invalid value" in refused.message
    assert "name is immutable" in refused.message
    broken = await api.post(WIDGETS, widget("x", {"min": "a", "max": 1}))
    assert "some validation rules were not checked because the object was invalid" in broken.message


@api
async def test_rules_of_items_whose_keys_were_none_when_they_were_stored(api: Api) -> None:
    await api.made(CRDS, crd())
    await api.made(WIDGETS, widget(spec={"ports": [{"name": {"odd": 1}}, {"name": "a", "port": 1}]}))
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.port >= oldSelf.port", "message": "it only grows"}],
    }
    ports = {"type": "array", "items": item, "maxItems": 9}
    ports |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    definition = (await api.get(f"{CRDS}/widgets.example.com")).json
    definition["spec"]["versions"] = [version(schema={"type": "object", "properties": {"ports": ports}})]
    assert (await api.put(f"{CRDS}/widgets.example.com", definition)).status == 200
    refused = await api.merge(f"{WIDGETS}/w", {"spec": {"ports": [{"name": "a", "port": 0}]}})
    assert (refused.status, "it only grows" in refused.message) == (422, True), refused.message
    for keys, status in ((["a"], 200), ([{"odd": 1}], 422), ([["a"]], 422)):
        answer = await api.merge(f"{WIDGETS}/w", {"spec": {"ports": [{"name": key, "port": 1} for key in keys]}})
        assert answer.status == status, answer.message


@api
async def test_server_side_apply(api: Api) -> None:
    ports = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
        },
    }
    await api.made(CRDS, crd(version(schema={"type": "object", "properties": {"ports": ports}})))

    async def apply(manager: str, *items: Any, **query: Any) -> Any:
        body = widget(spec={"ports": list(items)})
        return await api.call(
            "PATCH", f"{WIDGETS}/w", body, type="application/apply-patch+yaml", fieldManager=manager, **query
        )

    assert (await apply("a", {"name": "x", "port": 1})).status == 201
    both = await apply("b", {"name": "y", "port": 2})
    assert both.json["spec"]["ports"] == [{"name": "x", "port": 1}, {"name": "y", "port": 2}]
    assert (await apply("b", {"name": "x", "port": 3})).status == 409
    forced = await apply("b", {"name": "x", "port": 3}, force="true")
    assert forced.json["spec"]["ports"] == [{"name": "x", "port": 3}]


BAD_DEFINITIONS: list[tuple[Any, str]] = [
    ({"scope": "Everywhere"}, 'spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"'),
    ({"names": {"plural": "others", "kind": "Widget"}}, 'must be spec.names.plural+"."+spec.group'),
    ({"versions": []}, "spec.versions: Required value: must have at least one version"),
    ({"versions": [version() | {"storage": False}]}, "must have exactly one version marked as storage version"),
    ({"versions": [version() | {"schema": None}]}, "schema.openAPIV3Schema: Required value"),
    ({"preserveUnknownFields": True}, "spec.preserveUnknownFields: Invalid value: true: cannot set to true"),
    ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.webhookClientConfig: Required value"),
]
_SPEC = "spec.validation.openAPIV3Schema.properties[spec]"
BAD_SCHEMAS: list[tuple[Any, str]] = [
    ({"properties": {}}, f"{_SPEC}.type: Required value: must not be empty for specified object fields"),
    (
        {"type": "object", "properties": {"a": {"type": "array"}}},
        f"{_SPEC}.properties[a].items: Required value: must be specified",
    ),
    (
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
        "additionalProperties and properties are mutual exclusive",
    ),
    (
        {"type": "object", "anyOf": [{"type": "object"}]},
        f"{_SPEC}.anyOf[0].type: Forbidden: must be empty to be structural",
    ),
    (
        {"type": "string", "x-kubernetes-validations": [{"rule": "self\n!= ''"}]},
        f"{_SPEC}.x-kubernetes-validations[0].message: Required value: message must be specified if rule contains",
    ),
    (
        {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''", "reason": "Bad"}]},
        f'{_SPEC}.x-kubernetes-validations[0].reason: Unsupported value: "Bad": supported values: "FieldValueDup',
    ),
    (
        {"type": "string", "x-kubernetes-validations": [{"rule": " "}]},
        f"{_SPEC}.x-kubernetes-validations[0].rule: Required value: rule is not specified",
    ),
    ({"type": "string", "pattern": "("}, f'{_SPEC}.pattern: Invalid value: "(": must be a valid regular expression'),
    ({"type": "integer", "default": "x"}, f"{_SPEC}.default: Invalid value"),
    ({"type": "object", "x-kubernetes-list-type": "map"}, "must be array if x-kubernetes-list-type is specified"),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": "self.nope == 1"}],
        },
        f"{_SPEC}.x-kubernetes-validations[0].rule: Invalid value",
    ),
]


@pytest.mark.parametrize(("change", "message"), BAD_DEFINITIONS, ids=lambda value: str(value)[:40])
@api
async def test_definitions_that_are_refused(api: Api, change: Any, message: str) -> None:
    definition = crd()
    definition["spec"] |= change
    answer = await api.post(CRDS, definition)
    assert answer.status == 422
    assert message in answer.message
    assert (await api.get(WIDGETS)).status == 404


@pytest.mark.parametrize(("schema", "message"), BAD_SCHEMAS, ids=lambda value: str(value)[:40])
@api
async def test_schemas_that_are_refused(api: Api, schema: Any, message: str) -> None:
    answer = await api.post(CRDS, crd(version(schema=schema)))
    assert answer.status == 422
    assert message in answer.message


@pytest.mark.parametrize(
    "schema",
    [{"type": 1}, {"properties": []}, {"properties": {"a": 1}}, {"items": "x"}, {"required": "x"}, {"enum": 1}],
)
@api
async def test_schemas_that_are_none(api: Api, schema: Any) -> None:
    answer = await api.post(CRDS, crd(version(schema={"type": "object"} | schema)))
    assert answer.status == 400
    assert "json: cannot unmarshal" in answer.message


@api
async def test_unknown_keywords_are_dropped(api: Api) -> None:
    definition = crd(version(schema={"type": "object", "readOnly": True}))
    refused = await api.post(CRDS, definition, fieldValidation="Strict")
    assert refused.status == 400
    path = "spec.versions[0].schema.openAPIV3Schema.properties.spec.readOnly"
    assert f'unknown field "{path}"' in refused.message
    made = await api.made(CRDS, definition)
    assert made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] == {"type": "object"}


@api
async def test_what_was_wrong_before_does_not_keep_anyone_from_changing_the_rest(api: Api) -> None:
    loose = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    await api.made(CRDS, crd(version(schema=loose)))
    await api.made(WIDGETS, widget(spec={"a": 100, "b": 1}))
    tight = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}, "b": {"type": "integer"}}}
    await api.merge(f"{CRDS}/widgets.example.com", {"spec": crd(version(schema=tight))["spec"]})
    assert (await api.merge(f"{WIDGETS}/w", {"spec": {"b": 2}})).json["spec"] == {"a": 100, "b": 2}
    assert (await api.merge(f"{WIDGETS}/w", {"spec": {"a": 101}})).status == 422
    assert (await api.merge(f"{WIDGETS}/w", {"spec": {"a": 5}})).status == 200
