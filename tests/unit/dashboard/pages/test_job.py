"""The details of a level on the page of a job."""

from typing import Any

import pytest

from muster.dashboard.pages.job import group_details
from muster.insight.text import format_table
from muster.insight.why import JobLevel

TABLE = format_table(["RESOURCE", "ASKED"], [["cpu", "4"], ["nvidia.com/gpu", "8"]]).splitlines()
CASES: dict[str, tuple[list[str], list[Any]]] = {
    "sentences": (["one", "two"], ["one", "two"]),
    "a table between sentences": (
        ["one", *TABLE, "two"],
        ["one", [["RESOURCE", "ASKED"], ["cpu", "4"], ["nvidia.com/gpu", "8"]], "two"],
    ),
    "a sentence with many spaces": (["disk    full"], ["disk    full"]),
    "two of them": (["disk    full", "a   b   c"], ["disk    full", "a   b   c"]),
}


@pytest.mark.parametrize("name", CASES)
def test_lines_in_columns_are_a_table(name: str) -> None:
    lines, wanted = CASES[name]
    assert group_details(JobLevel("quota", "here", "waits", tuple(lines))) == wanted
