"""The tree of quotas: nominal, used, borrowed and lent."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import ClusterQueue, Cohort
from muster.insight.quota.shares import QuotaNode, QuotaShare, list_quota_nodes, list_shared_resources


def queue(name: str, quota: str, used: str = "0", borrowed: str = "0", *, flavor: str = "f", **spec: Any) -> Any:
    limits: dict[str, Any] = {key: spec.pop(key) for key in ("lendingLimit", "borrowingLimit") if key in spec}
    resources = [{"name": "cpu", "nominalQuota": quota, **limits}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": resources}]}
    usage = [{"name": flavor, "resources": [{"name": "cpu", "total": used, "borrowed": borrowed}]}]
    status: dict[str, Any] = {"flavorsReservation": usage}
    if "share" in spec:
        status["fairSharing"] = {"weightedShare": spec.pop("share")}
    body = {"metadata": {"name": name}, "spec": {"resourceGroups": [group], **spec}, "status": status}
    return msgspec.convert(body, ClusterQueue)


def cohort(name: str, parent: str = "", quota: str = "") -> Cohort:
    spec: dict[str, Any] = {"parentName": parent}
    if quota:
        resources = [{"name": "cpu", "nominalQuota": quota}]
        spec["resourceGroups"] = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}]
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Cohort)


def texts(nodes: list[QuotaNode]) -> list[tuple[int, str, str]]:
    return [(one.depth, one.name, " ".join(share.text for share in one.shares)) for one in nodes]


def test_a_queue_lends_what_another_borrows() -> None:
    nodes = list_quota_nodes([queue("a", "8", cohortName="c"), queue("b", "8", "12", "4", cohortName="c")], [])
    assert texts(nodes) == [(0, "c", "12/16"), (1, "a", "0/8 (4 lent)"), (1, "b", "12/8 (4 borrowed)")]


def test_nothing_is_lent_that_a_queue_could_use_now() -> None:
    idle = [queue("a", "8", cohortName="c"), queue("d", "8", cohortName="c")]
    nodes = list_quota_nodes([*idle, queue("b", "8", "12", "4", cohortName="c")], [])
    assert [one.shares[0].lent for one in nodes] == [0, 0, 0, 0]


def test_what_a_queue_does_not_lend_it_keeps() -> None:
    keeper = queue("a", "8", cohortName="c", lendingLimit="2")
    nodes = list_quota_nodes([keeper, queue("b", "8", "10", "2", cohortName="c")], [])
    assert texts(nodes)[1] == (1, "a", "0/8 (2 lent)")


def test_the_tree_is_listed_from_the_top() -> None:
    queues = [queue("alone", "1"), queue("deep", "4", "3", cohortName="team"), queue("flat", "2", cohortName="org")]
    nodes = list_quota_nodes(queues, [cohort("team", "org", quota="10"), cohort("org")])
    assert texts(nodes) == [
        (0, "org", "3/16"),
        (1, "team", "3/14"),
        (2, "deep", "3/4"),
        (1, "flat", "0/2"),
        (0, "alone", "0/1"),
    ]
    assert [one.kind for one in nodes] == ["Cohort", "Cohort", "ClusterQueue", "ClusterQueue", "ClusterQueue"]
    assert list_shared_resources(nodes) == ["cpu"]


def test_cohorts_in_a_circle_are_listed_once() -> None:
    nodes = list_quota_nodes([queue("q", "1", cohortName="a")], [cohort("a", "b"), cohort("b", "a")])
    assert sorted(one.name for one in nodes) == ["a", "b", "q"]


def test_weights_and_shares_are_for_people() -> None:
    weighted = queue("a", "1", cohortName="c", fairSharing={"weight": "2500m"}, share=125)
    endless = queue("b", "1", cohortName="c", fairSharing={"weight": "0"}, share=(1 << 63) - 1)
    nodes = list_quota_nodes([weighted, endless], [])
    assert [(one.name, one.weight, one.shared) for one in nodes] == [
        ("c", "", ""),
        ("a", "2.5", "12.5 %"),
        ("b", "0", "∞"),
    ]


def test_flavors_are_added_up_and_kept() -> None:
    one = queue("q", "4", "1", flavor="x")
    [node] = list_quota_nodes([one], [])
    assert [(share.flavor, share.text) for share in (*node.shares, *node.flavors)] == [("", "1/4"), ("x", "1/4")]
    assert node.share_of("cpu") is node.shares[0]
    assert node.share_of("memory") is None


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (QuotaShare("cpu", "", 4000, 1000), "cpu: 1 of 4 used"),
        (QuotaShare("cpu", "", 4000, 6000, borrowed=2000), "cpu: 6 of 4 used, 2 borrowed"),
        (QuotaShare("cpu", "", 4000, 0, lent=2000), "cpu: 0 of 4 used, 2 lent"),
        (QuotaShare("pods", "", 0, 2, borrowed=2), "pods: 2 used, none of its own, 2 borrowed"),
    ],
)
def test_the_words_of_a_share_say_what_the_bar_shows_and_nothing_more(share: QuotaShare, words: str) -> None:
    assert share.words == words


def test_each_node_names_the_cohort_above_it() -> None:
    nodes = list_quota_nodes([queue("q", "1", cohortName="a")], [cohort("a", "b")])
    assert [(one.name, one.parent) for one in nodes] == [("b", ""), ("a", "b"), ("q", "a")]
