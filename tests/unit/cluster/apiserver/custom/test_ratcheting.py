"""Errors that a change has nothing to do with."""

import pytest

from muster.api.status import INVALID, FieldError
from muster.cluster.apiserver.custom.ratcheting import remove_old_errors

OLD = {"spec": {"a": 1, "b": {"c": 1}, "list": [{"x": 1}], "map": {"k.l": 1}}}


@pytest.mark.parametrize(
    ("change", "path", "kept"),
    [
        ({"a": 1}, "spec.a", False),
        ({"a": 2}, "spec.a", True),
        ({"b": {"c": 1}, "a": 2}, "spec.b.c", False),
        ({"b": {"c": 1}, "a": 2}, "spec.b.missing", False),
        ({"b": {"c": 2}}, "spec.b.missing", True),
        ({"a": 2}, "spec.list[0].x", False),
        ({"a": True}, "spec.a", True),
        ({"list": [{"x": 2}, {"x": 1}]}, "spec.list[0].x", True),
        ({"list": [{"x": 2}, {"x": 1}]}, "spec.list[1].x", False),
        ({"list": [{"x": 1}, {"x": 2}]}, "spec.list", True),
        ({"a": 2}, "spec.map.k.l", False),
        ({"new": 1}, "spec.new", True),
    ],
)
def test_what_is_kept(change, path, kept):
    error = FieldError(path, INVALID, 0, "is wrong")
    new = {"spec": OLD["spec"] | change}
    assert remove_old_errors([error], new, OLD) == ([error] if kept else [])


def test_an_error_whose_path_does_not_say_where_it_is():
    error = FieldError("<nil>", INVALID, "", '"spec.a" must not validate the schema (not)', place="spec.a")
    assert remove_old_errors([error], {"spec": OLD["spec"] | {"b": {}}}, OLD) == []
    assert remove_old_errors([error], {"spec": OLD["spec"] | {"a": 2}}, OLD) == [error]
