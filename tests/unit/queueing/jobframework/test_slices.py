"""Of the Workloads of an elastic job that Kueue has resized, one counts."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import Workload
from muster.queueing.jobframework.slices import in_force, waits_to_replace


def workload(name: str, *, replaces: str = "", holds: bool = False, over: str = "") -> Workload:
    conditions: list[dict[str, Any]] = [{"type": "QuotaReserved", "status": "True", "reason": "r"}] if holds else []
    conditions += [{"type": "Finished", "status": "True", "reason": over}] if over else []
    annotations = {"kueue.x-k8s.io/workload-slice-replacement-for": f"default/{replaces}"} if replaces else {}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "status": {"conditions": conditions}}, Workload)


@pytest.mark.parametrize(
    ("workloads", "counting"),
    [
        ([workload("a", holds=True)], ["a"]),
        ([workload("a"), workload("b")], ["a", "b"]),  # strays of another kind are for the pairing to delete
        ([workload("a", holds=True), workload("b", replaces="a")], ["a"]),
        ([workload("a", holds=True), workload("b", replaces="a", holds=True)], ["b", "a"]),
        ([workload("a", over="WorkloadSliceReplaced"), workload("b", replaces="a", holds=True)], ["b"]),
        ([workload("a", over="Succeeded")], ["a"]),
        (
            [workload("a"), workload("b", replaces="a")],
            ["b", "a"],
        ),  # the old one was evicted
        ([workload("b", replaces="gone")], ["b"]),
    ],
)
def test_which_count(workloads: list[Workload], counting: list[str]) -> None:
    assert [one.metadata.name for one in in_force(workloads)] == counting


def test_one_that_waits_to_replace_another_stands_in_no_queue() -> None:
    assert waits_to_replace(workload("b", replaces="a"))
    assert not waits_to_replace(workload("b", replaces="a", holds=True))
    assert not waits_to_replace(workload("a"))
