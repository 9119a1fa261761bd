"""Tests of which Workload counts for an elastic job that Kueue has resized."""

from typing import Any

import msgspec
import pytest

from muster.api.kueue import Workload
from muster.queueing.jobframework.slices import is_growing, slice_name, sort_slices, waits_to_replace


def workload(name: str, *, replaces: str = "", holds: bool = False, over: str = "") -> Workload:
    conditions: list[dict[str, Any]] = [{"type": "QuotaReserved", "status": "True", "reason": "r"}] if holds else []
    conditions += [{"type": "Finished", "status": "True", "reason": over}] if over else []
    annotations = {"kueue.x-k8s.io/workload-slice-replacement-for": f"default/{replaces}"} if replaces else {}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "status": {"conditions": conditions}}, Workload)


@pytest.mark.parametrize(
    ("workloads", "sorts"),
    [
        pytest.param([workload("a", holds=True)], ("a", "", ""), id="one"),
        pytest.param([workload("a"), workload("b")], ("ab", "", ""), id="strays are for the pairing to delete"),
        pytest.param([workload("a", holds=True), workload("b", replaces="a")], ("a", "", "b"), id="one waits"),
        pytest.param([workload("a", holds=True), workload("b", replaces="a", holds=True)], ("b", "a", ""), id="both"),
        pytest.param(
            [workload("a", over="WorkloadSliceReplaced"), workload("b", replaces="a", holds=True)],
            ("b", "", ""),
            id="replaced",
        ),
        pytest.param([workload("a", over="Succeeded")], ("a", "", ""), id="ended"),
        pytest.param([workload("a", over="Succeeded"), workload("b", replaces="a")], ("ba", "", ""), id="ended early"),
        pytest.param([workload("a"), workload("b", replaces="a")], ("b", "a", ""), id="the old one was evicted"),
        pytest.param([workload("b", replaces="gone")], ("b", "", ""), id="the old one is gone"),
        pytest.param(
            [workload(name, replaces=old, holds=True) for name, old in (("a", ""), ("b", "a"), ("c", "b"))],
            ("c", "ab", ""),
            id="a chain",
        ),
        pytest.param(
            [workload("a", holds=True), workload("b", replaces="a", holds=True), workload("c", replaces="b")],
            ("b", "a", "c"),
            id="one waits for one that has replaced another",
        ),
        pytest.param(
            [workload("a", holds=True), workload("b", replaces="a"), workload("c", replaces="a")],
            ("a", "", "bc"),
            id="two wait",
        ),
    ],
)
def test_which_counts(workloads: list[Workload], sorts: tuple[str, str, str]) -> None:
    slices = sort_slices(workloads)
    sorted_names = (
        "".join(one.metadata.name for one in sort) for sort in (slices.current, slices.replaced, slices.waiting)
    )
    assert tuple(sorted_names) == sorts


def test_one_that_waits_to_replace_another_stands_in_no_queue() -> None:
    assert waits_to_replace(workload("b", replaces="a"))
    assert not waits_to_replace(workload("b", replaces="a", holds=True))
    assert not waits_to_replace(workload("a"))


def test_one_that_has_replaced_another_grows() -> None:
    assert is_growing(workload("b", replaces="a", holds=True))
    assert not is_growing(workload("b", replaces="a"))
    assert not is_growing(workload("a", holds=True))


def test_a_workload_of_its_own_has_its_own_name_as_that_of_its_slices() -> None:
    assert slice_name(workload("a")) == "a"
    named = msgspec.convert(
        {"metadata": {"name": "b", "annotations": {"kueue.x-k8s.io/workload-slice-name": "a"}}}, Workload
    )
    assert slice_name(named) == "a"
