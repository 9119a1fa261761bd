"""The newest decisions of an engine: bounded, and a wait is recorded once."""

import logging
from datetime import UTC, datetime

from muster.api.ours.decisions import Decision, Subject
from muster.controllers import decisionlog
from muster.controllers.decisionlog import DecisionLog

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def decision(what, job="ns/j", **about):
    return Decision(NOW, what, job, "u", **about)


def test_a_wait_is_recorded_once_until_something_else_is_decided():
    log = DecisionLog()
    for one in (
        decision("Waiting", rule="A"),
        decision("Waiting", rule="A"),
        decision("Waiting", rule="B"),
        decision("Waiting", rule="A"),
        decision("QuotaReserved"),
        decision("Waiting", rule="A"),
    ):
        log.add(one)
    assert [one.rule for one in log.since(0)] == ["A", "B", "A", "", "A"]
    assert not log.is_news(Subject("ns/j", "u"), "Waiting", "A")
    assert log.is_news(Subject("ns/other", "u"), "Waiting", "A")


def test_decisions_that_do_something_are_all_recorded():
    log = DecisionLog()
    for _ in range(3):
        log.add(decision("Placed", pods=1))
    assert log.count == 3


def test_memory_holds_the_newest_in_order(monkeypatch):
    monkeypatch.setattr(decisionlog, "_MOST_JOBS", 20)
    log = DecisionLog(most=10)
    for number in range(10_000):
        log.add(decision("Placed", f"ns/j{number}"))
    assert [one.name for one in log.since(9_997)] == ["j9997", "j9998", "j9999"]
    assert len(log) == len(log.since(0)) == 10
    assert log.since(10_000) == log.since(20_000) == []
    assert len(log._last) <= 20


def test_each_decision_is_in_the_log_at_debug_level_only(caplog):
    log = DecisionLog()
    with caplog.at_level(logging.INFO, "muster"):
        log.add(decision("Placed"))
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, "muster"):
        log.add(decision("Placed", nodes={"n": 2}))
    assert '"nodes":{"n":2}' in caplog.text
