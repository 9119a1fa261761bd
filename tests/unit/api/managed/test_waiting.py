"""Tests of the limits of what a user has in line."""

import msgspec
import pytest

from muster.api.kueue import PodSet
from muster.api.managed.waiting import InLine, measure_job, refuse_in_line
from muster.api.ours.teams import UserLimits


def podset(name: str, count: int, gpus: int) -> PodSet:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": gpus}}}
    template = {"spec": {"containers": [container]}}
    return msgspec.convert({"name": name, "count": count, "template": template}, PodSet)


def test_a_job_counts_the_gpus_of_all_its_pods() -> None:
    assert measure_job([podset("head", 1, 0), podset("workers", 3, 2)]) == InLine(1, 6)
    assert sum([InLine(1, 2), InLine(1)], InLine()) == InLine(2, 2)


@pytest.mark.parametrize(
    ("limits", "waiting", "more", "why"),
    [
        (UserLimits(), InLine(99, 99), InLine(1, 9), ""),
        (UserLimits(waiting_jobs=2), InLine(1, 9), InLine(1, 9), ""),
        (
            UserLimits(waiting_jobs=2),
            InLine(2),
            InLine(1),
            "ada has 2 waiting jobs in ClusterQueue vision, and each user may have 2 in line",
        ),
        (
            UserLimits(waiting_jobs=0),
            InLine(),
            InLine(1),
            "ada has 0 waiting jobs in ClusterQueue vision, and each user",
        ),
        (UserLimits(waiting_gpus=4), InLine(3, 3), InLine(1, 1), ""),
        (UserLimits(waiting_gpus=4), InLine(3, 9), InLine(1, 0), ""),
        (
            UserLimits(waiting_gpus=4),
            InLine(1, 3),
            InLine(1, 2),
            "the waiting jobs of ada in ClusterQueue vision ask for 3 GPUs, this one asks for 2, and each user",
        ),
    ],
)
def test_a_user_is_refused_beyond_a_limit(limits: UserLimits, waiting: InLine, more: InLine, why: str) -> None:
    assert refuse_in_line("ada", "vision", limits, waiting, more).startswith(why)
    assert bool(refuse_in_line("ada", "vision", limits, waiting, more)) is bool(why)
