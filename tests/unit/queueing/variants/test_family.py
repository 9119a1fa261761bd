"""Tests of a parent and its variants."""

import pytest
from tests.unit.queueing.variants.test_decide import parent, variant

from muster.api.kueue import Workload
from muster.queueing.variants.family import without_doubles

HOLDS = "QuotaReserved"


@pytest.mark.parametrize(
    ("workloads", "kept"),
    [
        ([parent(), variant("best"), variant("worst")], ["parent"]),
        ([parent(HOLDS, "best"), variant("best", HOLDS), variant("worst")], ["parent"]),
        ([parent(), variant("best"), variant("worst", HOLDS)], ["parent", "worst"]),
        ([parent(HOLDS, "worst"), variant("best", HOLDS), variant("worst", HOLDS)], ["parent", "best"]),
        ([variant("best", HOLDS)], ["best"]),
    ],
    ids=["waits", "runs", "has not started on its quota", "moves", "the parent may not be seen"],
)
def test_each_job_is_there_once(workloads: list[Workload], kept: list[str]) -> None:
    assert [one.metadata.uid for one in without_doubles(workloads)] == kept
