"""Evaluate assertions on the outcome of a simulation, such as `p99(wait, queue=prod) < 30m`. Pure."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import isnan

from msgspec import Struct

from muster.simulation.outcome.record import JobOutcome
from muster.simulation.outcome.summary import compute_slowdown, find_percentile
from muster.simulation.scenario.draws import DrawError, parse_seconds
from muster.simulation.scenario.source import suggest

_ASSERTION = re.compile(
    r"\s*(?P<function>[\w.]+)\(\s*(?P<metric>\w+)?\s*(?P<filters>(?:,?\s*\w+\s*=\s*[^,()=\s]+\s*)*)\)"
    r"\s*(?P<operator><=|>=|==|<|>)\s*(?P<bound>\S+)\s*"
)
_FILTER = re.compile(r"(\w+)\s*=\s*([^,()=\s]+)")
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")  # the format of `str`, because values are compared as text
_PRIORITY, _VARIANT = "priority", "variant"
_FIELDS = ("queue", "work", _PRIORITY, _VARIANT)

_METRICS: dict[str, Callable[[JobOutcome], float | None]] = {
    "wait": lambda job: job.wait,
    "slowdown": compute_slowdown,
    "evictions": lambda job: float(job.evictions),
    "lost": lambda job: job.lost,
    "interruptions": lambda job: float(job.interruptions),
    "interrupted": lambda job: job.interrupted,
}
_TIMES = ("wait", "lost", "interrupted")
_COUNTED: dict[str, Callable[[JobOutcome], float]] = {
    "submitted": lambda _: 1.0,
    "started": lambda job: float(job.started is not None),
    "ended": lambda job: float(job.ended is not None),
    "waiting": lambda job: float(job.started is None),
    "over_limit": lambda job: float(job.over_limit),
}
_FUNCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
    "sum": sum,
}
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
}


class AssertionSyntaxError(ValueError):
    """A text that is not a valid assertion."""


class Assertion(Struct, frozen=True):
    """An assertion about the outcome: a function of a metric of some jobs, an operator and a bound.

    filters: fields of jobs, with the values that they must have. variant: the variant that it is about, or "" for all.
    """

    text: str
    function: str
    metric: str
    filters: tuple[tuple[str, str], ...]
    operator: str
    bound: float
    variant: str = ""

    @property
    def is_of_time(self) -> bool:
        """Whether the measured value is a time span, in seconds."""
        return self.metric in _TIMES


class AssertionResult(Struct, frozen=True):
    """The result of an assertion. value: the measured value; None if no job could be measured, so that it fails."""

    assertion: Assertion
    value: float | None
    holds: bool


def parse_assertion(text: str, known: Mapping[str, Collection[str]]) -> Assertion:
    """Parse `FUNCTION(METRIC, FIELD=VALUE, ...) OPERATOR BOUND`, or `count(WHAT, ...)` for numbers of jobs.

    known: the only values that a filter may have, by field.

    Raises:
        AssertionSyntaxError: the text is not a valid assertion.
    """
    found = _ASSERTION.fullmatch(text)
    if found is None:
        raise AssertionSyntaxError(f"{text!r} is not like p99(wait, queue=prod) < 30m")
    function, metric = found["function"], found["metric"] or ""
    metrics = _COUNTED if function == "count" else _METRICS
    if function not in (*_FUNCTIONS, "count") and not _PERCENTILE.fullmatch(function):
        raise AssertionSyntaxError(f"{function} is none of count, {', '.join(_FUNCTIONS)}, p50, p99 and the like")
    if metric not in metrics:
        raise AssertionSyntaxError(f"{metric or 'nothing'} is none of {', '.join(metrics)}")
    filters = tuple((name, value) for name, value in _FILTER.findall(found["filters"]))
    if wrong := next((name for name, _ in filters if name not in _FIELDS), None):
        raise AssertionSyntaxError(f"{wrong} is none of {', '.join(_FIELDS)}")
    if twice := next((name for at, (name, _) in enumerate(filters) if name in dict(filters[:at])), None):
        raise AssertionSyntaxError(f"{twice} is given twice, and no job has two: write two assertions")
    for name, value in filters:
        if name == _PRIORITY and not _INTEGER.fullmatch(value):
            raise AssertionSyntaxError(f"priority={value}: a priority is a whole number, as in jobs.csv")
    require_known(filters, known)
    variant = dict(filters).get(_VARIANT, "")
    of_jobs = tuple((name, value) for name, value in filters if name != _VARIANT)
    bound = _parse_bound(found["bound"], metric)
    return Assertion(text, function, metric, of_jobs, found["operator"], bound, variant)


def require_known(filters: Iterable[tuple[str, str]], known: Mapping[str, Collection[str]]) -> None:
    """Raise `AssertionSyntaxError` if a filter has an unknown value.

    known: the only values that a filter may have, by field.
    """
    for name, value in filters:
        if name in known and value not in known[name]:
            raise AssertionSyntaxError(f"there is no {name} {value}{suggest(value, known[name])}")


def _parse_bound(text: str, metric: str) -> float:
    try:
        bound = float(text)
    except ValueError:
        if metric not in _TIMES:
            raise AssertionSyntaxError(f"{text} is no number") from None
    else:
        if isnan(bound):
            raise AssertionSyntaxError(f"{text} is no number")
        return bound
    try:
        return parse_seconds(text)
    except DrawError as error:
        raise AssertionSyntaxError(error.why) from None


def judge(assertion: Assertion, jobs: Sequence[JobOutcome]) -> AssertionResult:
    """Return whether an assertion holds for these jobs, and the measured value.

    If no job can be measured, the assertion fails; a count is then 0.
    """
    some = [job for job in jobs if all(str(getattr(job, name)) == value for name, value in assertion.filters)]
    if assertion.function == "count":
        counted = _COUNTED[assertion.metric]
        return _compare(assertion, sum(counted(job) for job in some))
    metric = _METRICS[assertion.metric]
    values = sorted(value for job in some if (value := metric(job)) is not None)
    if not values:
        return AssertionResult(assertion, None, holds=False)
    if (percentile := _PERCENTILE.fullmatch(assertion.function)) is not None:
        return _compare(assertion, find_percentile(values, float(percentile[1]) / 100))
    return _compare(assertion, _FUNCTIONS[assertion.function](values))


def _compare(assertion: Assertion, value: float) -> AssertionResult:
    return AssertionResult(assertion, value, _OPERATORS[assertion.operator](value, assertion.bound))
