"""Describe the results of a simulation's assertions in words. Pure."""

from muster.charts.scales import format_span
from muster.insight.text import format_mean
from muster.simulation.outcome.assertions import AssertionResult


def format_verdict(verdict: AssertionResult) -> str:
    """Return a line that says whether an assertion holds, with the measured value."""
    return f"{'holds' if verdict.holds else 'FAILS'}: {verdict.assertion.text} ({describe_measure(verdict)})"


def describe_measure(verdict: AssertionResult) -> str:
    """Return words for the measured value, such as `it is 12m`, or for the lack of one.

    The words name a resource that the user did not name.
    """
    assertion, value = verdict.assertion, verdict.value
    if value is None:
        return f"there is {'nothing to use' if assertion.is_of_use else 'no such job'}"
    measured = _format_value(value, assertion.unit)
    if not assertion.resource or assertion.names_resource:
        return f"it is {measured}"
    return f"it is {measured} {'of ' if assertion.unit == 'share' else ''}{assertion.resource}"


def _format_value(value: float, unit: str) -> str:
    if unit == "seconds":
        return format_span(value)
    if unit == "share":
        return f"{value * 100:.4g}%"
    if unit:
        return format_mean(unit, value * 1000 if unit == "cpu" else value)
    return f"{value:g}"
