"""Tests of the users of a ClusterQueue and their limits: who may use it, and how much at once."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.queueing import admission_worlds as aw
from tests.unit.queueing.worlds import START

from muster.api.ours.teams import NOT_A_USER, USER_LIMIT_REACHED, UserLimits
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling.cycle import AdmissionSettings, run

GPU = "nvidia.com/gpu"


class Team:
    """The ClusterQueue `vision` of 8 CPUs and 8 GPUs, with what is admitted and what waits there."""

    def __init__(self, waiting: dict[str, str], admitted: dict[str, str] | None = None, **policy: Any) -> None:
        self.tree: Tree = aw.tree({"queues": {"vision": f"cpu=8 default/{GPU}=8"}, "admitted": admitted or {}})
        self.tree.set_queue(replace(self.tree.queues["vision"].policy, **policy))
        self.queues: Queues = aw.queues([self.tree.queues["vision"].policy], waiting)

    def cycle(self) -> list[str]:
        outcome = run(self.tree, self.queues, aw.FLAVORS, AdmissionSettings(), START)
        return [one.workload.uid for one in outcome.admitted]

    def end(self, name: str) -> None:
        holder = self.tree.holder(f"ns/{name}")
        assert holder is not None
        self.tree.release(holder)
        self.queues.flush(self.tree.queues["vision"], holder.usage)

    def why(self, name: str) -> str:
        note = self.queues.why(f"ns/{name}")
        assert note is not None
        return f"{note.reason}: {note.message}"


def test_only_its_users_use_a_queue() -> None:
    waiting = {"hers": "vision user=ada | cpu=1", "his": "vision user=bob | cpu=1", "a-ghosts": "vision | cpu=1"}
    team = Team(waiting, users=frozenset({"ada", "grace"}))
    assert team.cycle() == ["hers"]
    assert team.why("his") == f"{NOT_A_USER}: ClusterQueue vision is for ada, grace, and not for bob"
    assert team.why("a-ghosts").endswith("and not for a job whose user is not known")


def test_a_user_who_joins_may_start() -> None:
    team = Team({"his": "vision user=bob | cpu=1"}, users=frozenset({"ada"}))
    assert team.cycle() == []
    team.queues.set_queue(replace(team.tree.queues["vision"].policy, users=frozenset({"ada", "bob"})))
    assert team.cycle() == ["his"]


@pytest.mark.parametrize("strict", [False, True])
def test_a_user_has_so_many_jobs_at_once_and_others_pass(strict: bool) -> None:
    waiting = {f"a{n}": f"vision user=ada at={n} | cpu=1" for n in range(3)} | {"b": "vision user=bob at=9 | cpu=1"}
    team = Team(waiting, limits=UserLimits(jobs=2), strict=strict)
    assert team.cycle() == ["a0", "a1", "b"]
    reason = "ada has 2 jobs with quota in ClusterQueue vision, and each user may have 2 at once"
    assert team.why("a2") == f"{USER_LIMIT_REACHED}: {reason}"
    team.end("b")
    assert team.cycle() == []
    team.end("a0")
    assert team.cycle() == ["a2"]


def test_the_end_of_a_job_that_took_other_resources_helps() -> None:
    team = Team({"next": f"vision user=ada | {GPU}=1"}, {"now": "vision user=ada cpu=1"}, limits=UserLimits(jobs=1))
    assert team.cycle() == []
    team.end("now")
    assert team.cycle() == ["next"]


def test_a_user_has_so_many_gpus_at_once() -> None:
    waiting = {"two": f"vision user=ada at=1 | {GPU}=1 x=2", "none": "vision user=ada at=2 | cpu=1"}
    team = Team(waiting, {"old": f"vision user=ada default/{GPU}=3"}, limits=UserLimits(gpus=4))
    assert team.cycle() == ["none"]
    reason = "ada has 3 GPUs in ClusterQueue vision and asks for 2, and each user may have 4 at once"
    assert team.why("two") == f"{USER_LIMIT_REACHED}: {reason}"


def test_growth_counts_gpus_and_is_no_job() -> None:
    waiting = {"old+": f"vision user=ada | {GPU}=1"}
    held = {"old": f"vision user=ada default/{GPU}=3"}
    assert Team(waiting, held, limits=UserLimits(jobs=1)).cycle() == ["old+"]
    assert Team(waiting, held, limits=UserLimits(gpus=3)).cycle() == []


def test_a_user_who_is_not_known_has_no_limit() -> None:
    team = Team({"a": "vision | cpu=1", "b": "vision | cpu=1"}, limits=UserLimits(jobs=1))
    assert sorted(team.cycle()) == ["a", "b"]
