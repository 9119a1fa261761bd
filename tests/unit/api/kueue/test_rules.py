"""Laws of the rules, over objects made at random from their schemas."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.defaults import DEFAULTS
from muster.api.kinds import Kind
from muster.api.kueue import KUEUE_KINDS
from muster.api.validation.kueue import VALIDATIONS

Documents = Callable[[Kind[Any]], st.SearchStrategy[dict[str, Any]]]


def typed(kind: Kind[Any], document: dict[str, Any]) -> Any:
    if kind.namespaced:
        document["metadata"]["namespace"] = "n"
    DEFAULTS[kind.resource](document)
    return msgspec.convert(document, kind.type)


def test_every_kind_has_rules() -> None:
    assert set(VALIDATIONS) == {kind.resource for kind in KUEUE_KINDS}


@pytest.mark.parametrize("kind", KUEUE_KINDS, ids=lambda kind: kind.kind)
@given(data=st.data())
def test_what_may_be_made_may_stay_as_it_is(kind: Kind[Any], documents_of: Documents, data: st.DataObject) -> None:
    document = data.draw(documents_of(kind))
    document.pop("status", None)
    obj, rules = typed(kind, document), VALIDATIONS[kind.resource]
    assert not rules.status(obj, obj)
    assert not rules.update(obj, obj) or rules.create(obj)


@pytest.mark.parametrize("kind", KUEUE_KINDS, ids=lambda kind: kind.kind)
@given(data=st.data())
def test_any_change_is_judged(kind: Kind[Any], documents_of: Documents, data: st.DataObject) -> None:
    """Whatever the schema accepts, the rules answer; every answer has a path and a sentence."""
    old, new = (typed(kind, data.draw(documents_of(kind))) for _ in range(2))
    rules = VALIDATIONS[kind.resource]
    for errors in (rules.create(new), rules.update(new, old), rules.status(new, old)):
        assert all(error.path and str(error) for error in errors)
