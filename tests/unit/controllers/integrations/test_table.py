"""A kind that comes with the engine is known in all the places that have to know it."""

import pytest

from muster.api.config import EMBEDDED
from muster.api.config.frameworks import BUILT_IN, FRAMEWORKS
from muster.cluster.apiserver.registry.builtin import builtin
from muster.cluster.apiserver.registry.resources import Registry
from muster.controllers.integrations.table import INTEGRATIONS, chosen


@pytest.mark.parametrize("one", INTEGRATIONS, ids=lambda one: one.name)
def test_a_built_in_kind_is_named_served_and_on(one):
    assert FRAMEWORKS[one.name] == (one.kind.group, one.kind.version, one.kind.kind)
    assert one.name in BUILT_IN
    assert one in chosen(INTEGRATIONS, EMBEDDED)
    served = Registry(builtin(lambda new, old: False)).of_kind(one.kind.api_version, one.kind.kind)
    assert served is not None
    assert served.kind.type is one.kind.type


def test_nothing_is_on_that_has_no_integration():
    assert set(BUILT_IN) == {one.name for one in INTEGRATIONS} | {"pod"}  # pods have a controller of their own


def test_a_kind_stands_before_those_whose_jobs_it_makes():
    names = [one.name for one in INTEGRATIONS]
    for one in INTEGRATIONS:
        assert all(names.index(part.name) > names.index(one.name) for part in one.parts)
