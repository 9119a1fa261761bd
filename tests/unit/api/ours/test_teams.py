"""Tests of the annotations of a team's ClusterQueue."""

import pytest

from muster.api.ours.teams import (
    LIMIT_NAMES,
    QUEUE_USERS,
    USER_LIMITS,
    UserLimits,
    find_limit_problems,
    read_limits,
    read_users,
    write_limits,
    write_users,
)


def test_users_survive_the_annotation() -> None:
    assert read_users({QUEUE_USERS: write_users(["grace", "ada"])}) == frozenset({"ada", "grace"})
    assert read_users({QUEUE_USERS: " ada , grace,"}) == frozenset({"ada", "grace"})


def test_nobody_is_not_everybody() -> None:
    assert read_users({QUEUE_USERS: ""}) == frozenset()
    assert read_users({}) is None


def test_limits_survive_the_annotation() -> None:
    limits = UserLimits(jobs=4, gpus=0, waiting_jobs=20)
    assert write_limits(limits) == "jobs=4,gpus=0,waiting-jobs=20"
    assert read_limits({USER_LIMITS: write_limits(limits)}) == limits


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("job=4", f"'job' is no limit; there are: {', '.join(LIMIT_NAMES)}"),
        ("jobs=many", "jobs=many: expected a number, as jobs=4"),
        ("gpus", "gpus=: expected a number, as gpus=4"),
        ("gpus=-1", "gpus=-1: expected a number, as gpus=4"),
    ],
)
def test_a_malformed_limit_is_named_and_ignored(text: str, problem: str) -> None:
    assert list(find_limit_problems(f"jobs=1,{text}")) == [problem]
    assert read_limits({USER_LIMITS: text}) == UserLimits()
