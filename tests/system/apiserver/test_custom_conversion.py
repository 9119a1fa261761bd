"""Versions that a webhook converts into each other, asked over TLS; and definitions that outlive the server."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiohttp import web
from tests.system.apiserver.harness import TABLE, Api
from tests.system.apiserver.test_custom_resources import CRDS, WIDGETS, crd, version, widget
from tests.system.apiserver.webhook_server import Hooks, webhooks

from muster.cluster.controlplane import control_plane
from muster.cluster.store import MemoryJournal
from muster.cluster.store.journal import History, JournalRecord
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random

V2 = WIDGETS.replace("/v1/", "/v2/")
NAME = "widgets.example.com"
OLD = {"type": "object", "properties": {"host": {"type": "string"}, "port": {"type": "integer"}}}
NEW = {"type": "object", "properties": {"address": {"type": "string"}, "tls": {"type": "boolean", "default": True}}}


def convert(obj: dict[str, Any], wanted: str) -> dict[str, Any]:
    """v1 has host and port, v2 an address."""
    spec = obj.get("spec", {})
    if wanted.endswith("/v2"):
        spec = {"address": f"{spec.get('host')}:{spec.get('port')}"}
    else:
        host, _, port = spec.get("address", "").partition(":")
        spec = {"host": host, "port": int(port or 0)}
    meta = obj["metadata"] | {"annotations": {"converted-to": wanted}}
    return obj | {"apiVersion": wanted, "spec": spec, "metadata": meta}


def converting(request: dict[str, Any]) -> web.Response:
    objects = [convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    return reviewed(request, convertedObjects=objects)


def reviewed(request: dict[str, Any], **response: Any) -> web.Response:
    full = {"uid": request["uid"], "result": {"status": "Success"}} | response
    return web.json_response({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": full})


async def install(api: Api, hooks: Hooks, respond: Callable[[Any], web.Response] = converting) -> None:
    config = hooks.webhook("convert", respond)["clientConfig"]
    webhook = {"clientConfig": config, "conversionReviewVersions": ["v2", "v1"]}
    definition = crd(version("v1", OLD), version("v2", NEW), conversion={"strategy": "Webhook", "webhook": webhook})
    await api.made(CRDS, definition)


@webhooks
async def test_reads_writes_lists_and_watches_in_another_version(api: Api, hooks: Hooks) -> None:
    await install(api, hooks)
    made = await api.made(WIDGETS, widget(spec={"host": "h", "port": 1}))
    assert hooks.asked == []  # it is stored as it was written
    newer = (await api.get(f"{V2}/w")).json
    assert newer["spec"] == {"address": "h:1", "tls": True}
    assert newer["metadata"] == made["metadata"] | {"annotations": {"converted-to": "example.com/v2"}}
    created = await api.made(V2, widget("x", {"address": "i:2"}, "example.com/v2"))
    assert created["spec"] == {"address": "i:2", "tls": True}
    assert (await api.get(f"{WIDGETS}/x")).json["spec"] == {"host": "i", "port": 2}
    asked = len(hooks.asked)
    listed = (await api.get(V2)).json
    assert [item["spec"]["address"] for item in listed["items"]] == ["h:1", "i:2"]
    assert len(hooks.asked) == asked + 1  # about all at once
    assert len((await api.get(V2, accept=TABLE)).json["rows"]) == 2
    async with api.watch(V2, resourceVersion=listed["metadata"]["resourceVersion"]) as events:
        changed = await api.merge(f"{V2}/w", {"spec": {"address": "h:7"}})
        assert changed.json["spec"]["address"] == "h:7"
        type_, seen = await events.next()
        assert (type_, seen["apiVersion"], seen["spec"]["address"]) == ("MODIFIED", "example.com/v2", "h:7")
    assert (await api.get(f"{WIDGETS}/w")).json["spec"] == {"host": "h", "port": 7}
    refused = await api.merge(f"{V2}/w", {"spec": {"address": 1}})
    assert refused.status == 422
    assert (await api.delete(f"{V2}/w")).status == 200
    assert (await api.get(WIDGETS)).names == ["x"]


def renaming(request: dict[str, Any]) -> web.Response:
    objects = [
        convert(obj, request["desiredAPIVersion"]) | {"metadata": {"name": "evil"}} for obj in request["objects"]
    ]
    return reviewed(request, convertedObjects=objects)


BAD: list[tuple[Callable[[Any], web.Response], str]] = [
    (lambda r: reviewed(r, convertedObjects=[]), "webhook returned 0 objects, expected 1"),
    (lambda r: reviewed(r, convertedObjects=r["objects"]), "invalid converted object: expected example.com/v2"),
    (lambda r: reviewed(r, result={"status": "Failed", "message": "cannot"}), "cannot"),
    (lambda r: reviewed(r, uid="other"), 'got "other"'),
    (lambda _: web.json_response({}), "no response provided"),
    (lambda _: web.Response(text="{"), "the answer cannot be read"),
    (lambda _: web.Response(status=500, text="oops"), 'an error on the server ("oops")'),
    (renaming, "must not change metadata.name"),
]


@pytest.mark.parametrize(("respond", "why"), BAD, ids=[why[:30] for _, why in BAD])
@webhooks
async def test_a_webhook_that_fails(api: Api, hooks: Hooks, respond: Any, why: str) -> None:
    await install(api, hooks, respond)
    await api.made(WIDGETS, widget(spec={"host": "h", "port": 1}))
    for path in (f"{V2}/w", V2):
        answer = await api.get(path)
        assert answer.status == 500
        assert "conversion webhook for example.com/v1, Kind=Widget failed: " in answer.message
        assert why in answer.message
    assert (await api.get(f"{WIDGETS}/w")).status == 200


class KeptJournal(MemoryJournal):
    """Outlives the store."""

    def __init__(self) -> None:
        self.records: list[JournalRecord] = []

    async def open(self) -> History:
        return History(records=tuple(self.records), compacted=0)

    async def append(self, records: Sequence[JournalRecord]) -> None:
        self.records += records


def test_kinds_are_served_again_after_a_restart() -> None:
    journal = KeptJournal()

    async def first() -> None:
        async with control_plane(journal, ExternalInputs(VirtualClock(), Ids(1), Random(1))) as plane:
            api = Api(plane)
            await api.made(CRDS, crd(version("v1", OLD)))
            await api.made(WIDGETS, widget(spec={"host": "h", "port": 1}))
            changed = crd(version("v1", {"type": "object", "properties": {"host": {"type": "string"}}}))
            assert (await api.merge(f"{CRDS}/{NAME}", {"spec": changed["spec"]})).status == 200

    async def second() -> None:
        async with control_plane(journal, ExternalInputs(VirtualClock(), Ids(2), Random(2))) as plane:
            api = Api(plane)
            assert json.loads((await api.get(f"{WIDGETS}/w")).body)["spec"] == {"host": "h"}
            assert (await api.get("/apis/example.com/v1")).status == 200
            await api.delete(f"{CRDS}/{NAME}")
            await api.merge(f"{CRDS}/{NAME}", {"metadata": {"finalizers": None}})
            assert (await api.get(WIDGETS)).status == 404

    run_virtual(first())
    run_virtual(second())
