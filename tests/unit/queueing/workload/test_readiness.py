"""Tests of readiness: the settings that apply, the condition PodsReady, deadlines, and blocked workloads."""

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.queueing import given, lives
from tests.unit.queueing.lives import NOW, at, condition

from muster.api.config import WaitForPodsReady, load
from muster.api.kueue.readiness import READY_ANNOTATION
from muster.api.values.durations import MINUTE, SECOND
from muster.queueing import convert
from muster.queueing.conditions import put
from muster.queueing.scheduling.blocking import MESSAGE, BlockedScopes, Blocking
from muster.queueing.workload.readiness import find_deadline, settings_for, with_readiness

BASE = WaitForPodsReady(timeout=5 * MINUTE, recovery_timeout=None)

# --- Which settings hold.


def annotate(text: str | None) -> dict[str, str]:
    return {} if text is None else {READY_ANNOTATION: text}


@pytest.mark.parametrize(
    ("workload", "queue", "flavors", "seconds"),
    [
        pytest.param(None, None, [], 300, id="the configuration"),
        pytest.param(None, None, ["timeout=1s", "timeout=2s"], 1, id="the first flavor that says something"),
        pytest.param(None, None, [None, "timeout=2s"], 2, id="flavors that say nothing"),
        pytest.param(None, "timeout=3s", ["timeout=1s"], 3, id="the queue before its flavors"),
        pytest.param("timeout=4s", "timeout=3s", ["timeout=1s"], 4, id="the workload before the queue"),
        pytest.param("false", "timeout=3s", [], None, id="the workload wants nothing of it"),
        pytest.param("true", "false", [], 300, id="the workload wants it"),
        pytest.param("blockAdmission=true", "timeout=3s", [], 300, id="what is left out is the configuration's"),
        pytest.param("soon", "timeout=3s", [], 3, id="what nobody understands is not there"),
    ],
)
def test_the_most_specific_word_counts(
    workload: str | None, queue: str | None, flavors: list[str | None], seconds: int | None
) -> None:
    result = settings_for(BASE, annotate(workload), annotate(queue), map(annotate, flavors))
    assert (result.timeout if result is not None else None) == (None if seconds is None else seconds * SECOND)


def test_it_can_be_asked_for_where_it_is_off() -> None:
    assert settings_for(None, {}, {}, []) is None
    result = settings_for(None, annotate("timeout=1m"), {}, [])
    assert result is not None
    assert result.timeout == MINUTE


KUEUE = """
apiVersion: config.kueue.x-k8s.io/{version}
kind: Configuration
{wait}
"""


@pytest.mark.parametrize(
    ("version", "wait", "expected"),
    [
        pytest.param("v1beta2", "", (30 * MINUTE, "Admitted", False, 30 * MINUTE), id="on in v1beta2"),
        pytest.param("v1beta1", "", None, id="off in v1beta1"),
        pytest.param("v1beta1", "waitForPodsReady: {timeout: 1m}", None, id="off in v1beta1 until enabled"),
        pytest.param(
            "v1beta1", "waitForPodsReady: {enable: true}", (5 * MINUTE, "Admitted", True, 5 * MINUTE), id="enabled"
        ),
        pytest.param(
            "v1beta1",
            "waitForPodsReady: {enable: true, timeoutSeconds: 60}",
            (MINUTE, "JobStart", True, None),
            id="the KEP's spelling has the KEP's clock",
        ),
    ],
)
def test_pitfall_1_the_defaults_are_those_of_the_version(
    version: str, wait: str, expected: tuple[int, str, bool, int | None] | None
) -> None:
    result = load(KUEUE.format(version=version, wait=wait)).wait_for_pods_ready
    texts = result and (result.timeout, result.clock, result.block_admission, result.recovery_timeout)
    assert texts == expected


# --- What PodsReady says.

ADMITTED = condition("Admitted", "True Admitted @-60")
NOT_READY = "Not all pods are ready or succeeded"
READY = "All pods reached readiness and the workload is running"
LOST = "At least one pod has failed, waiting for recovery"


@pytest.mark.parametrize(
    ("before", "admitted", "ready", "after"),
    [
        pytest.param(None, False, False, f"False WaitForStart: {NOT_READY}", id="not admitted"),
        pytest.param(None, True, False, f"False WaitForStart: {NOT_READY}", id="not yet"),
        pytest.param(None, True, True, f"True Started: {READY}", id="at once"),
        pytest.param("False WaitForStart @-9", True, False, f"False WaitForStart @-9: {NOT_READY}", id="still not"),
        pytest.param("False WaitForStart @-9", True, True, f"True Started: {READY}", id="started"),
        pytest.param("True Started @-9", True, True, f"True Started @-9: {READY}", id="still"),
        pytest.param("True Started @-9", True, False, f"False WaitForRecovery: {LOST}", id="pitfall 3: not any more"),
        pytest.param(
            "False WaitForRecovery @-9", True, False, f"False WaitForRecovery @-9: {LOST}", id="pitfall 3: it stays so"
        ),
        pytest.param("False WaitForRecovery @-9", True, True, f"True Recovered: {READY}", id="pitfall 3: recovered"),
        pytest.param("True Recovered @-9", True, False, f"False WaitForRecovery: {LOST}", id="lost once more"),
        pytest.param("True Recovered @-9", True, True, f"True Recovered @-9: {READY}", id="recovered for good"),
        pytest.param(
            "False WaitForRecovery @-9",
            False,
            False,
            f"False WaitForStart @-9: {NOT_READY}",
            id="pitfall 3: it begins anew once it is not admitted",
        ),
        pytest.param("True Started @-9", False, True, f"False WaitForStart: {NOT_READY}", id="not admitted any more"),
    ],
)
def test_what_pods_ready_says(before: str | None, admitted: bool, ready: bool, after: str) -> None:
    conditions = ((ADMITTED,) if admitted else ()) + ((condition("PodsReady", before),) if before else ())
    assert with_readiness(conditions, ready, NOW)[-1] == condition("PodsReady", after)


# --- By when. (Most cases are in cases/lifecycle.yaml.)


@pytest.mark.parametrize("clock", ["Admitted", "JobStart"])
def test_pitfall_2_each_spelling_has_its_clock(clock: str) -> None:
    conditions = (condition("QuotaReserved", "True QuotaReserved @-900"), condition("Admitted", "True Admitted @-60"))
    settings = lives.waiting({"timeout": 300, "clock": clock})
    assert settings is not None
    start = (NOW - timedelta(seconds=20)).isoformat()
    result = find_deadline(conditions, {"muster.dev/job-start": start}, settings)
    assert result == (at(240 if clock == "Admitted" else 280), "WaitForStart")


def test_a_timeout_may_be_a_fraction_of_a_second() -> None:
    settings = WaitForPodsReady(timeout=1_500_000_000)
    assert find_deadline((ADMITTED,), {}, settings) == (at(-58.5), "WaitForStart")


def test_what_never_was_admitted_is_never_late() -> None:
    refused = put((), "Admitted", False, "NoReservation", "m", NOW)
    assert find_deadline(refused, {}, BASE) is None
    assert find_deadline((), {}, BASE) is None


# --- Who waits for whom.


def holder(written: dict[str, Any]) -> Any:
    return convert.convert_workload(lives.workload(written), "q")


def test_pitfall_4_a_workload_that_only_has_a_reservation_blocks_others_in_other_queues() -> None:
    closed = BlockedScopes(Blocking(everything=True), [holder({"reserved": -5})])
    newcomer = convert.convert_workload(lives.workload({}), "another")
    assert closed.blocker(newcomer, given.usage({"g/cpu": 1})) == "n/w"
    assert MESSAGE == "waiting for all admitted workloads to be in PodsReady condition"


def test_pitfall_4_asked_for_on_a_flavor_it_blocks_only_who_would_get_that_flavor() -> None:
    closed = BlockedScopes(Blocking(flavors={"f": True}), [holder({"reserved": -5})])
    assert closed.blocker(holder({}), given.usage({"f/cpu": 1})) == "n/w"
    assert closed.blocker(holder({}), given.usage({"g/cpu": 1})) == ""
