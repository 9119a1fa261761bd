"""Selectors against headers."""

import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.request.selection import NO_FIELDS, FieldLabels, parse_selection
from muster.cluster.store import Change, Entry, Header, Key

LABELS = FieldLabels({"spec.nodeName": "spec.nodeName", "spec.host": "spec.nodeName"})


def entry(name="a", node="", revision=1, **labels):
    return Entry(Key("pods", "ns", name), revision, b"{}", Header(labels=labels, fields={"spec.nodeName": node}))


@pytest.mark.parametrize(
    ("labels", "fields", "matches"),
    [
        ("", "", True),
        ("x=1", "", True),
        ("x=2", "", False),
        ("", "metadata.name=a", True),
        ("", "metadata.name=b", False),
        ("", "metadata.namespace!=ns", False),
        ("", "spec.host=n", True),
        ("", "spec.nodeName!=n", False),
        ("x=1", "spec.nodeName=n,metadata.name=a", True),
    ],
)
def test_matches(labels, fields, matches):
    assert parse_selection(labels, fields, LABELS).matches(entry(node="n", x="1")) is matches


def test_one_name_is_known_beforehand():
    assert parse_selection("", "metadata.name=a", NO_FIELDS).name == "a"
    assert parse_selection("", "metadata.name!=a", NO_FIELDS).name is None
    assert not parse_selection("", "", NO_FIELDS)


@pytest.mark.parametrize(("labels", "fields"), [("", "a=b"), ("", "a"), ("a in", ""), ("", "spec.nodeName=\\x")])
def test_refusals(labels, fields):
    with pytest.raises(ApiError) as error:
        parse_selection(labels, fields, LABELS)
    assert error.value.code == 400


IN, OUT = {"x": "1"}, {"x": "2"}


@pytest.mark.parametrize(
    ("type_", "before", "after", "seen"),
    [
        ("ADDED", None, IN, "ADDED"),
        ("ADDED", None, OUT, None),
        ("MODIFIED", IN, IN, "MODIFIED"),
        ("MODIFIED", OUT, IN, "ADDED"),
        ("MODIFIED", IN, OUT, "DELETED"),
        ("MODIFIED", OUT, OUT, None),
        ("DELETED", IN, IN, "DELETED"),
        ("DELETED", OUT, OUT, None),
        ("DELETED", OUT, IN, None),
        ("DELETED", IN, OUT, "DELETED"),
    ],
)
def test_changes_as_the_selection_sees_them(type_, before, after, seen):
    previous = None if before is None else entry(**before)
    change = Change(type_, entry(revision=2, **after), previous)
    assert parse_selection("x=1", "", LABELS).change(change) == seen
