"""What a budget allows, by upstream's rules."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.groups.policy import PodDisruptionBudget
from muster.cluster.controllers.limits.budgetstate import compute_state, failed_status

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pods(ready, sick=0, going=0):
    def one(name, status, **meta):
        condition = {"type": "Ready", "status": status}
        return msgspec.convert({"metadata": {"name": name, **meta}, "status": {"conditions": [condition]}}, Pod)

    return (
        [one(f"r{n}", "True") for n in range(ready)]
        + [one(f"s{n}", "False") for n in range(sick)]
        + [one(f"g{n}", "True", deletionTimestamp=NOW) for n in range(going)]
    )


def budget(disrupted=None, **spec):
    document = {"metadata": {"name": "b", "generation": 3}, "spec": spec, "status": {"disruptedPods": disrupted or {}}}
    return msgspec.convert(document, PodDisruptionBudget)


@pytest.mark.parametrize(
    ("spec", "found", "wanted", "numbers"),
    [  # expected, desired, healthy, allowed
        pytest.param({"minAvailable": 2}, pods(3), 0, (3, 2, 3, 1), id="a number of pods"),
        pytest.param({"minAvailable": 2}, pods(2, sick=2), 0, (4, 2, 2, 0), id="sick ones are expected"),
        pytest.param({"minAvailable": 2}, pods(3, going=1), 0, (4, 2, 3, 1), id="going ones too"),
        pytest.param({"minAvailable": 5}, pods(3), 0, (3, 5, 3, 0), id="more than there are"),
        pytest.param({"minAvailable": 0}, pods(0), 0, (0, 0, 0, 0), id="no pods: nothing may go"),
        pytest.param({"minAvailable": "50%"}, pods(3), 3, (3, 2, 3, 1), id="a part of what owners want, rounded up"),
        pytest.param({"minAvailable": "50%"}, pods(3), 10, (10, 5, 3, 0), id="who want more than there is"),
        pytest.param({"minAvailable": "100%"}, pods(3), 3, (3, 3, 3, 0), id="all"),
        pytest.param({"maxUnavailable": 1}, pods(3), 3, (3, 2, 3, 1), id="so many may be missing"),
        pytest.param({"maxUnavailable": 1}, pods(2), 3, (3, 2, 2, 0), id="one is missing"),
        pytest.param({"maxUnavailable": 5}, pods(3), 3, (3, 0, 3, 3), id="all may be missing"),
        pytest.param({"maxUnavailable": "34%"}, pods(3), 3, (3, 1, 3, 2), id="a part may be missing, rounded up"),
        pytest.param({"maxUnavailable": 1}, pods(3), 0, (0, 0, 3, 0), id="unmanaged pods"),
        pytest.param({}, pods(3), 0, (0, 0, 3, 0), id="nothing said"),
    ],
)
def test_numbers(spec, found, wanted, numbers):
    status = compute_state(budget(**spec), found, wanted, NOW).status
    assert (
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
    ) == numbers
    reason = "SufficientPods" if numbers[-1] else "InsufficientPods"
    assert (status.conditions[0].reason, status.conditions[0].observed_generation) == (reason, 3)


@pytest.mark.parametrize(
    ("ago", "healthy", "kept", "stayed"),
    [(0, 2, True, False), (120, 2, True, False), (121, 3, False, True)],
)
def test_an_evicted_pod_is_counted_out_until_it_does_not_go(ago, healthy, kept, stayed):
    since = NOW - timedelta(seconds=ago)
    found = compute_state(budget({"r0": since, "gone": since}, minAvailable=1), pods(3), 0, NOW)
    assert found.status.current_healthy == healthy
    assert found.status.disrupted_pods == ({"r0": since} if kept else {})
    assert found.again == (timedelta(seconds=120 - ago) if kept else None)
    assert [pod.metadata.name for pod in found.stayed] == (["r0"] if stayed else [])


def test_what_cannot_be_worked_out_allows_nothing():
    status = failed_status(budget(minAvailable=1), "why", NOW)
    assert (status.disruptions_allowed, status.observed_generation) == (0, 0)
    (condition,) = status.conditions
    assert (condition.status, condition.reason, condition.message) == ("False", "SyncFailed", "why")
