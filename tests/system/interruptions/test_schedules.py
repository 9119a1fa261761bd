"""Whatever interrupts a workload, whenever: it ends well, uses up nothing, and is whole or nothing meanwhile.

`pytest tests/system/interruptions -n 0 --schedule 1234` plays one schedule and prints what happened.
"""

import logging

import pytest
from tests.system.interruptions.deeds import QUEUE_DEEDS
from tests.system.interruptions.kinds import KINDS, Order, WorkloadKind
from tests.system.interruptions.scene import Delays
from tests.system.interruptions.schedule import ALL_DEEDS, Blow, Schedule, draw, play

pytestmark = pytest.mark.slow

BATCHES = 6
USUAL, LONG = 11, 3400  # schedules of a batch


def failures(seeds: range) -> list[str]:
    """Return what is wrong with each of these schedules that has something wrong, in a few lines."""
    found = []
    for seed in seeds:
        schedule = draw(seed)
        try:
            findings = play(schedule).findings
        except Exception as error:
            error.add_note(str(schedule))
            raise
        if findings:
            found.append("\n  ".join([str(schedule).replace("\n", "\n  "), *findings]))
    return found


@pytest.mark.parametrize("batch", range(BATCHES))
def test_whatever_interrupts_a_workload(
    batch: int, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture, *, long: bool
) -> None:
    if request.config.getoption("schedule") is not None:
        pytest.skip("one schedule is played")
    caplog.set_level(logging.CRITICAL)  # servers die all the time
    size = LONG if long else USUAL
    found = failures(range(batch * size, (batch + 1) * size))
    assert not found, f"{len(found)} of {size} schedules; each is played again by --schedule:\n" + "\n".join(found)


def test_the_schedule_that_is_asked_for(request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("schedule")
    if seed is None:
        pytest.skip("none is")
    schedule = draw(seed)
    outcome = play(schedule)
    assert not outcome.findings, "\n".join([str(schedule), "", *outcome.log, "", *outcome.findings])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.pods is not None], ids=lambda kind: kind.name)
def test_pods_without_a_job_go_on_when_those_that_have_succeeded_are_drained(kind: WorkloadKind) -> None:
    blows = Blow("drain", "ending", 0.0, 20.0), Blow("drain", "at once", 0.0, 20.0)
    schedule = Schedule(0, (Order("a", kind, "", 20),), blows, Delays(), spread=5.0)
    assert not play(schedule).findings


def test_every_kind_meets_every_deed_within_few_schedules() -> None:
    drawn = [draw(seed) for seed in range(len(KINDS) * len(ALL_DEEDS))]
    pairs = {(one.orders[0].kind.name, one.blows[0].deed) for one in drawn}
    possible = {(kind.name, deed) for kind in KINDS for deed in ALL_DEEDS if kind.queues or deed not in QUEUE_DEEDS}
    assert possible <= pairs


def test_a_schedule_is_the_same_whenever_it_is_played() -> None:
    schedule = draw(1)
    assert draw(1) == schedule
    assert play(schedule).log == play(schedule).log
