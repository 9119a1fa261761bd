"""The kinds of Kueue and JobSet among the CustomResourceDefinitions of a server that has them by itself."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.system.apiserver.harness import NAMESPACES, Answer, Api, with_parameters
from tests.system.plane import running

from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.cluster.apiserver.custom import definition as compiled
from muster.cluster.apiserver.objects.bootstrap import put_definitions
from muster.cluster.apiserver.registry.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from muster.cluster.apiserver.registry.owndefinitions import encode_definitions
from muster.cluster.controlplane import control_plane
from muster.cluster.store.sqlite import SqliteJournal
from muster.install.crds import served_definitions
from muster.runtime.clock import RealClock, run_virtual
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import APPLY_PATCH

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOB_SETS = f"{DEFINITIONS}/jobsets.jobset.x-k8s.io"
OURS = encode_definitions(served_definitions())
STAYS = "by itself: only metadata of its definition can change"


def listed(*, controllers: bool = False) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Run a test that takes an `Api` first, of a server that lists its own kinds."""

    def decorated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        def run(**parameters: Any) -> None:
            async def body() -> None:
                async with running(controllers=controllers, make_definitions=served_definitions) as plane:
                    await test(Api(plane), **parameters)

            run_virtual(body())

        return with_parameters(run, test)

    return decorated


def theirs(name: str = "jobsets.jobset.x-k8s.io", **meta: Any) -> dict[str, Any]:
    """Another definition of the kind, as an older release of its project brings it."""
    group = name.partition(".")[2]
    names = OURS[name]["spec"]["names"]
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": {"controller-gen.kubebuilder.io/version": "v0.20"}, **meta},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def is_told(answer: Answer) -> bool:
    return STAYS in answer.headers.get("warning", "")


@listed()
async def test_all_of_them_are_there_and_established(api: Api) -> None:
    found = (await api.get(DEFINITIONS)).json["items"]
    assert {one["metadata"]["name"] for one in found} == set(OURS)
    for one in found:
        conditions = {each["type"]: each["status"] for each in one["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert one["status"]["acceptedNames"] == one["spec"]["names"]


@listed()
async def test_each_version_that_is_listed_is_served_as_it_says(api: Api) -> None:
    """As lightkube reads them to make its types: `load_in_cluster_generic_resources`."""
    for one in (await api.get(DEFINITIONS)).json["items"]:
        spec, names = one["spec"], one["spec"]["names"]
        for version in spec["versions"]:
            resource = api.server.registry.find(spec["group"], version["name"], names["plural"])
            assert resource is not None
            assert resource.kind.kind == names["kind"]
            assert resource.kind.namespaced == (spec["scope"] == "Namespaced")
            assert version["served"]


@pytest.mark.parametrize("name", ["jobsets.jobset.x-k8s.io", "workloads.kueue.x-k8s.io"])
@listed()
async def test_an_apply_of_the_peers_succeeds_and_leaves_the_kind_alone(api: Api, name: str) -> None:
    path = f"{DEFINITIONS}/{name}"
    # Server-side, by its manager and then by another: neither is at odds with us or the other.
    for manager in ("kubectl", "flux"):
        applied = await api.call("PATCH", path, theirs(name), type=APPLY_PATCH, fieldManager=manager)
        assert (applied.status, is_told(applied)) == (200, True), applied.body
    # Client-side: a patch, and an annotation.
    assert is_told(await api.merge(path, theirs(name, labels={"app": "kueue"})))
    stored = (await api.get(path)).json
    assert stored["spec"] == OURS[name]["spec"]
    assert stored["metadata"]["labels"] == {"app": "kueue"}
    assert "controller-gen.kubebuilder.io/version" in stored["metadata"]["annotations"]
    assert stored["metadata"]["generation"] == 1


@listed()
async def test_no_write_changes_what_a_definition_says(api: Api) -> None:
    stored = (await api.get(JOB_SETS)).json
    replaced = await api.put(JOB_SETS, stored | {"spec": stored["spec"] | {"scope": "Cluster"}})
    assert (replaced.status, is_told(replaced)) == (200, True)
    old = DEFINITIONS.replace("/v1/", "/v1beta1/")
    assert (await api.merge(f"{old}/jobsets.jobset.x-k8s.io", {"spec": {"scope": "Cluster"}})).status == 200
    assert (await api.get(JOB_SETS)).json["spec"] == OURS["jobsets.jobset.x-k8s.io"]["spec"]
    created = await api.post(DEFINITIONS, theirs())
    assert (created.status, created.json["reason"]) == (409, "AlreadyExists")


@listed()
async def test_none_of_them_is_deleted(api: Api) -> None:
    answer = await api.delete(JOB_SETS)
    assert answer.status == 403
    assert answer.message.endswith(
        "forbidden: this cluster serves the kind by itself, and its definition cannot be deleted"
    )
    assert (await api.delete(DEFINITIONS)).status == 403
    assert len((await api.get(DEFINITIONS)).names) == len(OURS)


@listed()
async def test_a_definition_of_a_user_is_no_concern_of_ours(api: Api) -> None:
    names = {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"}
    mine = theirs()
    mine |= {"metadata": {"name": "boats.x.example.com"}}
    mine["spec"] |= {"group": "x.example.com", "names": names}
    created = await api.post(DEFINITIONS, mine)
    assert (created.status, created.headers.get("warning")) == (201, None)
    assert (await api.get("/apis/x.example.com/v1alpha1/boats")).status == 200
    assert (await api.delete(f"{DEFINITIONS}/boats.x.example.com")).status in (200, 202)


@listed(controllers=True)
async def test_namespaces_and_owners_take_the_kinds_for_what_they_are(api: Api) -> None:
    generation = api.server.registry.generation
    assert generation == 0, "nothing that is served has changed"
    await api.made(NAMESPACES, {"metadata": {"name": "a"}})
    queues = "/apis/kueue.x-k8s.io/v1beta2/namespaces/a/localqueues"
    owner = await api.made(f"{NAMESPACES}/a/configmaps", {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for name, owners in (("owned", [reference]), ("free", [])):
        await api.made(queues, {"metadata": {"name": name, "ownerReferences": owners}, "spec": {"clusterQueue": "q"}})
    await api.delete(f"{NAMESPACES}/a/configmaps/owner")
    await asyncio.sleep(60)
    assert (await api.get(queues)).names == ["free"]
    await api.delete(f"{NAMESPACES}/a")
    await asyncio.sleep(60)
    assert (await api.get(f"{NAMESPACES}/a")).status == 404
    assert (await api.get(queues)).names == []
    assert api.server.registry.generation == generation


@listed()
async def test_a_start_brings_older_ones_up_to_date_and_writes_nothing_else(api: Api) -> None:
    client, revision = api.plane.client(), api.store.revision
    await put_definitions(client, OURS)
    assert api.store.revision == revision


def test_they_are_valid() -> None:
    """The server neither decodes their schemas again nor validates and compiles them."""
    for document in OURS.values():
        checked = CUSTOM_RESOURCE_DEFINITIONS.view.checker(document)
        assert (checked.value, *checked.unknown, *checked.errors) == (document,)
        assert not list(compiled.validate_create(CUSTOM_RESOURCE_DEFINITION.typed(document)))


def test_a_definition_that_a_user_installed_before_is_taken_over(tmp_path: Path) -> None:
    """It may even name versions that this server never stored anything in."""

    async def body() -> None:
        inputs = ExternalInputs(RealClock(), Ids(), Random())
        async with control_plane(SqliteJournal(tmp_path), inputs) as plane:
            await Api(plane).made(DEFINITIONS, theirs(labels={"app": "jobset"}))
        async with control_plane(SqliteJournal(tmp_path), inputs, make_definitions=served_definitions) as plane:
            stored = (await Api(plane).get(JOB_SETS)).json
        assert stored["spec"] == OURS["jobsets.jobset.x-k8s.io"]["spec"]
        assert stored["status"]["storedVersions"] == ["v1alpha2"]
        assert stored["metadata"]["labels"] == {"app": "jobset"}

    asyncio.run(body())
