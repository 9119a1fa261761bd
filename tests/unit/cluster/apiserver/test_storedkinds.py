"""The data of the kinds that are only stored."""

from muster.api.published import component_of_kind
from muster.api.schema import make_inlined_schema
from muster.cluster.apiserver.registry.storedkinds import ALPHA, STORED_KINDS
from muster.cluster.apiserver.storedkinds import read_stored_kinds
from muster.cluster.apiserver.tables.storedkinds import printer_of


def test_each_kind_is_one_that_kubernetes_publishes() -> None:
    kinds = [served.kind for served in (*STORED_KINDS, *ALPHA)]
    assert {kind.resource for kind in kinds} == {name for name, stored in read_stored_kinds().items() if stored.kind}
    for kind in kinds:
        assert component_of_kind(kind.group, kind.version, kind.kind), kind.resource


def test_each_entry_with_columns_has_a_printer() -> None:
    for name, stored in read_stored_kinds().items():
        printer = printer_of(name)
        shown = [] if printer is None else [column.name for column in printer.columns]
        assert shown == [column if isinstance(column, str) else column.name for column in stored.columns], name
        assert all(column.description for column in printer.columns) if printer else True, name


def test_a_status_that_new_objects_get_is_one_of_the_schema() -> None:
    served = {each.kind.resource: each for each in (*STORED_KINDS, *ALPHA)}
    for name, stored in read_stored_kinds().items():
        if stored.new_status:
            status = make_inlined_schema(served[name].kind)["properties"]["status"]["properties"]
            assert stored.new_status.keys() <= status.keys(), name


def test_kinds_without_types_of_ours_are_served_by_their_entry_alone() -> None:
    [node] = [each for each in STORED_KINDS if each.kind.kind == "CSINode"]
    assert (node.kind.api_version, node.kind.plural, node.kind.namespaced) == ("storage.k8s.io/v1", "csinodes", False)
    assert node.subresources == ()
    assert node.rules.returns_deleted
    assert not node.rules.unconditional_update
    assert "drivers" in make_inlined_schema(node.kind)["properties"]["spec"]["properties"]
