"""`fieldValidation`: what is unknown or there twice is refused, said, or passed over; never stored."""

import json

import pytest
from tests.system.apiserver.harness import DEFAULT, MAPS, PODS, api, config_map, pod

JSON_PATCH, MERGE, STRATEGIC = (
    f"application/{name}+json" for name in ("json-patch", "merge-patch", "strategic-merge-patch")
)
SERVICES = f"{DEFAULT}/services"

# Members that are there twice, and some that nobody knows, on two levels.
BODY = b"""{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"restartPolicy":"Never",
"restartPolicy":"Always","spices":1,"containers":[{"name":"c","image":"i","image":"j","imige":"k"}]}}"""
YAML = b"""
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  spices: 1
  containers: [{name: c, image: i, imige: k}]
"""
REPEATED = ['duplicate field "spec.restartPolicy"', 'duplicate field "spec.containers[0].image"']
UNKNOWN = ['unknown field "spec.spices"', 'unknown field "spec.containers[0].imige"']


def said(answer) -> list[str]:
    """The warnings of an answer, in their order."""
    text = answer.headers.get("warning", "")
    return [json.loads(item.removeprefix("299 - ")) for item in text.split(", ")] if text else []


@pytest.mark.parametrize(
    ("body", "type_", "faults"),
    [(BODY, "application/json", REPEATED + UNKNOWN), (YAML, "application/yaml", UNKNOWN)],
)
@api
async def test_creation(api, body, type_, faults):
    strict = await api.post(PODS, body, type=type_, fieldValidation="Strict")
    head = 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
    assert (strict.status, strict.json["reason"]) == (400, "BadRequest")
    assert strict.message.startswith(head)
    assert sorted(strict.message.removeprefix(head).split(", ")) == sorted(faults)
    ignored = await api.post(PODS, body, type=type_, fieldValidation="Ignore", dryRun="All")
    assert (ignored.status, said(ignored)) == (201, [])
    for query in ({"fieldValidation": "Warn"}, {}):
        warned = await api.post(PODS, body, type=type_, dryRun="All", **query)
        assert (warned.status, sorted(said(warned))) == (201, sorted(faults))
        assert "spices" not in warned.json["spec"]
        assert "imige" not in warned.json["spec"]["containers"][0]


@api
async def test_keys_that_yaml_gives_twice_are_named_by_their_line(api):
    body = YAML.decode().replace("  spices: 1", "  spices: 1\n  restartPolicy: Always\n  restartPolicy: Never")
    strict = await api.post(PODS, body.encode(), type="application/yaml", fieldValidation="Strict")
    lines = [n for n, text in enumerate(body.splitlines(), 1) if "restartPolicy" in text][1:]
    said_of = "\n".join(f'  line {n}: key "restartPolicy" already set in map' for n in lines)
    assert f"strict decoding error: yaml: unmarshal errors:\n{said_of}, unknown field" in strict.message
    warned = await api.post(PODS, body.encode(), type="application/yaml", dryRun="All")
    assert said(warned)[0] == f'line {lines[0]}: key "restartPolicy" already set in map'


@api
async def test_replacement(api):
    made = await api.made(PODS, pod())
    made["spec"]["spices"] = made["metadata"]["color"] = 1
    faults = {'unknown field "metadata.color"', 'unknown field "spec.spices"'}
    strict = await api.put(f"{PODS}/p", made, fieldValidation="Strict")
    assert (strict.status, all(fault in strict.message for fault in faults)) == (400, True)
    warned = await api.put(f"{PODS}/p", made)
    assert (warned.status, set(said(warned))) == (200, faults)


@pytest.mark.parametrize(
    ("type_", "patch", "faults"),
    [
        (MERGE, b'{"data":{"a":"1","a":"2"},"bogus":1}', ['duplicate field "data.a"', 'unknown field "bogus"']),
        (STRATEGIC, b'{"data":{"a":"1","a":"2"},"bogus":1}', ['duplicate field "data.a"', 'unknown field "bogus"']),
        (JSON_PATCH, b'[{"op":"add","op":"add","path":"/data","value":{"a":"2"},"color":1}]',
         ['json patch duplicate field "[0].op"', 'json patch unknown field "[0].color"']),
        (JSON_PATCH, b'[{"op":"add","path":"/data","value":{"a":"2"}},{"op":"add","path":"/bogus","value":1}]',
         ['unknown field "bogus"']),
    ],
)  # fmt: skip
@api
async def test_patches(api, type_, patch, faults):
    await api.made(MAPS, {"metadata": {"name": "m"}})
    strict = await api.call("PATCH", f"{MAPS}/m", patch, type=type_, fieldValidation="Strict")
    assert (strict.status, strict.json["reason"]) == (422, "Invalid")
    assert f"strict decoding error: {', '.join(faults)}" in strict.message
    ignored = await api.call("PATCH", f"{MAPS}/m", patch, type=type_, fieldValidation="Ignore", dryRun="All")
    assert (ignored.status, said(ignored)) == (200, [])
    warned = await api.call("PATCH", f"{MAPS}/m", patch, type=type_)
    assert (warned.status, said(warned), warned.json["data"]) == (200, faults, {"a": "2"})
    assert "bogus" not in warned.json


@pytest.mark.parametrize("value", ["strict", "None", "Error"])
@api
async def test_words_that_are_none(api, value):
    for method, path, kind in (("POST", MAPS, "CreateOptions"), ("PUT", f"{MAPS}/m", "UpdateOptions")):
        answer = await api.call(method, path, {"metadata": {"name": "m"}}, fieldValidation=value)
        assert answer.status == 422
        assert answer.message == (
            f'{kind}.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "{value}": '
            'supported values: "", "Ignore", "Strict", "Warn"'
        )


@api
async def test_many_faults_are_cut_short(api):
    many = {"metadata": {"name": "m"}} | {f"field{i}": 1 for i in range(1000)}
    answer = await api.post(MAPS, many)
    assert (answer.status, len(answer.headers["warning"]) <= 4096) == (201, True)
    assert (await api.post(MAPS, many, fieldValidation="Strict")).status == 400


@api
async def test_of_very_many_unknown_fields_some_are_named(api):
    document = config_map() | {f"k{number}": 1 for number in range(5_000)}
    answer = await api.post(MAPS, document, fieldValidation="Strict")
    assert answer.status == 400
    assert answer.message.count("unknown field") == 100
    assert not set(await api.made(MAPS, document)) & {"k0", "k4999"}
