"""Anything may stand in a job of another project's kind: readers take it, or name the field that is wrong."""

from datetime import UTC, datetime

import pytest

from muster.controllers.integrations.external import documents
from muster.controllers.integrations.framework import UnreadableJobError

DOCUMENT = {"a": {"list": [{"n": 1}, "x"], "text": "t", "flag": True, "none": None}}


def test_what_is_of_another_type_counts_as_absent():
    assert documents.list_at(DOCUMENT, "a", "text") == []
    assert documents.text_at(DOCUMENT, "a", "flag") == ""
    assert documents.number_at(DOCUMENT, "a", "flag") == 0
    assert documents.moment_at(DOCUMENT, "a", "text") is None
    assert documents.moment_at({"at": "2026-01-01T00:00:00Z"}, "at") == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("value", "count"), [(None, 1), (0, 0), (7, 7)])
def test_a_count_has_a_default(value, count):
    assert documents.count_at({"replicas": value}, "replicas") == count


@pytest.mark.parametrize("value", [-1, True, "2", 1.5, [], {}])
def test_a_count_that_is_none_is_told_by_its_field(value):
    with pytest.raises(UnreadableJobError, match=r"^spec\.groups\[1\]\.replicas: must be a whole number"):
        documents.count_at({"spec": {"groups": [{}, {"replicas": value}]}}, "spec", "groups", 1, "replicas")


@pytest.mark.parametrize("value", [None, [], "x", {}, {"spec": None}, {"spec": {"containers": 1}}])
def test_a_template_that_is_none_is_told_by_its_field(value):
    with pytest.raises(UnreadableJobError, match=r"^spec\.template: "):
        documents.template_at({"spec": {"template": value}}, ("spec", "template"))


def test_nulls_in_a_template_count_as_absent():
    found = documents.template_at({"t": {"metadata": {"labels": None}, "spec": {"tolerations": None}}}, ("t",))
    assert (found.metadata.labels, found.spec.tolerations) == ({}, ())


def test_a_path_is_written_for_people_and_as_a_pointer():
    path = ("spec", "groups", 0, "a/b")
    assert (documents.text_of_path(path), documents.make_pointer(path)) == ("spec.groups[0].a/b", "/spec/groups/0/a~1b")
    assert documents.patch_at(("spec", "suspend"), True) == {"spec": {"suspend": True}}


@pytest.mark.parametrize("conditions", [None, "x", ["x"], [{"type": "A", "status": "False"}], [{"type": "B"}]])
def test_no_condition_is_true_that_does_not_say_so(conditions):
    assert documents.find_true_condition({"conditions": conditions}, "A", "B") is None
