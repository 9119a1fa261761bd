"""PodGroups are served as their definitions say."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.documents import documents, needs_the_peers

from muster.api.podgroups import coscheduling, kep, volcano
from muster.cluster.apiserver.registry.podgroups import POD_GROUPS
from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.apiserver.tables.printers import printer_of

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
CRDS = {crd["metadata"]["name"]: crd["spec"] for _, crd in documents("crds/podgroup/*.yaml")}
THEIRS = [resource for resource in POD_GROUPS if resource.kind is not kep.POD_GROUP]

# What an API server gives a CRD that asks for no columns.
AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def defined(resource: Resource) -> tuple[Any, Any]:
    """The definition, and what it says of the version, in the old form of definitions too."""
    spec = CRDS[resource.name]
    versions = spec.get("versions") or [spec | {"name": spec["version"]}]
    return spec, next(version for version in versions if version["name"] == resource.kind.version)


@needs_the_peers
@pytest.mark.parametrize("resource", THEIRS, ids=lambda resource: resource.kind.group)
def test_names_scope_and_subresources(resource: Resource) -> None:
    spec, version = defined(resource)
    kind, names = resource.kind, spec["names"]
    assert (kind.group, kind.kind, kind.plural) == (spec["group"], names["kind"], names["plural"])
    assert resource.singular == names.get("singular", "podgroup")
    assert list(resource.short_names) == names.get("shortNames", [])
    assert kind.namespaced == (spec["scope"] == "Namespaced")
    assert {sub.name for sub in resource.subresources} == set(version.get("subresources") or {})


@needs_the_peers
@pytest.mark.parametrize("resource", THEIRS, ids=lambda resource: resource.kind.group)
def test_columns(resource: Resource) -> None:
    _, version = defined(resource)
    name, *columns = printer_of(resource.kind).columns
    assert (name.name, name.type, name.format) == ("Name", "string", "name")
    asked = version.get("additionalPrinterColumns", [AGE])
    assert [(c.name, c.type, c.priority) for c in columns] == [
        (c["name"], c["type"], c.get("priority", 0)) for c in asked
    ]
    for column, one in zip(columns, asked, strict=True):
        assert column.description.split() == one.get("description", column.description).split()


@pytest.mark.parametrize(
    ("kind", "document", "cells"),
    [
        (kep.POD_GROUP, {"spec": {"minMembers": 3}}, ["x", 3, 0, 0, 0, 0, "60m"]),
        (
            kep.POD_GROUP,
            {"spec": {"minMember": 3}, "status": {"admitted": 4, "running": 2, "succeeded": 1, "failed": 5}},
            ["x", 3, 4, 2, 1, 5, "60m"],
        ),
        (volcano.POD_GROUP, {"spec": {"queue": "q"}}, ["x", None, None, None, "60m", "q"]),
        (
            volcano.POD_GROUP,
            {"spec": {"minMember": 3, "queue": "q"}, "status": {"phase": "Running", "running": 3}},
            ["x", "Running", 3, 3, "60m", "q"],
        ),
        (coscheduling.POD_GROUP, {"spec": {"minMember": 3}}, ["x", None, 3, None, None, None, "60m"]),
    ],
)
def test_rows(kind: Any, document: Any, cells: list[Any]) -> None:
    created = {"name": "x", "creationTimestamp": "2026-01-02T11:00:00Z"}
    assert printer_of(kind).cells(kind.typed({"metadata": created, **document}), NOW) == cells


@pytest.mark.parametrize("resource", POD_GROUPS, ids=lambda resource: resource.kind.group)
def test_the_status_is_judged_where_it_is_written(resource: Resource) -> None:
    wrong = {"metadata": {"name": "x"}, "status": {"running": "three"}}
    status = resource.subresource("status")
    written_through = resource.view if status is None else status.view
    assert written_through is not None
    assert [error.path for error in written_through.checker(wrong).errors] == ["status.running"]
    if status is not None:
        assert resource.view.checker(wrong).errors == ()
