"""Tests of estimated starts and their certainty: tables in the language of `admission_worlds`.

`running` workloads are admitted at the beginning, in their order, before the others arrive. `runs` is the run time of
each workload in seconds: `<60` is a time limit, other numbers are the run times of the workloads before it.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.queueing import admission_worlds as aw
from tests.unit.queueing.worlds import START

from muster.queueing.scheduling.cycle import AdmissionSettings, run
from muster.queueing.scheduling.estimate import (
    MOST_ENDS,
    Certainty,
    RunTime,
    StartEstimate,
    StartForecast,
    estimate_rest,
)

ONE = {"q": "cpu=4"}
COHORT = {"mine": "in=all cpu=4 reclaim=any", "theirs": "in=all cpu=4"}


def run_time(text: str) -> RunTime:
    """Return the run time of `<LIMIT ~EXPECTED RECENT RECENT`, in seconds."""
    limit, expected, recent = None, None, []
    for word in text.split():
        if word.startswith("<"):
            limit = timedelta(seconds=int(word[1:]))
        elif word.startswith("~"):
            expected = timedelta(seconds=int(word[1:]))
        else:
            recent.append(timedelta(seconds=int(word)))
    return RunTime(limit, tuple(recent), expected)


def estimate_case(
    case: dict[str, Any], *, later: int = 0, until: dict[str, int] | None = None, name: str = "me"
) -> StartEstimate:
    return estimate_names(case, [name], later=later, until=until)[f"ns/{name}"]


def estimate_names(
    case: dict[str, Any], names: Iterable[str], *, later: int = 0, until: dict[str, int] | None = None
) -> dict[str, StartEstimate]:
    tree = aw.tree(case)
    queues = aw.queues((node.policy for node in tree.queues.values()), case.get("running", {}))
    assert len(run(tree, queues, aw.FLAVORS, AdmissionSettings(), START).admitted) == len(case.get("running", {}))
    for name, text in case["waiting"].items():
        at = (until or {}).get(name)
        queues.add(aw.workload(name, text), until=START + timedelta(seconds=at) if at is not None else None)
    runs = {f"ns/{name}": run_time(text) for name, text in case.get("runs", {}).items()}
    keys, now = [f"ns/{name}" for name in names], START + timedelta(seconds=later)
    return StartForecast(tree, queues, aw.FLAVORS, runs, now, AdmissionSettings(), names={}).estimate(keys)


CASES = {
    "room": ({"queues": ONE, "waiting": {"me": "q | cpu=4"}}, 0, "sure", "there is room for it"),
    "behind one with a limit": (
        {"queues": ONE, "running": {"a": "q | cpu=4"}, "waiting": {"me": "q | cpu=1"}, "runs": {"a": "<60"}},
        60,
        "sure",
        "ns/a ends then, by its time limit",
    ),
    "behind two with limits, both of which it needs": (
        {
            "queues": ONE,
            "running": {"a": "q | cpu=2", "b": "q | cpu=2"},
            "waiting": {"me": "q | cpu=4"},
            "runs": {"a": "<60", "b": "<90"},
        },
        90,
        "sure",
        "ns/b ends then",
    ),
    "behind one that others were like": (
        {"queues": ONE, "running": {"a": "q | cpu=4"}, "waiting": {"me": "q | cpu=1"}, "runs": {"a": "50 60 70"}},
        60,
        "likely",
        "ns/a ends then, as those before it",
    ),
    "behind one of which little is known": (
        {"queues": ONE, "running": {"a": "q | cpu=4"}, "waiting": {"me": "q | cpu=1"}, "runs": {"a": "60"}},
        60,
        "a guess",
        "as those before it",
    ),
    "run times that differ widely": (
        {"queues": ONE, "running": {"a": "q | cpu=4"}, "waiting": {"me": "q | cpu=1"}, "runs": {"a": "5 60 70"}},
        60,
        "a guess",
        "as those before it",
    ),
    "a limit before the usual time": (
        {"queues": ONE, "running": {"a": "q | cpu=4"}, "waiting": {"me": "q | cpu=1"}, "runs": {"a": "<30 60 60 60"}},
        30,
        "sure",
        "by its time limit",
    ),
    "usually long before its limit": (
        {"queues": ONE, "running": {"a": "q | cpu=4"}, "waiting": {"me": "q | cpu=1"}, "runs": {"a": "<600 60 60 60"}},
        60,
        "likely",
        "as those before it",
    ),
    "its user knows": (
        {
            "queues": ONE,
            "running": {"a": "q | cpu=4"},
            "waiting": {"me": "q | cpu=1"},
            "runs": {"a": "<600 ~40 60 60 60"},
        },
        40,
        "likely",
        "as its user expects",
    ),
    "its user was wrong": (
        {"queues": ONE, "running": {"a": "q | cpu=4"}, "waiting": {"me": "q | cpu=1"}, "runs": {"a": "<600 ~0"}},
        600,
        "sure",
        "by its time limit",
    ),
    "nothing says when": (
        {"queues": ONE, "running": {"a": "q | cpu=4"}, "waiting": {"me": "q | cpu=1"}},
        None,
        "cannot say",
        "nothing says when ns/a ends",
    ),
    "one of two says nothing, and it needs both": (
        {
            "queues": ONE,
            "running": {"a": "q | cpu=2", "b": "q | cpu=2"},
            "waiting": {"me": "q | cpu=4"},
            "runs": {"a": "<60"},
        },
        None,
        "cannot say",
        "nothing says when ns/b ends",
    ),
    "one of two says nothing, and it needs only the other": (
        {
            "queues": ONE,
            "running": {"a": "q | cpu=2", "b": "q | cpu=2"},
            "waiting": {"me": "q | cpu=2"},
            "runs": {"a": "<60"},
        },
        60,
        "sure",
        "ns/a ends then",
    ),
    "many of which nothing is known": (
        {
            "queues": ONE,
            "running": dict.fromkeys("abcd", "q | cpu=1"),
            "waiting": {"me": "q | cpu=2"},
        },
        None,
        "cannot say",
        "nothing says when ns/a, ns/b, ns/c and 1 more end",
    ),
    "more than there ever is": (
        {"queues": ONE, "waiting": {"me": "q | cpu=5"}},
        None,
        "cannot say",
        "it does not fit even if nothing else runs: couldn't assign flavors to pod set main",
    ),
    "behind one that waits": (
        {
            "queues": ONE,
            "running": {"a": "q | cpu=4"},
            "waiting": {"b": "q at=1 | cpu=4", "me": "q at=2 | cpu=4"},
            "runs": {"a": "<60", "b": "<100"},
        },
        160,
        "likely",
        "ns/b ends then",
    ),
    "behind one that waits and never ends": (
        {
            "queues": ONE,
            "running": {"a": "q | cpu=4"},
            "waiting": {"b": "q at=1 | cpu=4", "me": "q at=2 | cpu=4"},
            "runs": {"a": "<60"},
        },
        None,
        "cannot say",
        "nothing says when ns/b ends",
    ),
    "past one that is too large for now": (
        {
            "queues": ONE,
            "running": {"a": "q | cpu=2"},
            "waiting": {"b": "q at=1 | cpu=4", "me": "q at=2 | cpu=2"},
        },
        0,
        "sure",
        "there is room for it",
    ),
    "not past it in a strict queue": (
        {
            "queues": {"q": "cpu=4 strict"},
            "running": {"a": "q | cpu=2"},
            "waiting": {"b": "q at=1 | cpu=4", "me": "q at=2 | cpu=2"},
            "runs": {"a": "<60", "b": "<10"},
        },
        70,
        "likely",
        "ns/b ends then",
    ),
    "before those of lower priority": (
        {
            "queues": ONE,
            "running": {"a": "q | cpu=4"},
            "waiting": {"b": "q at=1 | cpu=4", "me": "q at=2 p=1 | cpu=4"},
            "runs": {"a": "<60"},
        },
        60,
        "sure",
        "ns/a ends then",
    ),
    "by preemption": (
        {
            "queues": {"q": "cpu=4 within=lower"},
            "running": {"a": "q | cpu=4"},
            "waiting": {"me": "q p=1 | cpu=2"},
        },
        0,
        "likely",
        "it takes the place of ns/a",
    ),
    "by taking back what is lent": (
        {
            "queues": COHORT,
            "running": {"a": "theirs | cpu=6"},
            "waiting": {"me": "mine | cpu=4"},
        },
        0,
        "likely",
        "it takes the place of ns/a",
    ),
    "by borrowing": (
        {"queues": COHORT, "running": {"a": "theirs | cpu=2"}, "waiting": {"me": "mine | cpu=6"}},
        0,
        "sure",
        "there is room for it",
    ),
    "once another queue of the cohort has ended": (
        {
            "queues": COHORT,
            "running": {"a": "theirs | cpu=4"},
            "waiting": {"me": "mine | cpu=6"},
            "runs": {"a": "<60"},
        },
        60,
        "sure",
        "ns/a ends then",
    ),
    "a queue that is stopped": (
        {"queues": {"q": "cpu=4 stop=Hold"}, "waiting": {"me": "q | cpu=1"}},
        None,
        "cannot say",
        "ClusterQueue q is inactive",
    ),
}


@pytest.mark.parametrize(("case", "seconds", "certainty", "because"), CASES.values(), ids=CASES.keys())
def test_estimate(case, seconds, certainty, because):
    result = estimate_case(case)
    at = None if seconds is None else START + timedelta(seconds=seconds)
    assert (result.at, str(result.certainty)) == (at, certainty), result.because
    assert because in result.because


def test_time_that_has_passed_counts():
    case = {"queues": ONE, "running": {"a": "q | cpu=4"}, "waiting": {"me": "q | cpu=1"}, "runs": {"a": "<60"}}
    assert estimate_case(case, later=50).at == START + timedelta(seconds=60)
    assert estimate_case(case, later=70).at == START + timedelta(seconds=70)


def test_who_is_held_back_is_waited_for():
    case = {"queues": ONE, "waiting": {"me": "q | cpu=1"}}
    assert estimate_case(case, until={"me": 30}).at == START + timedelta(seconds=30)


def test_a_line_without_end_is_given_up():
    waiting = {f"b{number}": f"q at={number} | cpu=4" for number in range(MOST_ENDS + 1)}
    case = {
        "queues": ONE,
        "waiting": waiting | {"me": f"q at={MOST_ENDS + 5} | cpu=4"},
        "runs": dict.fromkeys(waiting, "<1"),
    }
    assert estimate_case(case) == StartEstimate(
        None, Certainty.NONE, f"more than {MOST_ENDS} others have to end before"
    )


@pytest.mark.parametrize(("strict", "seconds"), [(True, 45), (False, 60)])
def test_run_times_count_by_their_mean_where_nobody_passes(strict, seconds):
    rest = estimate_rest(run_time("5 60 70"), timedelta(), strict=strict)
    assert rest is not None
    assert rest.time == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "ran", "seconds", "certainty"),
    [
        ("", 0, None, None),
        ("<60", 0, 60, Certainty.SURE),
        ("<60", 50, 10, Certainty.SURE),
        ("<60", 70, 0, Certainty.SURE),
        ("10 12 14", 0, 12, Certainty.LIKELY),
        ("10 12 14", 11, 2, Certainty.LIKELY),
        ("10 12 14", 20, 20, Certainty.GUESS),
        ("10 20", 0, 15, Certainty.GUESS),
        ("10 12 21", 0, 12, Certainty.GUESS),
        ("<25 10 12 14", 20, 5, Certainty.SURE),
    ],
)
def test_how_much_longer_it_takes(text, ran, seconds, certainty):
    rest = estimate_rest(run_time(text), timedelta(seconds=ran))
    result = (None, None) if rest is None else (rest.time, rest.certainty)
    assert result == (None if seconds is None else timedelta(seconds=seconds), certainty)


_POLICIES = st.sampled_from(["lower", "newer", "never"])


@st.composite
def _worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Draw two or three queues of a cohort, the workloads that wait in them, and run times for some of these."""
    names = [f"q{number}" for number in range(draw(st.integers(2, 3)))]
    reclaim = st.sampled_from(["lower", "any", "never"])
    queues = {
        name: f"in=all cpu={draw(st.integers(1, 4))} within={draw(_POLICIES)} reclaim={draw(reclaim)}"
        f"{' strict' if draw(st.booleans()) else ''}"
        for name in names
    }
    waiting = {
        name: f"{draw(st.sampled_from(names))} p={draw(st.integers(0, 2))} at={draw(st.integers(0, 9))} "
        f"| cpu={draw(st.integers(1, 5))}"
        for name in ["me", *(f"w{number}" for number in range(draw(st.integers(0, 8))))]
    }
    runs = {name: draw(st.sampled_from(["", "<5", "<9", "3 4", "3 4 5", "<6 1 20 3"])) for name in waiting}
    return {"queues": queues, "cohorts": {"all": ""}, "waiting": waiting, "runs": runs}


@given(_worlds())
@settings(deadline=None)
def test_whatever_there_is_an_estimate_ends_and_is_not_in_the_past(case):
    result = estimate_case(case)
    assert (result.at is None) == (result.certainty == Certainty.NONE)
    assert result.at is None or result.at >= START
    assert result.because
    assert result == estimate_case(case), "same input, same estimate"


@given(_worlds())
@settings(deadline=None)
def test_whoever_is_let_in_now_is_told_so(case):
    tree = aw.tree(case)
    queues = aw.queues((node.policy for node in tree.queues.values()), case["waiting"])
    admitted = [one.workload.key for one in run(tree, queues, aw.FLAVORS, AdmissionSettings(), START).admitted]
    if "ns/me" in admitted:
        assert estimate_case(case).at == START


@given(_worlds())
@settings(deadline=None)
def test_estimates_of_many_are_those_of_each(case):
    names = [*case["waiting"]]
    assert estimate_names(case, names) == {f"ns/{name}": estimate_case(case, name=name) for name in names}
