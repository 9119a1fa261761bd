"""What `muster apply` asks of the server, and what comes of each manifest."""

import asyncio
from typing import Any

import click
import msgspec
import pytest
from tests.system.plane import World, virtual

from muster.actions.server.session import Session
from muster.api.core import CONFIG_MAP
from muster.api.core.quota import RESOURCE_QUOTA, ResourceQuota
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.api.status import ApiError
from muster.cli.actions.manifests import apply_one
from muster.cli.names.discovery import Discovery
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.runtime.client import Client
from muster.runtime.transport import Request, Response

KIND = CONFIG_MAP.seen_as(dict)


class Recording(InProcessTransport):
    """Notes the method of each request."""

    def __init__(self, world: World) -> None:
        super().__init__(world.plane.server)
        self.methods: list[str] = []

    async def request(self, request: Request) -> Response:
        self.methods.append(request.method)
        return await super().request(request)


def manifest(name: str, **data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@virtual
async def test_what_is_likely_new_is_looked_for_only_if_it_cannot_be_created(world: World) -> None:
    transport = Recording(world)
    session = Session(Client(transport), "default")

    async def outcome(likely_new: bool, **data: Any) -> tuple[str, list[str]]:
        transport.methods.clear()
        document = manifest("m", **data)
        _, verb = await apply_one(session, KIND, document, dry_run=False, is_likely_new=likely_new)
        return verb, [*transport.methods]

    assert await outcome(True, a="1") == ("created", ["POST"])
    assert await outcome(True, a="1") == ("unchanged", ["POST", "GET"])
    assert await outcome(True, a="2") == ("configured", ["POST", "GET", "PATCH"])
    assert await outcome(False, a="2") == ("unchanged", ["GET"])
    await world.client.delete(CONFIG_MAP, "m", "default")
    assert await outcome(False, a="2") == ("created", ["GET", "POST"])


@virtual
async def test_an_object_that_is_there_is_changed_where_no_other_may_be_created(world: World) -> None:
    session = Session(world.client, "default")
    await apply_one(session, KIND, manifest("m", a="1"), dry_run=False)
    limit = {"metadata": {"name": "full"}, "spec": {"hard": {"count/configmaps": "0"}}}
    await world.client.create(RESOURCE_QUOTA, msgspec.convert(limit, ResourceQuota), "default")
    await world.settle()
    _, verb = await apply_one(session, KIND, manifest("m", a="2"), dry_run=False, is_likely_new=True)
    assert verb == "configured"
    with pytest.raises(ApiError, match="exceeded quota"):
        await apply_one(session, KIND, manifest("n"), dry_run=False, is_likely_new=True)


@virtual
async def test_manifests_of_the_same_moment_read_a_group_version_once(world: World) -> None:
    transport = Recording(world)
    discovery = Discovery(Client(transport))
    kinds = await asyncio.gather(*(discovery.kind("batch/v1", "Job") for _ in range(3)))
    assert [kind.resource for kind in kinds] == ["jobs.batch"] * 3
    assert transport.methods == ["GET"]


@virtual
async def test_a_kind_that_was_defined_meanwhile_is_found(world: World) -> None:
    discovery = Discovery(world.client)
    crds = CUSTOM_RESOURCE_DEFINITION.seen_as(dict)
    for kind in ("Fruit", "Vegetable"):  # a file may define both in turn, each followed by an object
        with pytest.raises(click.ClickException, match="knows no kind"):
            await discovery.kind("food.io/v1", kind)
        names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower()}
        schema = {"openAPIV3Schema": {"type": "object"}}
        versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
        spec = {"group": "food.io", "scope": "Namespaced", "names": names, "versions": versions}
        await world.client.create(crds, {"metadata": {"name": f"{kind.lower()}s.food.io"}, "spec": spec})
        await world.settle()
        assert (await discovery.kind("food.io/v1", kind)).resource == f"{kind.lower()}s.food.io"
