"""The records of admission: from the outcomes of cycles that are played."""

from datetime import UTC, datetime

from tests.unit.queueing import admission_worlds as aw

from muster.api.kueue import WorkloadStatus
from muster.api.notes import Note
from muster.api.ours.decisions import Subject
from muster.controllers.decisionlog import DecisionLog
from muster.queueing.decisions import describe_cycle, describe_eviction
from muster.queueing.scheduling.cycle import AdmissionSettings, run
from muster.queueing.workload.lifecycle import LifecyclePlan

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def describe(case, log=None):
    tree = aw.tree(case)
    queues = aw.queues((node.policy for node in tree.queues.values()), case["waiting"])
    log = DecisionLog() if log is None else log
    outcome = run(tree, queues, aw.FLAVORS, AdmissionSettings(), NOW)
    for one in describe_cycle(outcome, tree, lambda info: Subject(info.key, info.uid), log.is_news, NOW):
        log.add(one)
    return log.since(0)


CASE = {
    "queues": {"q": "cpu=4 within=lower"},
    "admitted": {"low": "q cpu=3 p=-1"},
    "waiting": {"high": "q p=5 | cpu=3", "small": "q | cpu=1"},
}


def test_an_admission_has_the_numbers_of_its_queue():
    [reserved] = describe({"queues": {"q": "cpu=4"}, "waiting": {"j": "q | cpu=3"}})
    [amount] = reserved.amounts
    assert (reserved.what, reserved.job, reserved.queue, reserved.pods) == ("QuotaReserved", "ns/j", "q", 1)
    assert (amount.asked, amount.nominal, amount.used, amount.available) == (3, 4, 3, 1)
    assert reserved.waited is not None
    assert reserved.waited > 0


def test_a_preemption_has_both_sides_and_their_priorities():
    by_what = {one.what: one for one in describe(CASE)}
    preempting, preempted = by_what["Preempting"], by_what["Preempted"]
    assert (preempting.what, preempting.name, preempting.priority) == ("Preempting", "high", 5)
    assert [(one.job, one.rule, one.priority) for one in preempting.others] == [("ns/low", "InClusterQueue", -1)]
    assert (preempted.what, preempted.name, preempted.rule) == ("Preempted", "low", "InClusterQueue")
    assert [(one.job, one.priority) for one in preempted.others] == [("ns/high", 5)]


def test_a_wait_has_its_rule_and_what_is_available_and_is_described_once():
    case = {"queues": {"q": "cpu=4"}, "admitted": {"a": "q cpu=3"}, "waiting": {"j": "q | cpu=2"}}
    log = DecisionLog()
    [waiting] = describe(case, log)
    assert (waiting.what, waiting.rule) == ("Waiting", "WaitingForQuota")
    assert [(one.asked, one.nominal, one.used, one.available) for one in waiting.amounts] == [(2, 4, 3, 1)]
    assert describe(case, log) == [waiting]


def test_an_eviction_is_in_the_notes_of_a_plan():
    plan = LifecyclePlan(WorkloadStatus(), notes=(Note("Normal", "EvictedDueToPodsReadyTimeout", "too late"),))
    evicted = describe_eviction(plan, Subject("ns/j", "u"), "q", NOW)
    assert evicted is not None
    assert (evicted.what, evicted.rule, evicted.because) == ("Evicted", "PodsReadyTimeout", "too late")
    other = LifecyclePlan(WorkloadStatus(), notes=(Note("Normal", "Admitted", ""),))
    assert describe_eviction(other, Subject("ns/j", "u"), "q", NOW) is None
