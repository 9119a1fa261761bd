"""The state machine of dispatch as a table: what the manager and its workers are like, and what is to be done."""

from datetime import datetime, timedelta
from math import inf
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.multicluster.dispatch.manager import CHECK, NOW, SETTINGS, clone, with_check, workload

from muster.api.conditions import find_true, is_true
from muster.api.config.types import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL
from muster.api.kueue import (
    CHECK_PENDING,
    CHECK_READY,
    CHECK_REJECTED,
    CHECK_RETRY,
    Admission,
    AdmissionCheckState,
    PodSetAssignment,
    Workload,
)
from muster.api.kueue.names import (
    ADMITTED,
    DEACTIVATION_TARGET,
    ELASTIC_JOB,
    EVICTED,
    FINISHED,
    OUT_OF_SYNC,
    QUOTA_RESERVED,
)
from muster.api.managed.dispatch import Refusal, describe_barred
from muster.api.meta import Condition
from muster.multicluster.dispatch.decide import STOPPING, TRYING, decide
from muster.multicluster.dispatch.views import DispatchPlan, DispatchSettings, DispatchView, Remote, RemoteJob
from muster.multicluster.links.sanitizing import add_time_zone
from muster.queueing.conditions import put

LATER = NOW + timedelta(minutes=15)
JOB = RemoteJob("job-train-12345", started=True)
NEW_JOB = RemoteJob("job-train-12345")
ENDING = RemoteJob("job-train-12345", started=True, ended=True, active=True)
DONE = RemoteJob("job-train-12345", started=True, ended=True)
OLD_JOB = RemoteJob("", active=True)


def holding(given: Workload, *types: str, reason: str = "R", seconds: int = 0) -> Workload:
    """The workload with these conditions True."""
    conditions = given.status.conditions
    for type in types:
        conditions = put(conditions, type, True, reason, "m", NOW + timedelta(seconds=seconds))
    return replace(given, status=replace(given.status, conditions=conditions))


def local(state: str = CHECK_PENDING, *types: str, **status: Any) -> Workload:
    """The workload here, with quota."""
    given = holding(workload(), QUOTA_RESERVED, *types)
    return replace(given, status=replace(with_check(given.status, state, NOW), **status))


def there(*types: str, reason: str = "R", seconds: int = 0) -> Workload:
    return holding(clone(workload()), *types, reason=reason, seconds=seconds)


def plan(given: Workload, *remotes: Remote, home: str = "", now: Any = NOW, **view: Any) -> DispatchPlan:
    settings, check = view.pop("settings", SETTINGS), view.pop("check", CHECK)
    return decide(DispatchView(given, check, home, remotes=remotes, **view), settings, now)


def going(given: Workload) -> Workload:
    """The workload, deleted and held."""
    return replace(given, metadata=replace(given.metadata, deletion_timestamp=NOW))


def state(found: DispatchPlan) -> tuple[str, str]:
    check = found.status.admission_checks[0]
    return check.state, check.message


RUNNING = there(QUOTA_RESERVED, ADMITTED)
READY = local(CHECK_READY, ADMITTED, cluster_name="a")
ENDED = holding(RUNNING, FINISHED)
EMPTY = Remote("a"), Remote("b")


@pytest.mark.parametrize(
    ("given", "remotes", "home", "expected"),
    [
        pytest.param(local(), EMPTY, "", {"create": ("a", "b")}, id="clones go to all"),
        pytest.param(
            local(), (Remote("a", lost_since=NOW), Remote("b")), "", {"create": ("b",)}, id="but to those that are lost"
        ),
        pytest.param(
            local(), (Remote("a", is_barred=True), Remote("b")), "", {"create": ("b",)}, id="or have another's job"
        ),
        pytest.param(
            local(), (Remote("a", chosen_for=False), Remote("b")), "", {"create": ("b",)}, id="or are not configured"
        ),
        pytest.param(
            local(),
            (Remote("a", job=RemoteJob("job-train-other")), Remote("b")),
            "",
            {"create": ("b",), "remove": ("a",)},
            id="12404-a job of an earlier workload goes first",
        ),
        pytest.param(
            local(),
            (Remote("a", job=NEW_JOB), Remote("b")),
            "",
            {"create": ("a", "b")},
            id="a job of its own that has lost its clone gets one again",
        ),
        pytest.param(
            local(),
            (Remote("a", job=replace(JOB, is_going=True)), Remote("b")),
            "",
            {"create": ("b",), "remove": ("a",)},
            id="but not while that job is being deleted",
        ),
        pytest.param(
            local(),
            (Remote("a", workload=RUNNING, job=replace(JOB, is_going=True)), Remote("b", workload=there())),
            "",
            {"remove": ("a",)},
            id="where its job is being deleted is no home",
        ),
        pytest.param(
            local(), (Remote("a", workload=there()), Remote("b", workload=there())), "", {}, id="none admits it: wait"
        ),
        pytest.param(local(), (Remote("a", workload=there(QUOTA_RESERVED)),), "", {}, id="46-quota is not admission"),
        pytest.param(
            local(),
            (Remote("a", workload=RUNNING), Remote("b", workload=there())),
            "a",
            {"mirror": "a", "remove": ("b",)},
            id="a clone alone holds nobody up: it has no pods, and its cluster may refuse to let it go",
        ),
        pytest.param(
            local(),
            (Remote("a", workload=RUNNING), Remote("b", workload=there(), job=JOB)),
            "a",
            {"remove": ("b",)},
            id="46-jobs elsewhere go before there is one at home",
        ),
        pytest.param(
            local(),
            (Remote("a", workload=RUNNING), Remote("b", workload=there(), job=OLD_JOB)),
            "a",
            {"remove": ("b",)},
            id="46-those that were made for another, too",
        ),
        pytest.param(
            local(),
            (Remote("a", workload=RUNNING), Remote("b", workload=ENDED, job=DONE)),
            "a",
            {"mirror": "a", "remove": ("b",)},
            id="but not one that is over",
        ),
        pytest.param(
            local(), (Remote("a", workload=RUNNING), Remote("b")), "a", {"mirror": "a"}, id="then the job is made"
        ),
        pytest.param(
            local(),
            (Remote("a", workload=RUNNING), Remote("b", lost_since=NOW)),
            "a",
            {"mirror": "a"},
            id="a lost cluster holds nobody up: no job was ever there",
        ),
        pytest.param(
            READY,
            (Remote("a", workload=RUNNING, job=JOB), Remote("b", workload=RUNNING, job=JOB)),
            "a",
            {"mirror": "a", "remove": ("b",)},
            id="a duplicate goes when its cluster is back",
        ),
        pytest.param(
            READY,
            (Remote("a", lost_since=NOW), Remote("b", workload=RUNNING)),
            "a",
            {"remove": ("b",), "wake_at": LATER},
            id="48-unreachable is not absent",
        ),
        pytest.param(
            workload(), (Remote("a", workload=RUNNING, job=JOB),), "a", {"remove": ("a",)}, id="no quota here"
        ),
        pytest.param(
            holding(READY, FINISHED), (Remote("a", workload=RUNNING, job=JOB),), "a", {"remove": ("a",)}, id="finished"
        ),
        pytest.param(
            holding(READY, FINISHED),
            (Remote("a", workload=ENDED, job=DONE), Remote("b", workload=ENDED, job=DONE)),
            "",
            {"remove": ("b",)},
            id="finished: what ended at home stays, with its output",
        ),
        pytest.param(
            holding(READY, FINISHED),
            (Remote("a", workload=RUNNING, job=ENDING),),
            "a",
            {"mirror": "a"},
            id="finished: pods end yet",
        ),
        pytest.param(
            going(holding(READY, FINISHED)),
            (Remote("a", workload=ENDED, job=DONE),),
            "",
            {"remove": ("a",)},
            id="deleted: what ended there goes",
        ),
        pytest.param(
            workload(), (Remote("a", is_barred=True),), "", {}, id="47-what another has made is never touched"
        ),
        pytest.param(
            workload(), (Remote("a", lost_since=NOW),), "a", {"wake_at": LATER}, id="its home is kept while it is lost"
        ),
        pytest.param(
            local(CHECK_PENDING, EVICTED),
            (Remote("a", workload=RUNNING, job=JOB),),
            "a",
            {"mirror": "a", "evict": "a", "wake_at": NOW + STOPPING},
            id="evicted here: it stops there, and holds its quota until then",
        ),
        pytest.param(
            local(CHECK_PENDING, EVICTED),
            (Remote("a", workload=holding(RUNNING, DEACTIVATION_TARGET), job=JOB),),
            "a",
            {"mirror": "a", "wake_at": NOW + STOPPING},
            id="evicted here, and told",
        ),
        pytest.param(
            local(CHECK_PENDING, EVICTED), (Remote("a", workload=RUNNING),), "a", {"remove": ("a",)}, id="no job yet"
        ),
        pytest.param(
            local(CHECK_PENDING, EVICTED),
            (Remote("a", workload=RUNNING),),
            "",
            {"remove": ("a",), "stopped": True},
            id="no home yet, or none any more",
        ),
        pytest.param(
            local(CHECK_PENDING, EVICTED),
            (Remote("a", workload=there(DEACTIVATION_TARGET), job=NEW_JOB),),
            "a",
            {"mirror": "a", "remove": ("a",)},
            id="evicted here, and stopped there",
        ),
        pytest.param(
            local(CHECK_PENDING, EVICTED),
            (Remote("a", workload=holding(RUNNING, FINISHED), job=JOB),),
            "a",
            {"mirror": "a"},
            id="evicted here, and ended there before that",
        ),
        pytest.param(
            local(CHECK_PENDING, EVICTED),
            (Remote("a", workload=holding(RUNNING, FINISHED, reason=OUT_OF_SYNC), job=NEW_JOB),),
            "a",
            {"mirror": "a", "remove": ("a",)},
            id="evicted here, and out of sync there",
        ),
        pytest.param(
            replace(READY, spec=replace(READY.spec, priority=7)),
            (Remote("a", workload=RUNNING, job=JOB),),
            "a",
            {"mirror": "a", "align": ("a",)},
            id="another priority goes through",
        ),
        pytest.param(
            local(),
            (Remote("a", workload=there(DEACTIVATION_TARGET, EVICTED), job=NEW_JOB), Remote("b")),
            "",
            {"create": ("b",), "remove": ("a",)},
            id="what was told to stop for good never starts again",
        ),
        pytest.param(local(CHECK_RETRY), (Remote("a", workload=RUNNING, job=JOB),), "a", {}, id="its eviction is due"),
        pytest.param(
            READY,
            (Remote("a", workload=holding(RUNNING, FINISHED), job=JOB),),
            "a",
            {"mirror": "a"},
            id="finished there: its status first",
        ),
        pytest.param(
            local(),
            (Remote("a", workload=there(QUOTA_RESERVED), job=NEW_JOB),),
            "a",
            {"remove": ("a",)},
            id="no longer admitted there, before it was ready here",
        ),
        pytest.param(
            local(),
            (Remote("a", workload=RUNNING, is_barred=True),),
            "a",
            {"remove": ("a",)},
            id="11877-a job in its way",
        ),
        pytest.param(
            local(),
            (Remote("a", job=JOB, is_barred=True),),
            "a",
            {"remove": ("a",)},
            id="a job in the way of one of a group: the others go",
        ),
        pytest.param(
            READY,
            (Remote("a", workload=RUNNING, job=OLD_JOB),),
            "a",
            {"mirror": "a"},
            id="a job of that name that was made for another: it goes, and ours is made",
        ),
        pytest.param(
            local(),
            (Remote("a", workload=RUNNING, job=OLD_JOB), Remote("b", workload=there(), job=NEW_JOB)),
            "a",
            {"remove": ("b",)},
            id="but jobs elsewhere first",
        ),
        pytest.param(
            local(CHECK_PENDING, EVICTED),
            (Remote("a", workload=RUNNING, job=OLD_JOB),),
            "a",
            {"remove": ("a",)},
            id="evicted here, and what is there is not its job",
        ),
        pytest.param(
            holding(READY, FINISHED),
            (Remote("a", workload=ENDED, job=OLD_JOB),),
            "a",
            {"remove": ("a",)},
            id="finished, and what is there is not its job",
        ),
    ],
)
def test_what_is_to_be_done(given: Workload, remotes: tuple[Remote, ...], home: str, expected: dict[str, Any]) -> None:
    found = plan(given, *remotes, home=home)
    did = {
        name: getattr(found, name) for name in ("create", "align", "remove", "evict", "mirror", "stopped", "wake_at")
    }
    assert {name: value for name, value in did.items() if value} == expected
    assert found.home == home


@pytest.mark.parametrize(
    ("remotes", "home"),
    [
        pytest.param((Remote("a", workload=there()), Remote("b", workload=RUNNING)), "b", id="the only one"),
        pytest.param(
            (Remote("a", workload=there(ADMITTED, seconds=5)), Remote("b", workload=RUNNING)), "b", id="the first"
        ),
        pytest.param(
            (Remote("a", workload=RUNNING), Remote("b", workload=there(ADMITTED, seconds=5), job=JOB)),
            "b",
            id="where it runs already",
        ),
        pytest.param(
            (
                Remote("a", workload=RUNNING),
                Remote("b", workload=there(ADMITTED, seconds=9), job=JOB),
                Remote("c", workload=there(ADMITTED, seconds=5), job=JOB),
            ),
            "c",
            id="the first of those where it runs already",
        ),
        pytest.param((Remote("a", workload=RUNNING, is_barred=True), Remote("b", workload=there())), "", id="barred"),
        pytest.param((Remote("a", workload=RUNNING, lost_since=NOW), Remote("b", workload=there())), "", id="lost"),
        pytest.param((Remote("a", workload=holding(RUNNING, EVICTED)),), "", id="evicted"),
        pytest.param((Remote("a", workload=holding(RUNNING, FINISHED)),), "", id="over"),
    ],
)
def test_who_becomes_its_home(remotes: tuple[Remote, ...], home: str) -> None:
    found = plan(local(), *remotes)
    assert found.home == home
    if home:  # it is stored before anything else is done
        assert (found.create, found.remove, found.mirror, found.status) == ((), (), "", local().status)


def test_those_that_admit_it_in_the_same_second_take_turns() -> None:
    def home(number: int, *clusters: str) -> str:
        given = replace(local(), metadata=replace(local().metadata, uid=str(number)))
        return plan(given, *(Remote(cluster, workload=RUNNING) for cluster in clusters)).home

    homes = [home(number, "a", "b", "c") for number in range(300)]
    assert [home(number, "c", "a", "b") for number in range(300)] == homes, "whatever their order"
    assert all(70 <= homes.count(cluster) <= 130 for cluster in "abc")


@pytest.mark.parametrize(("moment", "home"), [(datetime.min, "a"), (NOW.replace(tzinfo=None, microsecond=1), "c")])  # noqa: DTZ901
def test_a_worker_that_leaves_out_its_time_zone_stops_nobody(moment: datetime, home: str) -> None:
    admitted = Condition(type=ADMITTED, status="True", reason="R", message="m", last_transition_time=moment)
    zoneless = replace(there(), status=replace(there().status, conditions=(admitted,)))
    assert plan(local(), Remote("a", workload=add_time_zone(zoneless)), Remote("c", workload=RUNNING)).home == home


@pytest.mark.parametrize(
    ("there", "seconds", "home"),
    [
        pytest.param((Remote("b", workload=RUNNING, lost_since=NOW),), 59, "", id="one was not found yet"),
        pytest.param((Remote("b", workload=RUNNING, lost_since=NOW),), 60, "a", id="one cannot be found"),
        pytest.param((Remote("b", workload=there()),), 0, "a", id="all were found"),
        pytest.param((Remote("b", workload=RUNNING, job=JOB),), 0, "b", id="it was found where it runs"),
    ],
)
def test_after_a_start_it_may_run_where_nothing_was_found_yet(
    there: tuple[Remote, ...], seconds: int, home: str
) -> None:
    settings, now = replace(SETTINGS, began=NOW), NOW + timedelta(seconds=seconds)
    found = plan(local(), Remote("a", workload=RUNNING), *there, settings=settings, now=now)
    assert (found.home, found.wake_at) == (home, None if home else NOW + TRYING)
    later = replace(local(), metadata=replace(local().metadata, creation_timestamp=NOW + timedelta(seconds=1)))
    assert plan(later, Remote("a", workload=RUNNING), Remote("b", lost_since=NOW), settings=settings).home == "a"


@pytest.mark.parametrize("given", [READY, workload()])
def test_a_home_that_was_tried_is_given_up_after_the_timeout(given: Workload) -> None:
    settings = replace(SETTINGS, lost_timeout=timedelta(seconds=5), began=NOW)
    home = Remote("a", lost_since=NOW, is_tried=True)
    found = plan(given, home, home="a", settings=settings, now=NOW + timedelta(seconds=4))
    assert (found.home, found.status, found.wake_at) == ("a", given.status, NOW + timedelta(seconds=5))
    found = plan(given, home, home="a", settings=settings, now=NOW + timedelta(seconds=5))
    assert (found.home, found.status) != ("a", given.status)


@pytest.mark.parametrize("given", [READY, workload()])
def test_a_home_is_not_given_up_before_it_could_be_tried(given: Workload) -> None:
    settings = replace(SETTINGS, lost_timeout=timedelta(), began=NOW)
    for seconds in (0, 59):
        found = plan(given, Remote("a", lost_since=NOW), home="a", settings=settings, now=NOW + timedelta(0, seconds))
        assert (found.home, found.status, found.wake_at) == ("a", given.status, NOW + TRYING)
    found = plan(given, Remote("a", lost_since=NOW), home="a", settings=settings, now=NOW + TRYING)
    assert (found.home, found.status) != ("a", given.status)


@pytest.mark.parametrize(
    ("given", "remote", "minutes", "expected"),
    [
        pytest.param(READY, Remote("a"), 0, (CHECK_RETRY, "Admitting remote no longer exists"), id="deleted there"),
        pytest.param(READY, Remote("a", lost_since=NOW), 14, (CHECK_READY, ""), id="lost"),
        pytest.param(
            READY, Remote("a", lost_since=NOW), 15, (CHECK_RETRY, "Admitting remote lost"), id="lost for good"
        ),
        pytest.param(
            READY,
            Remote("a", workload=holding(RUNNING, EVICTED), job=JOB),
            0,
            (
                CHECK_RETRY,
                'Workload evicted on worker cluster: "a", resetting for re-admission. Previously: "Ready"',
            ),
            id="evicted there",
        ),
        pytest.param(
            READY,
            Remote("a", workload=there(QUOTA_RESERVED, FINISHED, reason=OUT_OF_SYNC), job=JOB),
            0,
            (CHECK_RETRY, 'Workload out of sync on worker cluster: "a". m'),
            id="out of sync there",
        ),
        pytest.param(
            local(CHECK_PENDING, nominated_cluster_names=("a",)),
            Remote("a", workload=RUNNING, job=NEW_JOB),
            0,
            (CHECK_READY, 'The workload was admitted on "a"'),
            id="its job is there",
        ),
        pytest.param(local(), Remote("a", workload=RUNNING), 0, (CHECK_PENDING, ""), id="its job is not there yet"),
        pytest.param(
            local(), Remote("a", workload=RUNNING, job=OLD_JOB), 0, (CHECK_PENDING, ""), id="another job is there"
        ),
        pytest.param(
            READY,
            Remote("a", workload=holding(RUNNING, FINISHED), job=OLD_JOB),
            0,
            (CHECK_RETRY, "Admitting remote no longer exists"),
            id="another job has ended there",
        ),
    ],
)
def test_what_the_check_says(given: Workload, remote: Remote, minutes: int, expected: tuple[str, str]) -> None:
    found = plan(given, remote, home="a", now=NOW + timedelta(minutes=minutes))
    assert state(found) == expected
    assert [note.message for note in found.notes] == ([expected[1]] if expected[0] != state_of(given) else [])


def test_what_is_ready_and_is_nowhere_begins_anew() -> None:
    assert state(plan(READY, *EMPTY)) == (CHECK_RETRY, "Admitting remote no longer exists")


def state_of(given: Workload) -> str:
    return given.status.admission_checks[0].state


def test_its_cluster_is_named_once_it_is_ready_and_was_nominated() -> None:
    remote = Remote("a", workload=RUNNING, job=JOB)
    nominated = plan(local(), remote, home="a")
    assert (nominated.status.nominated_cluster_names, nominated.status.cluster_name) == (("a",), None)
    named = plan(replace(local(), status=nominated.status), remote, home="a")
    assert (named.status.nominated_cluster_names, named.status.cluster_name) == ((), "a")


@pytest.mark.parametrize(
    ("given", "remote", "minutes", "gives_up"),
    [
        pytest.param(workload(), Remote("a"), 0, True, id="nothing is there"),
        pytest.param(workload(), Remote("a", workload=there()), 0, False, id="a clone is there"),
        pytest.param(workload(), Remote("a", job=JOB), 0, False, id="a job is there"),
        pytest.param(workload(), Remote("a", lost_since=NOW), 14, False, id="lost"),
        pytest.param(workload(), Remote("a", lost_since=NOW), 15, True, id="lost for good"),
        pytest.param(holding(READY, FINISHED), Remote("a", workload=ENDED, job=DONE), 0, True, id="all is over there"),
        pytest.param(holding(READY, FINISHED), Remote("a", workload=RUNNING, job=DONE), 0, True, id="so the job says"),
        pytest.param(holding(READY, FINISHED), Remote("a", workload=ENDED), 0, True, id="so the clone says"),
        pytest.param(
            holding(READY, FINISHED), Remote("a", workload=ENDED, job=ENDING), 0, False, id="its pods end yet"
        ),
        pytest.param(holding(READY, FINISHED), Remote("a", workload=RUNNING, job=JOB), 0, False, id="it runs there"),
        pytest.param(workload(), Remote("a", workload=ENDED, job=DONE), 0, False, id="over there, not here"),
        pytest.param(
            local(CHECK_PENDING, EVICTED), Remote("a", workload=ENDED, job=DONE), 0, False, id="evicted, over there"
        ),
        pytest.param(
            going(holding(READY, FINISHED)), Remote("a", workload=ENDED, job=DONE), 0, False, id="deleted, over there"
        ),
        pytest.param(local(), Remote("a"), 0, True, id="claimed in vain"),
        pytest.param(local(), Remote("a", lost_since=NOW), 15, True, id="claimed, and lost for good"),
        pytest.param(READY, Remote("a"), 0, False, id="it is evicted here first"),
        pytest.param(local(CHECK_PENDING, EVICTED), Remote("a"), 0, True, id="evicted, and nothing is there any more"),
        pytest.param(local(CHECK_PENDING, EVICTED), Remote("a", job=JOB), 0, False, id="evicted, and its job is there"),
        pytest.param(local(CHECK_PENDING, EVICTED), Remote("a", lost_since=NOW), 14, False, id="evicted, and lost"),
        pytest.param(local(CHECK_PENDING, EVICTED), Remote("a", lost_since=NOW), 15, True, id="evicted, lost for good"),
    ],
)
def test_when_a_home_is_given_up(given: Workload, remote: Remote, minutes: int, gives_up: bool) -> None:
    found = plan(given, remote, home="a", now=NOW + timedelta(minutes=minutes))
    assert (found.home == "") is gives_up


def test_a_cluster_in_which_it_ended_at_once_is_named_before_it_is_given_up() -> None:
    given = holding(local(nominated_cluster_names=("a", "b")), FINISHED)
    found = plan(given, Remote("a", workload=ENDED, job=DONE), home="a")
    assert (found.home, found.status.cluster_name, found.status.nominated_cluster_names) == ("a", "a", ())


@pytest.mark.parametrize(("reason", "written"), [("Succeeded", "Succeeded"), ("", "Unknown"), ("no reason", "Unknown")])
def test_the_end_there_is_the_end_here_in_words_that_can_be_written(reason: str, written: str) -> None:
    remote = Remote("a", workload=there(QUOTA_RESERVED, ADMITTED, FINISHED, reason=reason), job=JOB)
    for given in (READY, holding(READY, EVICTED)):  # it came to its end before it was stopped
        finished = find_true(plan(given, remote, home="a", mirrored=True).status.conditions, FINISHED)
        assert finished is not None
        assert (finished.reason, finished.message) == (written, "m")


def test_a_job_that_shows_its_end_has_a_while_to_finish_its_workload_itself() -> None:
    remote = Remote("a", workload=there(QUOTA_RESERVED, ADMITTED, FINISHED), job=JOB)
    for seconds, ends in ((0.0, False), (4.9, False), (5.0, True)):
        now = NOW + timedelta(seconds=seconds)
        found = plan(READY, remote, home="a", mirrored=True, ended_since=NOW, now=now)
        assert is_true(found.status.conditions, FINISHED) is ends
        assert found.wake_at == (None if ends else NOW + timedelta(seconds=5))
    evicted = plan(holding(READY, EVICTED), remote, home="a", mirrored=True, ended_since=NOW, now=NOW)
    assert is_true(evicted.status.conditions, FINISHED), "an eviction does not wait"


def test_what_cannot_be_dispatched_is_rejected() -> None:
    sentence = "No multikueue adapter found for owner kind batch/v1, Kind=CronJob"
    assert state(plan(local(), *EMPTY, objection=sentence)) == (CHECK_REJECTED, sentence)


def test_other_checks_come_first() -> None:
    checks = (*local().status.admission_checks, AdmissionCheckState(name="budget", state=CHECK_PENDING, message=""))
    assert plan(local(admission_checks=checks), *EMPTY).create == ()


@pytest.mark.parametrize(("minutes", "names"), [(0, "a b c"), (4, "a b c"), (5, "a b c d e f"), (10, "a b c d e f g")])
def test_the_incremental_dispatcher_asks_more_each_round(minutes: int, names: str) -> None:
    settings = DispatchSettings(SETTINGS.lost_timeout, INCREMENTAL)
    found = plan(local(), *map(Remote, "abcdefg"), settings=settings, now=NOW + timedelta(minutes=minutes))
    assert " ".join(found.status.nominated_cluster_names) == names
    assert (found.wake_at is None) is (len(found.status.nominated_cluster_names) == 7)


def test_no_more_clusters_are_asked_than_a_status_can_name() -> None:
    remotes = [Remote(f"c{number:02}") for number in range(25)]
    for dispatcher in (ALL_AT_ONCE, INCREMENTAL):
        settings = DispatchSettings(SETTINGS.lost_timeout, dispatcher, step=25)
        names = plan(local(), *remotes, settings=settings).status.nominated_cluster_names
        assert names == tuple(f"c{number:02}" for number in range(20))


def test_a_round_asks_no_more_when_some_were_asked_in_it() -> None:
    settings = DispatchSettings(SETTINGS.lost_timeout, INCREMENTAL)
    for asked, names in ((("a",), "a b c"), (("a", "b", "c"), "a b c"), (("a", "b", "c", "d"), "a b c d")):
        found = plan(local(nominated_cluster_names=asked), *map(Remote, "abcdefg"), settings=settings)
        assert " ".join(found.status.nominated_cluster_names) == names


def test_the_check_names_the_clusters_that_have_anothers_job_as_long_as_one_has() -> None:
    named = plan(local(), Remote("a", is_barred=True), Remote("b"))
    assert state(named) == (CHECK_PENDING, describe_barred(["a"]))
    assert state(plan(replace(local(), status=named.status), *EMPTY)) == (CHECK_PENDING, "")
    assert plan(local(), *EMPTY).status.admission_checks == local().status.admission_checks


@pytest.mark.parametrize(("minutes", "names"), [(0, "c"), (4, "c"), (5, "c a"), (10, "c a b"), (15, "c a b d")])
def test_the_earliest_start_dispatcher_asks_the_next_one_each_round(minutes: int, names: str) -> None:
    settings = DispatchSettings(SETTINGS.lost_timeout, EARLIEST_START, step=3)
    remotes = (Remote("a", seconds=60), Remote("b"), Remote("c", seconds=0), Remote("d", seconds=inf))
    found = plan(local(), *remotes, settings=settings, now=NOW + timedelta(minutes=minutes))
    assert " ".join(found.status.nominated_cluster_names) == names
    assert (found.wake_at is None) is (minutes == 15)


def test_of_clusters_that_are_alike_the_first_that_is_configured_is_asked() -> None:
    settings = DispatchSettings(SETTINGS.lost_timeout, EARLIEST_START)
    for seconds in (None, 0.0, 60.0):
        found = plan(local(), *(Remote(name, seconds=seconds) for name in "ba"), settings=settings)
        assert found.create == ("b",)


def test_a_dispatcher_of_another_program_nominates_by_itself() -> None:
    settings = DispatchSettings(SETTINGS.lost_timeout, "example.com/mine")
    assert plan(local(), *EMPTY, settings=settings).create == ()
    assert plan(local(nominated_cluster_names=("b",)), *EMPTY, settings=settings).create == ("b",)


UNCHECKED = local(admission_checks=(), nominated_cluster_names=("a",))


@pytest.mark.parametrize(
    ("remotes", "home", "expected", "moves_to"),
    [
        pytest.param((Remote("a", workload=there()), Remote("b")), "", {"remove": ("a",)}, "", id="clones go"),
        pytest.param(
            (Remote("a", workload=RUNNING),), "a", {"remove": ("a",)}, "a", id="and where its job was to be made"
        ),
        pytest.param((Remote("a"),), "a", {}, "", id="then that is its home no more"),
        pytest.param((Remote("a", workload=RUNNING, job=JOB),), "a", {"mirror": "a"}, "a", id="what runs goes on"),
        pytest.param((Remote("a", lost_since=NOW - SETTINGS.lost_timeout),), "a", {}, "", id="lost for good"),
    ],
)
def test_once_its_check_is_taken_away_it_is_sent_no_more(
    remotes: tuple[Remote, ...], home: str, expected: dict[str, Any], moves_to: str
) -> None:
    found = plan(UNCHECKED, *remotes, home=home, check="")
    did = {name: getattr(found, name) for name in ("create", "remove", "mirror", "evict")}
    assert {name: value for name, value in did.items() if value} == expected
    assert found.home == moves_to
    if not home:
        assert found.status.nominated_cluster_names == ()


def test_a_cluster_that_is_configured_no_more_keeps_no_clone() -> None:
    found = plan(local(), Remote("a", chosen_for=False, workload=there()), Remote("b"))
    assert (found.remove, found.create) == (("a",), ("b",))


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [(0, {"mirror": "a", "evict": "a"}), (4, {"mirror": "a", "evict": "a"}), (5, {"remove": ("a",)})],
)
def test_a_worker_that_does_not_stop_it_in_time_has_it_taken_away(minutes: int, expected: dict[str, Any]) -> None:
    given, remote = local(CHECK_PENDING, EVICTED), Remote("a", workload=RUNNING, job=JOB)
    found = plan(given, remote, home="a", now=NOW + timedelta(minutes=minutes))
    did = {name: getattr(found, name) for name in ("remove", "mirror", "evict")}
    assert {name: value for name, value in did.items() if value} == expected
    assert found.home == "a", "until nothing of it is there"
    assert found.wake_at == (None if minutes == 5 else NOW + STOPPING)


def sized(given: Workload, count: int, quota: int, refused: int = 0) -> Workload:
    """An elastic one that asks for so many pods, has quota for so many, and was refused so many where it runs."""
    (podset,) = given.spec.pod_sets
    spec = replace(given.spec, pod_sets=(replace(podset, count=count),))
    asked = replace(given, spec=replace(spec, pod_sets=(replace(podset, count=refused),)))
    annotations = {ELASTIC_JOB: "true"} | (Refusal.of(asked, "No!").make_annotation() if refused else {})
    admission = Admission(cluster_queue="q", pod_set_assignments=(PodSetAssignment(name="main", count=quota),))
    return replace(
        given,
        metadata=replace(given.metadata, annotations=annotations),
        spec=spec,
        status=replace(given.status, admission=admission),
    )


@pytest.mark.parametrize(
    ("here", "there", "align", "quota", "said"),
    [
        pytest.param(sized(READY, 6, 6), sized(RUNNING, 4, 4), ("a",), 6, "waits for quota for 2 more pods", id="asks"),
        pytest.param(sized(READY, 6, 6, 6), sized(RUNNING, 4, 4), (), 4, "let it grow: No!", id="gives back"),
        pytest.param(sized(READY, 6, 4, 6), sized(RUNNING, 4, 4), (), 4, "let it grow: No!", id="and is quiet"),
        pytest.param(
            replace(sized(READY, 6, 4, 6), spec=replace(sized(READY, 6, 4).spec, priority=7)),
            sized(RUNNING, 4, 4),
            ("a",),
            4,
            "let it grow: No!",
            id="what else changes goes there",
        ),
        pytest.param(
            sized(READY, 5, 5, 6), sized(RUNNING, 4, 4), ("a",), 5, "for quota for 1 more pod", id="another size"
        ),
        pytest.param(sized(READY, 3, 3, 6), sized(RUNNING, 4, 4), ("a",), 3, 'admitted on "a"', id="it shrinks"),
    ],
)
def test_what_a_worker_refuses_to_grow_by_is_given_back(
    here: Workload, there: Workload, align: tuple[str, ...], quota: int, said: str
) -> None:
    found = plan(here, Remote("a", workload=there, job=JOB), home="a")
    assert found.status.admission is not None
    assert (found.align, found.mirror, found.status.admission.pod_set_assignments[0].count) == (align, "a", quota)
    assert state(found)[0] == CHECK_READY
    assert state(found)[1].endswith(said)
