"""The annotations of a job that starts later."""

from datetime import UTC, datetime

import pytest

from muster.api.ours.deferral import (
    MOST_DEPENDENCIES,
    Deferral,
    Dependency,
    Outcome,
    is_deferred,
    make_annotations,
    parse_deferral,
    parse_dependencies,
    parse_met,
    remove_gate,
)

GATED = "kueue.x-k8s.io/admission-gated-by"
SIX = datetime(2026, 1, 31, 18, tzinfo=UTC)


def test_dependencies_are_read_each_once():
    assert parse_dependencies("prep, fetch:any,old:fail,prep:ok") == (
        Dependency("prep", Outcome.OK),
        Dependency("fetch", Outcome.ANY),
        Dependency("old", Outcome.FAIL),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'' names no job: expected JOB[:ok|:fail|:any], several with commas"),
        ("a,,b", "'a,,b' names no job: expected JOB[:ok|:fail|:any], several with commas"),
        (":ok", "':ok' names no job: expected JOB[:ok|:fail|:any], several with commas"),
        ("a:done", "'a:done': a job is waited for as a:ok, a:fail or a:any"),
        ("a:", "'a:': a job is waited for as a:ok, a:fail or a:any"),
        ("a:ok:any", "'a:ok:any': a job is waited for as a:ok, a:fail or a:any"),
        ("a,a:fail", "a cannot end both ways: a:ok and a:fail"),
        (",".join(f"j{n}" for n in range(101)), f"101 jobs to wait for are more than {MOST_DEPENDENCIES}"),
    ],
)
def test_what_is_no_dependency_is_refused(text, complaint):
    with pytest.raises(ValueError) as refused:
        parse_dependencies(text)
    assert str(refused.value) == complaint


def test_annotations_say_what_was_meant():
    deferral = Deferral(SIX, (Dependency("a"), Dependency("b", Outcome.ANY)))
    annotations = make_annotations(deferral)
    assert annotations == {
        "muster.dev/begin-at": "2026-01-31T18:00:00Z",
        "muster.dev/after": "a:ok,b:any",
        GATED: "muster.dev/deferral",
    }
    assert parse_deferral(annotations) == deferral
    assert is_deferred(annotations)
    assert make_annotations(Deferral()) == {}
    assert parse_deferral({}) == Deferral()
    assert not is_deferred({})


@pytest.mark.parametrize("text", ["", "18:00", "2026-01-31T18:00:00", "soon"])
def test_a_moment_needs_a_zone(text):
    with pytest.raises(ValueError, match="is no time such as 2026-01-31T18:00:00Z"):
        parse_deferral({"muster.dev/begin-at": text})


def test_our_gate_is_removed_and_no_other():
    assert remove_gate({GATED: "a.io/a, muster.dev/deferral,b.io/b"}) == {GATED: "a.io/a,b.io/b"}
    assert remove_gate({GATED: "muster.dev/deferral"}) == {GATED: None}
    assert not is_deferred({GATED: "a.io/a"})


def test_met_dependencies_are_names():
    assert parse_met({"muster.dev/after-met": "a,b"}) == {"a", "b"}
    assert parse_met({}) == parse_met({"muster.dev/after-met": ""}) == frozenset()
