"""The items of a list by what they are told apart by."""

from muster.api.core import POD
from muster.cluster.apiserver.fields import FieldSchema


def test_equal_items_are_together_in_order():
    containers = FieldSchema.of_kind(POD).member("spec").member("containers")
    assert containers.element is not None
    env = containers.element.member("env")
    items = [{"name": name, "value": str(number)} for number, name in enumerate("abacab")]
    found = env.items_of(items)
    assert found is not None
    assert found == {
        'k:{"name":"a"}': (items[0], items[2], items[4]),
        'k:{"name":"b"}': (items[1], items[5]),
        'k:{"name":"c"}': items[3],
    }
    assert list(found) == ['k:{"name":"a"}', 'k:{"name":"b"}', 'k:{"name":"c"}']


def test_a_schema_compiles_the_members_that_documents_have():
    schema = FieldSchema.of_kind(POD)
    spec = schema.member("spec")
    assert spec.member("containers").shape == "items"
    assert spec.member("other").open
    assert (dict(schema.fields), dict(spec.fields)) == (
        {"spec": spec},
        {"containers": spec.member("containers")},
    )
