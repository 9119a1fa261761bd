"""Whether budgets let a pod go, case by case as kube-apiserver decides, and as a law: they are never overdrawn."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import Pod
from muster.api.groups.policy import PodDisruptionBudget
from muster.api.status import ApiError
from muster.cluster.apiserver.pods.budgets import charge_eviction
from muster.cluster.controllers.limits.budgetstate import compute_state

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(name="p", phase="Running", ready=True, going=False):
    meta = {"name": name} | ({"deletionTimestamp": NOW} if going else {})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return msgspec.convert({"metadata": meta, "status": {"phase": phase, "conditions": conditions}}, Pod)


def budget(allowed=0, healthy=2, desired=2, *, policy=None, lag=0, reason="InsufficientPods", message="", **status):
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}
    document = {
        "metadata": {"name": "b", "generation": 2},
        "spec": {"unhealthyPodEvictionPolicy": policy},
        "status": {
            "observedGeneration": 2 - lag,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "conditions": [condition],
            **status,
        },
    }
    return msgspec.convert(document, PodDisruptionBudget)


MANY = {f"p{n}": NOW for n in range(2001)}
SICK = pod(ready=False)


@pytest.mark.parametrize(
    ("subject", "budgets", "answer"),
    [
        pytest.param(pod(), [], "free", id="no budget"),
        pytest.param(pod(), [budget(1, 3)], "charged", id="one is left"),
        pytest.param(pod(), [budget()], "429: b needs 2 healthy pods and has 2 currently", id="none is left"),
        pytest.param(pod(), [budget(healthy=1)], "429: b needs 2 healthy pods and has 1 currently", id="too few"),
        pytest.param(
            pod(), [budget(0, 3)], "429: b does not allow evicting pods currently", id="none, whatever the count"
        ),
        pytest.param(
            pod(),
            [budget(0, 3, message="m", reason="R")],
            "429: b does not allow evicting pods currently (R): m",
            id="the condition says why",
        ),
        pytest.param(
            pod(),
            [budget(0, 0, reason="SyncFailed", message="no scale")],
            "429: b does not allow evicting pods currently because it failed sync: no scale",
            id="the controller failed",
        ),
        pytest.param(pod(), [budget(5, 9, lag=1)], "429: b is still being processed by the server.", id="it lags"),
        pytest.param(pod(), [budget(-1)], "403: pdb disruptions allowed is negative", id="a negative number"),
        pytest.param(
            pod(), [budget(1, disruptedPods=MANY)], "403: DisruptedPods map too big - too many", id="too many unseen"
        ),
        pytest.param(pod(), [budget(1), budget(1)], "500: This pod has more than one", id="several budgets"),
        pytest.param(pod(phase="Pending"), [budget()], "free", id="pending"),
        pytest.param(pod(phase="Pending"), [budget(), budget()], "free", id="pending, several budgets"),
        pytest.param(pod(phase="Succeeded"), [budget()], "free", id="succeeded"),
        pytest.param(pod(phase="Failed"), [budget()], "free", id="failed"),
        pytest.param(pod(going=True), [budget()], "free", id="going anyway"),
        pytest.param(SICK, [budget(healthy=2)], "free", id="unhealthy, enough others"),
        pytest.param(
            SICK, [budget(healthy=1)], "429: b needs 2 healthy pods and has 1", id="unhealthy, too few others"
        ),
        pytest.param(
            SICK, [budget(healthy=0, desired=0)], "429: b needs 0 healthy pods and has 0", id="nothing desired"
        ),
        pytest.param(SICK, [budget(healthy=1, policy="IfHealthyBudget")], "429: b needs 2", id="the same by its name"),
        pytest.param(SICK, [budget(healthy=1, policy="AlwaysAllow")], "free", id="unhealthy pods always go"),
        pytest.param(pod(), [budget(healthy=1, policy="AlwaysAllow")], "429: b needs 2", id="but healthy ones do not"),
    ],
)
def test_eviction(subject, budgets, answer):
    code, _, text = answer.partition(": ")
    if not text:
        found = charge_eviction(subject, budgets, NOW)
        assert (found is None) is (answer == "free")
        if found is not None:
            assert (found.status.disruptions_allowed, found.status.disrupted_pods) == (0, {"p": NOW})
            assert found.status.conditions[0].reason == "InsufficientPods"
        return
    with pytest.raises(ApiError) as refused:
        charge_eviction(subject, budgets, NOW)
    details = refused.value.status.details
    words = details.causes[0].message if details is not None and details.causes else str(refused.value)
    assert (refused.value.code, text.removeprefix("b ") in words) == (int(code), True), words


def test_the_controllers_lag_says_when_to_come_back():
    with pytest.raises(ApiError) as refused:
        charge_eviction(pod(), [budget(5, 9, lag=1)], NOW)
    assert refused.value.status.details is not None
    assert refused.value.status.details.retry_after_seconds == 10


@given(
    st.integers(1, 8),
    st.integers(0, 9),
    st.lists(st.tuples(st.sampled_from(["evict", "look", "write", "gone", "wait"]), st.integers(0, 7)), max_size=60),
)
def test_law_evictions_never_take_healthy_pods_below_the_budget(count, least, steps):
    """The controller sees pods late and writes over nothing that an eviction has changed; evictions are one write."""
    now, pods = NOW, {f"p{n}": pod(f"p{n}") for n in range(count)}
    one = msgspec.convert(
        {"metadata": {"name": "b", "generation": 1}, "spec": {"minAvailable": least}}, PodDisruptionBudget
    )
    seen = None
    for step, number in steps:
        subject = pods.get(f"p{number}")
        if step == "evict" and subject is not None:
            try:
                paid = charge_eviction(subject, [one], now)
            except ApiError:
                continue
            one = paid if paid is not None else one
            pods[subject.metadata.name] = pod(subject.metadata.name, going=True)
        elif step == "look":
            seen = one, list(pods.values())
        elif step == "write" and seen is not None and seen[0] is one:  # else it conflicts
            one = msgspec.structs.replace(one, status=compute_state(one, seen[1], 0, now).status)
        elif step == "gone" and subject is not None and subject.metadata.deletion_timestamp is not None:
            del pods[subject.metadata.name]
        elif step == "wait":
            now += timedelta(seconds=1)
        healthy = sum(each.metadata.deletion_timestamp is None for each in pods.values())
        assert healthy >= min(least, count)
