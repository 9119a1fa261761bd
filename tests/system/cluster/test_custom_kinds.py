"""What a cluster does about kinds that users bring: collection, namespaces, and the end of a definition."""

from typing import Any

from tests.system.apiserver.test_custom_resources import conditions, crd, version, widget
from tests.system.plane import virtual

from muster.api.core import CONFIG_MAP, NAMESPACE, Namespace
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta

WIDGET = Kind("example.com", "v1", "Widget", "widgets", dict)
DEFINITION = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", dict, namespaced=False
)
NAME = "widgets.example.com"


def owned(name: str, owner: Any, kind: str, api_version: str) -> dict[str, Any]:
    reference = {"apiVersion": api_version, "kind": kind, "name": owner["name"], "uid": owner["uid"]}
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


async def exists(world: Any, kind: Kind[Any], name: str, namespace: str = "default") -> bool:
    objects = (await world.client.list(kind, namespace if kind.namespaced else "")).items
    return name in [obj["metadata"]["name"] if isinstance(obj, dict) else obj.metadata.name for obj in objects]


@virtual
async def test_custom_resources_own_and_are_owned(world):
    await world.client.create(DEFINITION, crd())
    parent = await world.client.create(WIDGET, widget("parent"), "default")
    child = await world.client.create(WIDGET, owned("child", parent["metadata"], "Widget", "example.com/v1"), "default")
    leaf = owned("leaf", child["metadata"], "Widget", "example.com/v1")
    await world.client.create(CONFIG_MAP.seen_as(dict), leaf, "default")
    await world.client.delete(WIDGET, "parent", "default")
    await world.settle()
    assert not await exists(world, WIDGET, "child")
    assert not await exists(world, CONFIG_MAP, "leaf")


@virtual
async def test_a_namespace_takes_its_custom_resources_with_it(world):
    await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="n")))
    await world.client.create(DEFINITION, crd())
    await world.client.create(WIDGET, widget(), "n")
    await world.client.delete(NAMESPACE, "n")
    await world.settle(20)
    assert not await exists(world, NAMESPACE, "n")
    assert (await world.client.list(WIDGET)).items == []


@virtual
async def test_a_definition_takes_its_objects_with_it(world):
    await world.client.create(DEFINITION, crd())
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await world.client.create(WIDGET, held, "default")
    parent = await world.client.create(WIDGET, widget(), "default")
    await world.client.create(
        CONFIG_MAP.seen_as(dict), owned("leaf", parent["metadata"], "Widget", "example.com/v1"), "default"
    )
    await world.client.delete(DEFINITION, NAME)
    await world.settle(20)
    going = await world.client.get(DEFINITION, NAME)
    assert conditions(going)["Terminating"].startswith("True")
    assert not await exists(world, WIDGET, "w")
    await world.client.patch(WIDGET, "held", {"metadata": {"finalizers": None}}, "default")
    await world.settle(20)
    assert not await exists(world, DEFINITION, NAME)
    assert not await exists(world, CONFIG_MAP, "leaf")
    # The same again, with nothing left of what was.
    await world.client.create(DEFINITION, crd())
    assert (await world.client.list(WIDGET)).items == []
    await world.client.create(WIDGET, widget(), "default")


@virtual
async def test_a_definition_takes_its_objects_with_it_though_no_version_is_served(world):
    await world.client.create(DEFINITION, crd())
    await world.client.create(WIDGET, widget(), "default")
    version_unserved = version() | {"served": False}
    await world.client.patch(DEFINITION, NAME, {"spec": {"versions": [version_unserved]}})
    await world.settle(20)
    await world.client.delete(DEFINITION, NAME)
    await world.settle(20)
    await world.client.create(DEFINITION, crd())
    assert (await world.client.list(WIDGET)).items == []


@virtual
async def test_names_go_to_who_waits_for_them(world):
    await world.client.create(DEFINITION, crd(names={"shortNames": ["wd"]}))
    await world.client.create(DEFINITION, crd(names={"plural": "gadgets", "kind": "Gadget", "shortNames": ["wd"]}))
    rival = await world.client.get(DEFINITION, "gadgets.example.com")
    assert conditions(rival)["NamesAccepted"] == "False ShortNamesConflict"
    await world.client.delete(DEFINITION, NAME)
    await world.settle(20)
    rival = await world.client.get(DEFINITION, "gadgets.example.com")
    assert conditions(rival) == {"NamesAccepted": "True NoConflicts", "Established": "True InitialNamesAccepted"}


@virtual
async def test_what_is_built_in_outlives_its_definition(world):
    names = {"plural": "topologies", "kind": "Topology"}
    definition = crd(version("v1beta2", storage=True), names=names, scope="Cluster", group="kueue.x-k8s.io")
    definition["metadata"] = {"name": "topologies.kueue.x-k8s.io"}
    definition["spec"]["versions"][0]["storage"] = True
    made = await world.client.create(DEFINITION, definition)
    assert conditions(made)["Established"].startswith("True")
    topology = Kind("kueue.x-k8s.io", "v1beta2", "Topology", "topologies", dict, namespaced=False)
    await world.client.create(topology, {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "rack"}]}})
    await world.client.delete(DEFINITION, "topologies.kueue.x-k8s.io")
    await world.settle(20)
    assert not await exists(world, DEFINITION, "topologies.kueue.x-k8s.io")
    assert await exists(world, topology, "t")


@virtual
async def test_an_idle_cluster_with_custom_kinds_writes_nothing(world):
    await world.client.create(DEFINITION, crd())
    await world.client.create(WIDGET, widget(), "default")
    await world.client.create(DEFINITION, crd(names={"plural": "rivals"}))  # of the same kind: it gets no names
    await world.settle(30)
    before = world.plane.store.revision
    await world.settle(60)
    assert world.plane.store.revision - before < 20
