"""Whether a job that starts later starts now, waits on, or can never start."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.meta import ObjectMeta
from muster.api.ours.deferral import Deferral, parse_dependencies
from muster.jobs.deferral import GRACE, NEVER_SATISFIED, DependencyState, decide, find_circle, make_release

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
LATER = CREATED + GRACE
ABSENT, GOES_ON, COMPLETED, FAILED = DependencyState
QUEUE = "kueue.x-k8s.io/queue-name"
GATED = "kueue.x-k8s.io/admission-gated-by"


def plan(after="", standings=(), met=(), begin=None, now=LATER, circle=()):
    deferral = Deferral(begin, parse_dependencies(after) if after else ())
    return decide(deferral, frozenset(met), dict(standings), circle, created=CREATED, now=now)


@pytest.mark.parametrize(
    ("after", "standing", "never"),
    [
        ("a:ok", COMPLETED, None),
        ("a:ok", FAILED, "it waits for a to complete, and a failed"),
        ("a:ok", ABSENT, "it waits for a to complete, and there is no job a"),
        ("a:fail", COMPLETED, "it waits for a to fail, and a completed"),
        ("a:fail", FAILED, None),
        ("a:fail", ABSENT, "it waits for a to fail, and there is no job a"),
        ("a:any", COMPLETED, None),
        ("a:any", FAILED, None),
        ("a:any", ABSENT, None),
    ],
)
def test_an_end_starts_the_job_or_ends_it(after, standing, never):
    decision = plan(after, {"a": standing})
    assert decision.release is (never is None)
    told = (decision.verdict.reason, decision.verdict.message) if decision.verdict else None
    assert told == ((NEVER_SATISFIED, never) if never else None)


def test_a_job_that_goes_on_is_waited_for():
    decision = plan("a,b:any", {"a": GOES_ON, "b": FAILED})
    assert (decision.release, decision.verdict, decision.wake_at) == (False, None, None)
    assert decision.met == {"b"}


def test_what_was_met_stays_met():
    assert plan("a,b", {"b": COMPLETED}, met="a").release


def test_one_dependency_in_vain_decides_before_the_others_have_ended():
    assert plan("a,b", {"a": GOES_ON, "b": FAILED}).verdict is not None


@pytest.mark.parametrize("outcome", ["ok", "fail", "any"])
def test_a_missing_job_may_come_for_a_while(outcome):
    decision = plan(f"a:{outcome}", {"a": ABSENT}, now=LATER - timedelta(seconds=1))
    assert (decision.release, decision.verdict, decision.wake_at) == (False, None, LATER)


def test_the_job_begins_at_its_time_and_not_before():
    begin = LATER + timedelta(hours=1)
    waiting = plan("a", {"a": COMPLETED}, begin=begin)
    assert (waiting.release, waiting.wake_at, waiting.met) == (False, begin, {"a"})
    assert plan("a", {"a": COMPLETED}, begin=begin, now=begin).release
    assert plan(begin=begin, now=begin).release
    assert plan("a", {"a": FAILED}, begin=begin).verdict is not None
    assert plan("a", {"a": GOES_ON}, begin=begin, now=begin).wake_at is None


def test_a_job_without_conditions_starts():
    assert plan().release


def test_a_circle_never_starts():
    verdict = plan("b", {"b": GOES_ON}, circle=("a", "b", "a")).verdict
    assert verdict is not None
    assert verdict.message == "the jobs wait for each other: a -> b -> a"


@pytest.mark.parametrize(
    ("edges", "circle"),
    [
        ({}, ()),
        ({"a": ["a"]}, ("a", "a")),
        ({"a": ["b"], "b": ["a"]}, ("a", "b", "a")),
        ({"a": ["x", "b"], "b": ["y", "c"], "c": ["a"]}, ("a", "b", "c", "a")),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, ()),  # one of others
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"]}, ()),
    ],
)
def test_circles_are_seen(edges, circle):
    assert find_circle("a", lambda name: [one for one, awaited in edges.items() if name in awaited]) == circle


def test_a_job_without_a_queue_is_resumed():
    meta, opened = ObjectMeta(annotations={GATED: "muster.dev/deferral"}), {"metadata": {"annotations": {GATED: None}}}
    assert make_release(meta, queues=True) == opened
    assert make_release(meta, queues=False) == opened | {"spec": {"suspend": False}}
