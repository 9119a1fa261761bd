"""Tests that the known behaviour of level 1 is tested: every place that `cases/coverage.yaml` names exists."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

CASES = Path(__file__).parent / "cases"
TESTS = Path(__file__).parents[2]
COVERAGE = yaml.load((CASES / "coverage.yaml").read_text(), yaml.CSafeLoader)
SITUATIONS = [(what, places) for section in COVERAGE.values() for what, places in section.items()]


@cache
def text(file: str) -> str:
    """Return the text of a test file, or the names of the cases in a data file."""
    if file.endswith((".py", ".yaml")):
        return (TESTS / file).read_text()
    return "".join(f"{name}\n" for name in _names(yaml.load((CASES / f"{file}.yaml").read_text(), yaml.CSafeLoader)))


def _names(data: Any) -> Iterator[str]:
    for case in data if isinstance(data, list) else data["cases"]:
        yield case["name"]


@pytest.mark.parametrize(("what", "places"), SITUATIONS, ids=[str(what) for what, _ in SITUATIONS])
def test_covered(what: str | int, places: str | list[str]) -> None:
    for place in [places] if isinstance(places, str) else places:
        if place.startswith("no test: "):
            continue
        file, _, name = place.partition("::")
        assert name in text(file), f"{what}: {place}"


def test_nothing_is_left_out() -> None:
    assert list(COVERAGE["pitfalls"]) == list(range(1, 46))
    first = ("resource_test", "fair_sharing", "flavorassigner", "preemption", "cluster_queue", "manager", "scheduler")
    then = ("workload_controller", "names", "equality", "validation", "conversion", "config")
    groups = {what.partition(":")[0] for what in COVERAGE["situations"]}
    assert groups >= {*first, *then}
