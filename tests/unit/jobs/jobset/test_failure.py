"""What a JobSet makes of Jobs that an interruption ends: it starts again, and does not count that."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from tests.unit.jobs.jobset.world import START, World, jobset, role

from muster.api.batch import Job, JobCondition
from muster.api.core import Pod
from muster.api.jobset import FailurePolicyRule, names
from muster.jobs.interruption import INTERRUPTED, INTERRUPTIONS, count_interruptions, last_interruption
from muster.jobs.jobset.census import Member
from muster.jobs.jobset.decide import decide
from muster.jobs.jobset.failure import is_met
from muster.jobs.jobset.terms import finish

FAILED_ONCE = [{"type": "Failed", "status": "True", "reason": "Why", "message": "exit 3"}]
EVICTED = "Pod default/js-a-0-1 was evicted from node n"


def rule(action: str, **more: Any) -> dict[str, Any]:
    return {"name": "rule", "action": action, **more}


@dataclass(frozen=True)
class Case:
    """A failure policy, and by how much the restarts rise: of the whole, and of the Job alone."""

    policy: Any
    whole: int = 1
    alone: int = 0


CASES = {
    "no policy": Case(None),
    "no restarts": Case({"maxRestarts": 0}),
    "restarts": Case({"maxRestarts": 3}),
    "a rule that fails": Case({"rules": [rule("FailJobSet")]}),
    "a rule about failures": Case({"rules": [rule("RestartJob", onJobFailureReasons=["BackoffLimitExceeded"])]}),
    "a rule about others": Case({"rules": [rule("RestartJob", targetReplicatedJobs=["b"])]}),
    "a rule that restarts the Job": Case({"rules": [rule("RestartJob")]}, whole=0, alone=1),
}


@pytest.mark.parametrize("type", ["FailureTarget", "Failed"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_interruption_is_no_failure(case: Case, type: str) -> None:
    spec = {} if case.policy is None else {"failurePolicy": case.policy}
    world = World(jobset(role("a"), role("b"), **spec))
    world.settle()
    world.ready("js-a-0", "js-b-0")
    world.end("js-b-0", "Failed", "BackoffLimitExceeded", "as the connection was lost")
    world.end("js-a-0", type, INTERRUPTED, EVICTED)
    world.look()
    status = world.jobset.status
    assert (status.restarts, status.restarts_count_towards_max) == (case.whole, 0)
    assert finish(world.jobset) is None
    record = next(record for record in status.replicated_jobs_status if record.name == "a")
    assert (sum(record.job_restarts), sum(record.job_restarts_count_towards_max)) == (case.alone, 0)
    assert (count_interruptions(status.conditions), last_interruption(status.conditions)) == (1, EVICTED)
    assert [note.message for note in world.notes if note.reason == INTERRUPTED] == [EVICTED]


def test_a_jobset_that_has_succeeded_does_not_start_again() -> None:
    world = World(jobset(role("a"), role("b"), successPolicy={"operator": "All", "targetReplicatedJobs": ["b"]}))
    world.settle()
    world.end("js-a-0", "Failed", INTERRUPTED, EVICTED)
    world.complete("js-b-0")
    assert world.jobset.status.terminal_state == names.COMPLETED


def pod(job: str, **more: Any) -> Pod:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job, "controller": True}
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    document = {
        "metadata": {"name": "p", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Failed", "conditions": [condition]} | more,
    }
    return msgspec.convert(document, Pod)


@pytest.mark.parametrize(
    ("interrupted", "restarts"),
    [
        pytest.param(True, (1, 0), id="a pod of another Job was"),
        pytest.param(False, (1, 1), id="none was"),
    ],
)
def test_a_failure_that_is_seen_before_the_interruption_that_it_follows(
    restarts: tuple[int, int], *, interrupted: bool
) -> None:
    made = jobset(role("a", backoffLimit=0), role("b", backoffLimit=0), failurePolicy={"maxRestarts": 3})
    world = World(made)
    world.settle()
    world.end("js-b-0", "Failed", "BackoffLimitExceeded", "as the connection was lost")
    pods = (pod(world.jobs["js-a-0"].metadata.uid, **({} if interrupted else {"conditions": []})),)
    status = decide(world.jobset, tuple(world.jobs.values()), now=START, disturbed=pods).status
    assert (status.restarts, status.restarts_count_towards_max) == restarts


def test_the_interruption_may_be_in_the_job_that_failed_and_its_own_rules_excuse_it() -> None:
    """As `muster run` submits a gang where the Job controller is Kubernetes' own."""
    disrupted = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    excuse = rule("RestartJobSetAndIgnoreMaxRestarts", onJobFailureReasons=["PodFailurePolicy"])
    made = role("a", pods=2, backoffLimit=0, podFailurePolicy=disrupted)
    for rules, restarts in ([excuse], (1, 0)), ([], (1, 1)):
        world = World(jobset(made, failurePolicy={"maxRestarts": 3, "rules": rules}))
        world.settle()
        world.end("js-a-0", "Failed", "BackoffLimitExceeded", "as the connection was lost")
        pods = (pod(world.jobs["js-a-0"].metadata.uid),)
        status = decide(world.jobset, tuple(world.jobs.values()), now=START, disturbed=pods).status
        assert (status.restarts, status.restarts_count_towards_max) == restarts


def test_pods_that_start_again_in_place_are_made_anew_instead() -> None:
    policy = {"maxRestarts": 0, "restartStrategy": names.IN_PLACE_RESTART}
    world = World(jobset(role("a"), failurePolicy=policy))
    world.settle()
    told = JobCondition(type=INTERRUPTIONS, status="True", message=f"1 interruption, the last: {EVICTED}")
    world.report("js-a-0", conditions=(told,))
    world.look()
    assert (world.jobset.status.restarts, world.jobset.status.restarts_count_towards_max) == (1, 0)


@pytest.mark.parametrize(
    ("about", "conditions", "expected"),
    [
        pytest.param({}, FAILED_ONCE, True, id="any failure"),
        pytest.param({"targetReplicatedJobs": ["w"]}, FAILED_ONCE, True, id="of its role"),
        pytest.param({"targetReplicatedJobs": ["x"]}, FAILED_ONCE, False, id="of another role"),
        pytest.param({"onJobFailureReasons": ["Why"]}, FAILED_ONCE, True, id="for its reason"),
        pytest.param({"onJobFailureReasons": ["Other"]}, FAILED_ONCE, False, id="for another reason"),
        pytest.param({"onJobFailureMessagePatterns": ["^exit 3"]}, FAILED_ONCE, True, id="with its message"),
        pytest.param({"onJobFailureMessagePatterns": ["4", "3"]}, FAILED_ONCE, True, id="with one of the messages"),
        pytest.param({"onJobFailureMessagePatterns": ["4"]}, FAILED_ONCE, False, id="with another message"),
        pytest.param({"onJobFailureMessagePatterns": ["("]}, FAILED_ONCE, False, id="a pattern that is none"),
        pytest.param(
            {"targetReplicatedJobs": ["w"], "onJobFailureReasons": ["Other"]}, FAILED_ONCE, False, id="all must hold"
        ),
        pytest.param({}, [], False, id="it has not failed"),
        pytest.param({}, [{**FAILED_ONCE[0], "status": "False"}], False, id="it failed no more"),
    ],
)
def test_what_a_rule_is_about(about: Any, conditions: Any, expected: bool) -> None:
    one = msgspec.convert({"metadata": {"name": "j"}, "spec": {}, "status": {"conditions": conditions}}, Job)
    assert is_met(msgspec.convert(rule("FailJobSet", **about), FailurePolicyRule), Member(one, "w", 0)) is expected
