"""Say what became of the assertions of a simulation."""

from typing import TYPE_CHECKING

from muster.charts.scales import format_span

if TYPE_CHECKING:
    from muster.simulation.outcome.assertions import AssertionResult


def format_verdict(verdict: "AssertionResult") -> str:
    """Return a line that says whether an assertion holds, with the measured value."""
    if verdict.value is None:
        measured = "there is no such job"
    elif verdict.assertion.is_of_time:
        measured = f"it is {format_span(verdict.value)}"
    else:
        measured = f"it is {verdict.value:g}"
    return f"{'holds' if verdict.holds else 'FAILS'}: {verdict.assertion.text} ({measured})"
