"""Tests of admission checks: which concern a workload, their messages, and their states after an eviction."""

from typing import Any

import msgspec
import pytest
from tests.unit.queueing.lives import NOW, at, check

from muster.api.conditions import find
from muster.api.kueue import ClusterQueueSpec, WorkloadStatus
from muster.queueing.model import Assignment, FlavorChoice, Mode, PodSetAssignment, QueueSpec
from muster.queueing.workload import checks
from muster.queueing.workload.reservation import reserve_quota


def states(**lines: str) -> checks.States:
    return tuple(check(name, line) for name, line in lines.items())


def queue(*checks: dict[str, Any]) -> ClusterQueueSpec:
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": 1}]} for name in ("f", "g")]
    return msgspec.convert(
        {
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
            "admissionChecksStrategy": {"admissionChecks": list(checks)},
        },
        ClusterQueueSpec,
    )


def test_the_checks_of_a_queue() -> None:
    spec = queue({"name": "all"}, {"name": "each", "onFlavors": ["g", "f"]}, {"name": "one", "onFlavors": ["g"]})
    assert checks.of_queue(spec) == {"all": frozenset(), "each": frozenset(), "one": frozenset({"g"})}
    assert checks.of_queue(ClusterQueueSpec()) == {}


@pytest.mark.parametrize(
    ("flavors", "expected"),
    [
        pytest.param(None, ["all"], id="before there is quota"),
        pytest.param([], ["all"], id="no flavor"),
        pytest.param(["f"], ["all"], id="another flavor"),
        pytest.param(["g"], ["all", "one"], id="its flavor"),
    ],
)
def test_pitfall_44_which_checks_concern_a_workload_is_known_once_it_has_flavors(
    flavors: list[str] | None, expected: list[str]
) -> None:
    assert checks.list_required_checks({"all": frozenset(), "one": frozenset({"g", "h"})}, flavors) == expected


@pytest.mark.parametrize(
    ("before", "names", "after"),
    [
        pytest.param({}, "", {}, id="none"),
        pytest.param({}, "ba", {"a": "Pending", "b": "Pending"}, id="new"),
        pytest.param({"b": "Ready @-9: go"}, "ba", {"a": "Pending", "b": "Ready @-9: go"}, id="one more"),
        pytest.param({"a": "Ready @-9: go", "b": "Pending @-9"}, "a", {"a": "Ready @-9: go"}, id="one less"),
        pytest.param({"a": "Ready @-9: go"}, "b", {"b": "Pending"}, id="another"),
        pytest.param({"a": "Ready @-9: go"}, "", {}, id="none any more"),
    ],
)
def test_the_list_follows_the_queue(before: dict[str, str], names: str, after: dict[str, str]) -> None:
    assert checks.match_required_checks(states(**before), names, NOW) == states(**after)


def test_a_list_that_is_right_is_left_alone_in_whatever_order() -> None:
    given = states(b="Ready", a="Pending")
    assert checks.match_required_checks(given, ["a", "b"], at(60)) is given


@pytest.mark.parametrize(
    ("given", "rejection", "retry"),
    [
        ({}, None, None),
        ({"a": "Ready", "b": "Pending"}, None, None),
        ({"a": "Rejected"}, 'AdmissionCheck in Rejected state: "a"', None),
        (
            {"b": "Rejected: no", "a": "Rejected"},
            'AdmissionChecks in Rejected state: "a"; "b" (no)',
            None,
        ),
        ({"a": "Retry: later"}, None, 'Evicted due to AdmissionCheck in Retry state: "a" (later)'),
    ],
)
def test_what_checks_say(given: dict[str, str], rejection: str | None, retry: str | None) -> None:
    assert (checks.find_rejection(states(**given)), checks.retry(states(**given))) == (rejection, retry)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, None),
        ({"a": "Retry"}, None),
        ({"a": "Retry after=0"}, None),
        ({"a": "Ready after=9"}, None),
        ({"a": "Retry after=5", "b": "Retry after=7"}, 7),
        pytest.param(
            {"a": "Retry after=5 @10", "b": "Retry after=10"}, 15, id="the latest moment, not the longest wait"
        ),
    ],
)
def test_when_checks_let_come_again(given: dict[str, str], seconds: int | None) -> None:
    assert checks.retry_at(states(**given)) == (None if seconds is None else at(seconds))


def test_after_an_eviction_all_begin_anew_and_updates_of_pods_are_dropped() -> None:
    given = states(
        retry="Retry after=9 tries=1 updates @-9: m",
        ready="Ready tries=3 updates @-9: m",
        rejected="Rejected @-9: m",
        pending="Pending tries=2 @-9: m",
    )
    texts = "Reset to Pending after eviction. Previously:"
    assert checks.reset_checks(given, NOW) == states(
        retry=f"Pending after=9 tries=2: {texts} Retry",
        ready=f"Pending: {texts} Ready",
        rejected=f"Pending: {texts} Rejected",
        pending="Pending tries=2 @-9: m",
    )


@pytest.mark.parametrize(
    ("listed", "before", "admitted"),
    [
        pytest.param({}, {}, "True", id="no checks"),
        pytest.param({"other": {"g"}}, {}, "True", id="none for its flavor"),
        pytest.param({"all": {}}, {"all": "Ready"}, "True", id="ready already"),
        pytest.param({"all": {}}, {"all": "Pending"}, "False", id="not ready"),
        pytest.param({"mine": {"f"}}, {}, "False", id="one for its flavor"),
    ],
)
def test_pitfall_44_without_anything_to_check_admission_comes_with_the_reservation(
    listed: dict[str, Any], before: dict[str, str], admitted: str
) -> None:
    podset = PodSetAssignment("main", 1, {"cpu": FlavorChoice("f", Mode.FIT)}, {"cpu": 1000})
    spec = QueueSpec("q", checks={name: frozenset(flavors) for name, flavors in listed.items()})
    status = reserve_quota(WorkloadStatus(admission_checks=states(**before)), spec, Assignment((podset,), {}), NOW)
    assert find(status.conditions, "QuotaReserved").status == "True"
    assert find(status.conditions, "Admitted").status == admitted
