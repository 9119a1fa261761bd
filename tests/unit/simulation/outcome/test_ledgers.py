"""The quotas of queues over time."""

from muster.queueing.model import FlavorResource
from muster.simulation.outcome.ledgers import QuotaLedger


def test_a_queue_loses_the_quotas_that_a_change_leaves_out():
    ledger = QuotaLedger()
    ledger.set(0.0, "a", {FlavorResource("spot", "cpu"): 2000, FlavorResource("fixed", "cpu"): 1000})
    ledger.set(0.0, "b", {FlavorResource("spot", "cpu"): 500})
    ledger.set(10.0, "a", {FlavorResource("fixed", "cpu"): 3000})
    ledger.set(20.0, "a", {FlavorResource("fixed", "cpu"): 3000, FlavorResource("spot", "cpu"): 100})
    keys = ledger.keys
    changes = zip(ledger.changes.times, ledger.changes.numbers, ledger.changes.amounts, strict=True)
    assert [(at, keys[number], amount) for at, number, amount in changes] == [
        (0.0, ("a", "spot", "cpu"), 2000),
        (0.0, ("a", "fixed", "cpu"), 1000),
        (0.0, ("b", "spot", "cpu"), 500),
        (10.0, ("a", "spot", "cpu"), -2000),
        (10.0, ("a", "fixed", "cpu"), 2000),
        (20.0, ("a", "spot", "cpu"), 100),
    ]


def test_a_quota_may_be_larger_than_64_bits():
    ledger = QuotaLedger()
    ledger.set(0.0, "a", {FlavorResource("spot", "cpu"): 10**311})
    ledger.set(9.0, "a", {FlavorResource("spot", "cpu"): 1000})
    assert list(ledger.changes.amounts) == [2**62, 1000 - 2**62]
