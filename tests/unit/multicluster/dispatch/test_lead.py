"""Which cluster gets a clone before the others, for how long, and what ends its head start."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.multicluster.dispatch.manager import CHECK, NOW, SETTINGS, clone, with_check, workload

from muster.api.config.types import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL
from muster.api.kueue import CHECK_PENDING, Workload
from muster.api.kueue.names import ADMITTED, EVICTED, PENDING, PENDING_EVALUATION, QUOTA_RESERVED
from muster.multicluster.dispatch.decide import decide
from muster.multicluster.dispatch.lead import HEAD_START, is_silent
from muster.multicluster.dispatch.views import DispatchPlan, DispatchView, Lead, Remote, RemoteJob
from muster.queueing.conditions import put

BOTH = Remote("a", seconds=0.0), Remote("b", seconds=0.0)
A = Lead("a", NOW)
OVER = NOW + HEAD_START


def plan(
    *remotes: Remote,
    now: Any = NOW,
    dispatcher: str = ALL_AT_ONCE,
    lead: Lead | None = None,
    nominated: tuple[str, ...] = (),
) -> DispatchPlan:
    here = workload()
    status = replace(here.status, conditions=put((), QUOTA_RESERVED, True, "R", "", NOW))
    here = replace(here, status=replace(with_check(status, CHECK_PENDING, NOW), nominated_cluster_names=nominated))
    return decide(
        DispatchView(here, CHECK, remotes=remotes, lead=lead), replace(SETTINGS, dispatcher=dispatcher, step=3), now
    )


def there(type: str, value: bool, reason: str = "R") -> Workload:
    found = clone(workload())
    conditions = put(found.status.conditions, type, value, reason, "", NOW)
    return replace(found, status=replace(found.status, conditions=conditions))


WAITS = there(QUOTA_RESERVED, False, PENDING)


@pytest.mark.parametrize(
    ("remotes", "create"),
    [
        pytest.param((Remote("a"), Remote("b", seconds=0.0)), ("b",), id="the one with room"),
        pytest.param((Remote("a", seconds=5.0), Remote("b", seconds=7.0)), ("a", "b"), id="no room anywhere: all"),
        pytest.param((Remote("a"), Remote("b")), ("a", "b"), id="nothing is known of their queues: all"),
        pytest.param((Remote("a", seconds=0.0, is_barred=True), Remote("b")), ("b",), id="none that cannot take it"),
        pytest.param((Remote("a", seconds=0.0, lost_since=NOW), Remote("b"), Remote("c")), ("b", "c"), id="none lost"),
        pytest.param(
            (Remote("a", workload=clone(workload())), Remote("b", seconds=0.0), Remote("c", seconds=0.0)),
            ("b", "c"),
            id="a clone of an earlier manager is there: all",
        ),
        pytest.param(
            (Remote("a", lost_since=NOW, job=RemoteJob("job-train-12345")), *BOTH[1:], Remote("c", seconds=0.0)),
            ("b", "c"),
            id="a job of its own may be in a lost one: all",
        ),
    ],
)
@pytest.mark.parametrize("dispatcher", [ALL_AT_ONCE, INCREMENTAL])
def test_the_cluster_with_room_gets_a_clone_first(
    remotes: tuple[Remote, ...], create: tuple[str, ...], dispatcher: str
) -> None:
    found = plan(*remotes, dispatcher=dispatcher)
    able = tuple(remote.cluster for remote in remotes if not remote.is_barred and remote.lost_since is None)
    assert (found.create, found.status.nominated_cluster_names) == (create, able)


def test_of_several_with_room_lots_are_drawn_and_all_are_nominated() -> None:
    found = plan(*BOTH)
    assert len(found.create) == 1
    assert found.lead == Lead(found.create[0], NOW)
    assert found.status.nominated_cluster_names == ("a", "b")
    assert found.wake_at == OVER


def test_the_earliest_start_dispatcher_asks_in_rounds_and_needs_none() -> None:
    assert plan(*BOTH, dispatcher=EARLIEST_START).lead is None


def test_a_dispatcher_of_another_program_gets_clones_where_it_says_at_once() -> None:
    found = plan(*BOTH, dispatcher="example.com/mine", nominated=("a", "b"))
    assert (found.create, found.lead) == (("a", "b"), None)


@pytest.mark.parametrize(
    ("first", "now", "create"),
    [
        pytest.param(Remote("a"), NOW, ("a",), id="its clone is not made yet"),
        pytest.param(Remote("a", workload=clone(workload())), NOW, (), id="it has not answered"),
        pytest.param(
            Remote("a", workload=there(QUOTA_RESERVED, False, PENDING_EVALUATION)), NOW, (), id="it has not looked yet"
        ),
        pytest.param(Remote("a", workload=there(QUOTA_RESERVED, True)), NOW, (), id="a check there is not ready"),
        pytest.param(Remote("a"), NOW - timedelta(hours=1), ("a", "b"), id="the clock was set back"),
        pytest.param(Remote("a", workload=clone(workload())), OVER - timedelta(seconds=1), (), id="it still may"),
        pytest.param(Remote("a", workload=clone(workload())), OVER, ("b",), id="it is silent"),
        pytest.param(Remote("a"), OVER, ("a", "b"), id="its clone is still not made"),
        pytest.param(Remote("a", workload=WAITS), NOW, ("b",), id="it has no room after all"),
        pytest.param(Remote("a", workload=there(EVICTED, True)), NOW, ("b",), id="it evicts at once"),
        pytest.param(Remote("a", lost_since=NOW), NOW, ("b",), id="it is lost"),
        pytest.param(Remote("a", is_barred=True), NOW, ("b",), id="another's job is there"),
        pytest.param(Remote("a", chosen_for=False), NOW, ("b",), id="it has left the configuration"),
    ],
)
def test_its_head_start_ends(first: Remote, now: Any, create: tuple[str, ...]) -> None:
    found = plan(first, Remote("b", seconds=0.0), lead=A, now=now)
    assert (found.create, found.lead) == (create, A)


def test_the_first_to_admit_runs_it_though_another_had_the_head_start() -> None:
    admitted = there(ADMITTED, True)
    assert plan(Remote("a", workload=clone(workload())), Remote("b", workload=admitted), lead=A).home == "b"


@pytest.mark.parametrize(
    ("first", "now", "silent"),
    [
        (Remote("a", workload=clone(workload())), NOW, False),
        (Remote("a", workload=clone(workload())), OVER, True),
        (Remote("a"), OVER, True),
        (Remote("a", workload=there(QUOTA_RESERVED, False, PENDING_EVALUATION)), OVER, True),
        (Remote("a", workload=WAITS), OVER, False),
        (Remote("a", workload=there(QUOTA_RESERVED, True)), OVER, False),  # a check there is not ready
    ],
)
def test_a_cluster_is_silent_that_has_not_tried_to_admit_in_its_head_start(
    first: Remote, now: Any, silent: bool
) -> None:
    assert is_silent(A, (first,), now) is silent
