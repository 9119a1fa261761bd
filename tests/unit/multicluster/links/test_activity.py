"""What is said of worker clusters and of the checks that need them, and when a lost one is tried again."""

from datetime import UTC, datetime
from math import inf

import msgspec
import pytest

from muster.api.kueue import MultiKueueCluster, MultiKueueConfig, MultiKueueConfigSpec
from muster.api.kueue.checks import AdmissionCheckParametersReference as Reference
from muster.api.meta import ObjectMeta
from muster.multicluster.links.activity import (
    find_check_activity,
    has_changed_usability,
    list_outages,
    make_connected,
    make_lost,
    make_unusable,
    seconds_until_retry,
)
from muster.queueing.pending.activity import Activity

NOON = datetime(2026, 1, 1, 12, 0, 5, 999_999, tzinfo=UTC)
OURS = Reference(api_group="kueue.x-k8s.io", kind="MultiKueueConfig", name="c")
CANNOT = "Cannot load the AdmissionChecks parameters: "


def config(*clusters: str) -> dict[str, MultiKueueConfig]:
    return {"c": MultiKueueConfig(metadata=ObjectMeta(name="c"), spec=MultiKueueConfigSpec(clusters=clusters))}


@pytest.mark.parametrize(
    ("clusters", "active", "reason", "message"),
    [
        ({"a": True, "b": True, "c": True}, True, "Active", "The admission check is active"),
        ({"a": True, "b": True}, True, "SomeActiveClusters", "Missing clusters: [c]"),
        ({"a": True, "b": False, "c": True}, True, "SomeActiveClusters", "Inactive clusters: [b]"),
        ({"c": True}, True, "SomeActiveClusters", "Missing clusters: [a b]"),
        ({"b": True, "c": False}, True, "SomeActiveClusters", "Missing clusters: [a], Inactive clusters: [c]"),
        ({}, False, "NoUsableClusters", "Missing clusters: [a b c]"),
        ({"c": False}, False, "NoUsableClusters", "Missing clusters: [a b], Inactive clusters: [c]"),
        ({"a": False, "b": False, "c": False}, False, "NoUsableClusters", "Inactive clusters: [a b c]"),
    ],
)
def test_a_check_is_active_while_one_of_its_clusters_is(
    clusters: dict[str, bool], active: bool, reason: str, message: str
) -> None:
    assert find_check_activity(OURS, config("a", "b", "c"), clusters) == Activity(active, reason, message)


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        (None, "missing parameters reference"),
        (Reference(api_group=OURS.api_group, kind=OURS.kind), "empty name: bad parameters reference"),
        (
            Reference(api_group="g", kind=OURS.kind, name="c"),
            'wrong group "g", expecting "kueue.x-k8s.io": bad parameters reference',
        ),
        (
            Reference(api_group=OURS.api_group, kind="K", name="c"),
            'wrong kind "K", expecting "MultiKueueConfig": bad parameters reference',
        ),
        (
            Reference(api_group=OURS.api_group, kind=OURS.kind, name="d"),
            'MultiKueueConfig.kueue.x-k8s.io "d" not found',
        ),
    ],
)
def test_a_check_without_its_configuration_says_so(reference: Reference | None, problem: str) -> None:
    assert find_check_activity(reference, config("a"), {"a": True}) == Activity(False, "BadConfig", CANNOT + problem)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (1, 5), (2, 10), (3, 20), (6, 160), (7, 320), (8, 320), (1_000_000, 320)]
)
def test_a_lost_cluster_is_tried_at_once_and_then_less_and_less_often(failures: int, seconds: float) -> None:
    assert seconds_until_retry(failures) == seconds


@pytest.mark.parametrize(
    ("losses", "outages"),
    [
        ([], []),
        ([(100, 101)], [(100, 105)]),
        ([(100, 105)], [(100, 105)]),
        ([(100, 106)], [(100, 115)]),
        ([(0, 1000)], [(0, 1275)]),
        ([(900, 901), (100, 116)], [(100, 135), (900, 905)]),
        ([(100, 106), (110, 120)], [(100, 135)]),
        ([(100, inf)], [(100, inf)]),
        ([(0, 1e11)], [(0, 100_000_000_315)]),
        ([(100, 106), (110, inf)], [(100, inf)]),
    ],
)
def test_a_connection_is_back_with_the_next_attempt(losses, outages):
    """Attempts follow a loss at once, and after 5, 15, 35, 75, 155, 315, 635, 955, 1275 seconds."""
    assert list_outages(losses) == outages


@pytest.mark.parametrize(
    ("attempts", "message"),
    [
        (0, "refused"),
        (3, "refused; connection attempts: 3, next connection attempt: 2026-01-01T12:00:05Z"),
    ],
)
def test_who_waits_for_a_lost_cluster_is_told_when_it_is_tried_again(attempts: int, message: str) -> None:
    assert make_lost("refused", attempts, NOON) == Activity(False, "ClientConnectionFailed", message)


def test_a_connected_cluster_says_what_it_does_not_show() -> None:
    assert make_connected() == Activity(True, "Active", "Connected")
    assert make_connected(["a is forbidden", "b too"]) == Activity(True, "Active", "Connected; a is forbidden; b too")


def test_a_kubeconfig_that_cannot_be_used_is_called_so() -> None:
    assert make_unusable("BadKubeConfig", "gone") == Activity(False, "BadKubeConfig", "load client config failed: gone")


def active(*status: str, message: str = "") -> MultiKueueCluster:
    conditions = [{"type": "Active", "status": one, "message": message} for one in status]
    return msgspec.convert({"status": {"conditions": conditions}}, MultiKueueCluster)


@pytest.mark.parametrize(
    ("old", "new", "otherwise"),
    [
        (None, active(), True),
        (active("True"), None, True),
        (active(), active("False"), True),
        (active("False"), active("True"), True),
        (active("False"), active("False", message="attempt 2"), False),
    ],
)
def test_another_failed_attempt_is_no_other_standing(
    old: MultiKueueCluster | None, new: MultiKueueCluster | None, otherwise: bool
) -> None:
    assert has_changed_usability(old, new) is otherwise
