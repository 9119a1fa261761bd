"""Print time spans of simulations, and what became of assertions on them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.simulation.outcome.assertions import AssertionResult


def format_verdict(verdict: "AssertionResult") -> str:
    """Return a line that says whether an assertion holds, with the measured value."""
    if verdict.value is None:
        measured = "there is no such job"
    elif verdict.assertion.is_of_time:
        measured = f"it is {format_seconds(verdict.value)}"
    else:
        measured = f"it is {verdict.value:g}"
    return f"{'holds' if verdict.holds else 'FAILS'}: {verdict.assertion.text} ({measured})"


def format_seconds(seconds: float) -> str:
    """Return a time span in its two largest units: `3d4h`, `2m5s`, `0.3s`."""
    if seconds < 10:
        return f"{seconds:.1f}s".replace(".0s", "s")
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        if number or parts:
            parts.append(f"{number}{unit}" if number else "")
    return "".join(parts[:2])
