"""JobSets are served as their definition says."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.documents import documents, needs_the_peers

from muster.api.jobset import JOB_SET
from muster.cluster.apiserver.registry.jobset import JOB_SETS
from muster.cluster.apiserver.tables.printers import printer_of

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
CRDS = {crd["metadata"]["name"]: crd["spec"] for _, crd in documents("crds/jobset/*.yaml")}


@needs_the_peers
def test_names_scope_subresources_and_columns() -> None:
    spec = CRDS[JOB_SETS.name]
    (version,) = spec["versions"]
    kind, names = JOB_SETS.kind, spec["names"]
    assert (kind.group, kind.version, kind.kind) == (spec["group"], version["name"], names["kind"])
    assert (JOB_SETS.singular, JOB_SETS.kind_of_lists) == (names["singular"], names["listKind"])
    assert list(JOB_SETS.short_names) == names.get("shortNames", [])
    assert kind.namespaced == (spec["scope"] == "Namespaced")
    assert {sub.name for sub in JOB_SETS.subresources} == {*version["subresources"], "log"}, "which is ours"
    name, *columns = printer_of(kind).columns
    assert (name.name, name.format) == ("Name", "name")
    asked = version["additionalPrinterColumns"]
    assert [(column.name, column.type) for column in columns] == [(one["name"], one["type"]) for one in asked]
    for column, one in zip(columns, asked, strict=True):
        assert column.description == one.get("description", column.description)


def test_a_write_of_the_status_changes_no_other_metadata() -> None:
    status = JOB_SETS.subresource("status")
    assert status is not None
    assert status.view is not None
    meta = {"name": "x", "labels": {"a": "1"}, "annotations": {"b": "2"}, "finalizers": ["c"]}
    written = {"metadata": {"name": "x", "labels": {"a": "other"}}, "status": {"restarts": 1}}
    assert status.view.take({"metadata": meta}, written) == {"metadata": meta, "status": {"restarts": 1}}


@pytest.mark.parametrize(
    ("document", "cells"),
    [
        ({}, [None, "0", None, None]),
        ({"spec": {"suspend": False}}, [None, "0", None, "false"]),
        (
            {
                "spec": {"suspend": True},
                "status": {
                    "terminalState": "Completed",
                    "restarts": 2,
                    "conditions": [{"type": "Completed", "status": "True"}],
                },
            },
            ["Completed", "2", "True", "true"],
        ),
    ],
)
def test_rows(document: Any, cells: list[Any]) -> None:
    created = {"name": "x", "creationTimestamp": "2026-01-02T11:00:00Z"}
    assert printer_of(JOB_SET).cells(JOB_SET.typed({"metadata": created, **document}), NOW) == ["x", *cells, "60m"]
