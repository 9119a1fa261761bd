"""The Kueue kinds are served as their CRDs say, and their samples are accepted."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.documents import documents, needs_the_peers

from muster.api.kinds import Kind, without_nulls
from muster.api.kueue import CLUSTER_QUEUE, GROUP, MULTI_KUEUE_CLUSTER, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from muster.api.kueue.conversion import to_v1beta1
from muster.api.kueue.v1beta1 import V1BETA1_KINDS
from muster.cluster.apiserver.discovery import Discovery
from muster.cluster.apiserver.registry.builtin import BUILTIN
from muster.cluster.apiserver.registry.kueue import KUEUE
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.apiserver.tables.printers import printer_of

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


CRDS = {crd["metadata"]["name"]: crd["spec"] for _, crd in documents("crds/kueue/*.yaml")}


def served(resource: Resource) -> tuple[Any, Any]:
    crd = CRDS[resource.name]
    return crd, next(version for version in crd["versions"] if version["name"] == resource.kind.version)


@needs_the_peers
@pytest.mark.parametrize("resource", KUEUE, ids=lambda resource: f"{resource.kind.kind}-{resource.kind.version}")
def test_names_scope_and_subresources(resource: Resource) -> None:
    crd, version = served(resource)
    kind, names = resource.kind, crd["names"]
    assert (kind.group, kind.kind, kind.plural) == (crd["group"], names["kind"], names["plural"])
    assert (resource.singular, list(resource.short_names)) == (names["singular"], names["shortNames"])
    assert list(resource.categories) == names.get("categories", [])
    assert kind.namespaced == (crd["scope"] == "Namespaced")
    assert version["served"]
    assert version["storage"] == (resource.stored is kind)
    assert {sub.name for sub in resource.subresources} == set(version.get("subresources", {}))
    assert resource.deprecation == version.get("deprecationWarning", "")
    selectable = [field["jsonPath"].removeprefix(".") for field in version.get("selectableFields", ())]
    assert list(resource.fields.fields) == selectable


# What an API server gives a CRD that asks for no columns.
AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


@needs_the_peers
@pytest.mark.parametrize("resource", KUEUE, ids=lambda resource: f"{resource.kind.kind}-{resource.kind.version}")
def test_columns(resource: Resource) -> None:
    _, version = served(resource)
    name, *columns = printer_of(resource.kind).columns
    assert (name.name, name.type, name.format) == ("Name", "string", "name")
    asked = version.get("additionalPrinterColumns", [AGE])
    assert [(c.name, c.type, c.priority) for c in columns] == [
        (c["name"], c["type"], c.get("priority", 0)) for c in asked
    ]
    for column, one in zip(columns, asked, strict=True):
        assert column.description == one.get("description", column.description)


CREATED = {"name": "x", "creationTimestamp": "2026-01-02T11:00:00Z"}
CONDITION = {"status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T11:00:00Z"}
ROWS: list[tuple[Kind[Any], Any, list[Any]]] = [
    (CLUSTER_QUEUE, {}, ["x", None, "BestEffortFIFO", None, None]),
    (
        CLUSTER_QUEUE,
        {"spec": {"cohortName": "c", "queueingStrategy": "StrictFIFO"},
         "status": {"pendingWorkloads": 0, "admittedWorkloads": 2}},
        ["x", "c", "StrictFIFO", 0, 2],
    ),
    (WORKLOAD, {"spec": {"queueName": "q"}}, ["x", "q", None, None, None, "60m"]),
    (
        WORKLOAD,
        {"status": {"admission": {"clusterQueue": "cq", "podSetAssignments": []},
                    "conditions": [{"type": "Admitted", **CONDITION}, {"type": "Finished", **CONDITION}]}},
        ["x", None, "cq", "True", "True", "60m"],
    ),
    (MULTI_KUEUE_CLUSTER, {"status": {"conditions": [{"type": "Active", **CONDITION}]}}, ["x", "True", "60m"]),
    (WORKLOAD_PRIORITY_CLASS, {"value": -3}, ["x", -3]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "document", "expected"), ROWS)
def test_rows_are_the_same_in_both_versions(kind: Any, document: Any, expected: Any) -> None:
    new = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": CREATED, **document}
    for shown, body in ((kind, new), (V1BETA1_KINDS[kind.resource], to_v1beta1(kind.resource, new))):
        cells = printer_of(shown).cells(shown.decode(msgspec.json.encode(body)), NOW)
        assert cells == expected


def samples() -> list[Any]:
    return [
        pytest.param(document, id=name)
        for name, document in documents("manifests/kueue/*.yaml")
        if document.get("apiVersion", "").startswith(f"{GROUP}/")
    ]


@pytest.mark.parametrize("document", samples())
def test_samples_are_accepted(document: Any) -> None:
    version = document["apiVersion"].rpartition("/")[2]
    resource = next(r for r in KUEUE if (r.kind.version, r.kind.kind) == (version, document["kind"]))
    checked = resource.view.checker(document)
    assert (checked.unknown, checked.errors) == ((), ())
    stored = without_nulls(checked.value)
    if resource.kind.namespaced:
        stored["metadata"].setdefault("namespace", "default")
    resource.rules.default(stored)
    resource.rules.prepare_create(stored)
    typed = msgspec.convert(stored, resource.stored.type)
    assert list(resource.view.validate_create(typed)) == []
    # Nothing that the sample says is lost on the typed view.
    again = msgspec.json.decode(resource.stored.encode(typed))
    resource.rules.default(again)
    assert again.get("spec", {}) == stored.get("spec", {})


@pytest.mark.parametrize(
    "resource", [each for each in KUEUE if each.subresources], ids=lambda each: f"{each.kind.kind}-{each.kind.version}"
)
def test_a_write_of_the_status_changes_no_other_metadata(resource: Resource) -> None:
    status = resource.subresource("status")
    assert status is not None
    assert status.view is not None
    meta = {"name": "x", "labels": {"a": "1"}, "annotations": {"b": "2"}, "finalizers": ["c"]}
    written = {"metadata": {"name": "x", "labels": {"a": "other"}}, "status": {"conditions": []}}
    taken = status.view.take({"metadata": meta, "spec": {}}, written)
    assert taken == {"metadata": meta, "spec": {}, "status": {"conditions": []}}


def test_the_newest_version_is_preferred() -> None:
    answer = Discovery(BUILTIN).find(f"/apis/{GROUP}")
    assert answer is not None
    group = msgspec.json.decode(answer.body)
    assert [each["version"] for each in group["versions"]] == ["v1beta2", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1beta2"


@pytest.mark.parametrize(
    ("versions", "ordered"),
    [
        ("v1alpha1 v1beta1 v1", "v1 v1beta1 v1alpha1"),
        ("v1 v2 v10 v2beta3 v2beta12 v3beta1", "v10 v2 v1 v3beta1 v2beta12 v2beta3"),
        ("b a v1", "v1 a b"),
    ],
)
def test_order_of_versions(versions: str, ordered: str) -> None:
    kinds = [Kind("g.io", version, "Thing", "things", dict) for version in versions.split()]
    answer = Discovery([Resource(kind, kind, View(kind)) for kind in kinds]).find("/apis/g.io")
    assert answer is not None
    assert [each["version"] for each in msgspec.json.decode(answer.body)["versions"]] == ordered.split()
