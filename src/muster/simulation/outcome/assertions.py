"""Evaluate assertions on the outcome of a simulation, such as `p99(wait, queue=prod) < 30m`. Pure."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import isnan

from msgspec import Struct
from msgspec.structs import replace

from muster.api.values.quantity import QuantityError, parse
from muster.simulation.outcome.ledgers import QuotaKey
from muster.simulation.outcome.record import JobOutcome
from muster.simulation.outcome.summary import compute_slowdown, find_percentile
from muster.simulation.outcome.timeline import scale_amount
from muster.simulation.outcome.usechanges import RecordedUse
from muster.simulation.outcome.uselevels import (
    MEASURES,
    NODE_FIELDS,
    QUOTA_FIELDS,
    find_level,
    find_mean,
    match_quota,
)
from muster.simulation.scenario.draws import DrawError, parse_seconds
from muster.simulation.scenario.source import suggest

_ASSERTION = re.compile(
    r"\s*(?P<function>[\w.]+)\(\s*(?P<metric>\w+)?\s*(?P<filters>(?:,?\s*\w+\s*=\s*[^,()=\s]+\s*)*)\)"
    r"\s*(?P<operator><=|>=|==|<|>)\s*(?P<bound>\S+)\s*"
)
_FILTER = re.compile(r"(\w+)\s*=\s*([^,()=\s]+)")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,9}")  # 32 bits, in the format of `str`, because values are compared as text
_PRIORITY, _VARIANT = "priority", "variant"
_FIELDS = ("queue", "work", "user", _PRIORITY, _VARIANT)
_RESOURCE, _OCCUPANCY = "resource", "occupancy"

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
_SHARE = re.compile(r"(\d*\.?\d+)(%?)", re.ASCII)
# Plain numbers above these are probably percentages. Queues that borrow use more than all of their quota.
_MOST_SHARE = {"utilisation": 10.0, _OCCUPANCY: 1.0}
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


class UnknownNameError(AssertionSyntaxError):
    """An assertion with a name, such as of a queue, that the scenario lacks. A variant of the scenario may have it."""


class Assertion(Struct, frozen=True):
    """An assertion about the outcome of a simulation: that a measured value is, for example, below a bound.

    text: the assertion as its author wrote it.
    function: the name of the function that combines the values of the metric, such as `p99`.
    metric: the name of the measured property of jobs, quotas or nodes, such as `wait`.
    filters: pairs of a field and a value. Only jobs or quotas with these values are measured.
    bound: in seconds for a time, as a part of 1 for a share, and in whole units such as CPUs for an amount.
    variant: the only variant for which the assertion is evaluated; "" for all variants.
    names_resource: whether its author named the resource.
    """

    text: str
    function: str
    metric: str
    filters: tuple[tuple[str, str], ...]
    operator: str
    bound: float
    variant: str = ""
    names_resource: bool = False

    @property
    def is_of_use(self) -> bool:
        """Whether the assertion is about the use of quotas or nodes, and not about jobs."""
        return self.metric in MEASURES

    @property
    def is_count(self) -> bool:
        """Whether the assertion is about a number of jobs, which may be 0."""
        return self.function == "count"

    @property
    def is_of_nodes(self) -> bool:
        """Whether the assertion is about the use of nodes by jobs, and not about quotas."""
        return self.metric == _OCCUPANCY

    @property
    def resource(self) -> str:
        """The resource whose use it is about; "" if it is about jobs."""
        return dict(self.filters).get(_RESOURCE, "")

    @property
    def unit(self) -> str:
        """The unit of the measured value: `seconds`, `share` (of 1), the name of a resource, or "" for a number."""
        if self.metric in _MOST_SHARE:
            return "share"
        if self.is_of_use:
            return self.resource
        return "seconds" if self.metric in _TIMES else ""


class AssertionResult(Struct, frozen=True):
    """The result of an assertion.

    value: the measured value, in the unit of the bound; None if nothing could be measured, so that the assertion fails.
    """

    assertion: Assertion
    value: float | None
    holds: bool


def parse_assertion(text: str, known: Mapping[str, Collection[str]]) -> Assertion:
    """Parse `FUNCTION(METRIC, FIELD=VALUE, ...) OPERATOR BOUND`.

    The function `count` has metrics of its own, such as `started`, which count jobs.

    known: the allowed values by field; a field that is missing here may have any value.

    Raises:
        AssertionSyntaxError: the text is not a valid assertion. It is an `UnknownNameError` for a value not in `known`.
    """
    found = _ASSERTION.fullmatch(text)
    if found is None:
        raise AssertionSyntaxError(f"{text!r} is not like p99(wait, queue=prod) < 30m")
    function, metric = found["function"], found["metric"] or ""
    metrics = list(_COUNTED) if function == "count" else [*_METRICS, *MEASURES]
    if function not in (*_FUNCTIONS, "count") and not _PERCENTILE.fullmatch(function):
        raise AssertionSyntaxError(f"{function} is none of count, {', '.join(_FUNCTIONS)}, p50, p99 and the like")
    if metric not in metrics:
        raise AssertionSyntaxError(f"{metric or 'nothing'} is none of {', '.join(metrics)}")
    if function == "sum" and metric in MEASURES:
        raise AssertionSyntaxError(f"sum is none of mean, max, min, p50, p99 and the like, as {metric} has no sum")
    filters = tuple((name, value) for name, value in _FILTER.findall(found["filters"]))
    fields = _list_fields(metric)
    if wrong := next((name for name, _ in filters if name not in fields), None):
        raise AssertionSyntaxError(f"{wrong} is none of {', '.join(fields)}")
    if twice := next((name for at, (name, _) in enumerate(filters) if name in dict(filters[:at])), None):
        raise AssertionSyntaxError(f"{twice} is given twice, and nothing has two: write two assertions")
    for name, value in filters:
        if name == _PRIORITY and not _INTEGER.fullmatch(value):
            raise AssertionSyntaxError(f"priority={value}: a priority is a whole number, as in jobs.csv")
    require_known(filters, known)
    variant = dict(filters).get(_VARIANT, "")
    of_jobs = tuple((name, value) for name, value in filters if name != _VARIANT)
    bound = _parse_bound(found["bound"], metric)
    return Assertion(text, function, metric, of_jobs, found["operator"], bound, variant, _RESOURCE in dict(of_jobs))


def _list_fields(metric: str) -> Sequence[str]:
    if metric not in MEASURES:
        return _FIELDS
    return (*(NODE_FIELDS if metric == _OCCUPANCY else QUOTA_FIELDS), _VARIANT)


def require_known(filters: Iterable[tuple[str, str]], known: Mapping[str, Collection[str]]) -> None:
    """Raise `UnknownNameError` if a filter has an unknown value.

    known: the allowed values by field; a field that is missing here may have any value.
    """
    for name, value in filters:
        if name in known and value not in known[name]:
            raise UnknownNameError(f"there is no {name} {value}{suggest(value, known[name])}")


def choose_resource(assertion: Assertion, quotas: Collection[QuotaKey], on_nodes: Collection[str]) -> Assertion:
    """Return an assertion about use with a filter for exactly one resource, which is added if it can be inferred.

    quotas: the quotas of all queues.
    on_nodes: the resources of nodes that jobs may request.

    Raises:
        UnknownNameError: no quota or resource matches the filters.
        AssertionSyntaxError: several resources match the filters.
    """
    filters = dict(assertion.filters)
    if assertion.is_of_nodes:
        if not on_nodes:
            raise UnknownNameError("there are no nodes that could be occupied")
        named = [filters[_RESOURCE]] if _RESOURCE in filters else []
        require_known([(_RESOURCE, one) for one in named], {_RESOURCE: sorted(on_nodes)})
        resources = named or sorted(on_nodes)
    else:
        resources = sorted({key[2] for key in quotas if match_quota(key, filters)})
        for field, number in ((_RESOURCE, 2), ("flavor", 1)):
            if not resources and field in filters:
                others = {name: value for name, value in filters.items() if name != field}
                known = sorted({key[number] for key in quotas if match_quota(key, others)})
                require_known([(field, filters[field])], {field: known})
    if not resources:
        raise UnknownNameError("there is no such quota")
    if len(resources) > 1:
        choices = " or ".join(f"resource={one}" for one in resources)
        raise AssertionSyntaxError(f"several resources match: add {choices}")
    return replace(assertion, filters=tuple((filters | {_RESOURCE: resources[0]}).items()))


def _parse_bound(text: str, metric: str) -> float:
    if metric in _MOST_SHARE:
        return _parse_share(text, metric)
    if metric in MEASURES:
        return _parse_amount(text)
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


def _parse_share(text: str, metric: str) -> float:
    """Return the bound of a share as a part of 1, from a text such as `60%` or `0.6`."""
    if (found := _SHARE.fullmatch(text)) is None:
        raise AssertionSyntaxError(f"{text} is not like 60% or 0.6")
    number, percent = float(found[1]), found[2]
    if metric == _OCCUPANCY and number > 100:
        raise AssertionSyntaxError(f"{text} is above 100%, which {metric} never exceeds")
    if percent:
        number /= 100
    elif number > _MOST_SHARE[metric]:
        raise AssertionSyntaxError(f"{text} is {number * 100:g}%: do you mean {text}%?")
    return number


def _parse_amount(text: str) -> float:
    """Return the bound of an amount in whole units, such as CPUs or bytes, from a Kubernetes quantity."""
    try:
        return float(parse(text))
    except QuantityError:
        raise AssertionSyntaxError(f"{text} is not like 64, 4500m or 2Ti") from None


def judge(assertion: Assertion, jobs: Sequence[JobOutcome], use: RecordedUse) -> AssertionResult:
    """Evaluate an assertion on the jobs or the recorded use of a simulation; return its result.

    If no job or quota matches, the assertion fails, except that a count is 0 and is compared with the bound.
    """
    if assertion.is_of_use:
        return _judge_use(assertion, use)
    some = [job for job in jobs if all(str(getattr(job, name)) == value for name, value in assertion.filters)]
    if assertion.is_count:
        counted = _COUNTED[assertion.metric]
        return _compare(assertion, sum(counted(job) for job in some))
    metric = _METRICS[assertion.metric]
    values = sorted(value for job in some if (value := metric(job)) is not None)
    if not values:
        return AssertionResult(assertion, None, holds=False)
    if (percentile := _PERCENTILE.fullmatch(assertion.function)) is not None:
        return _compare(assertion, find_percentile(values, float(percentile[1]) / 100))
    return _compare(assertion, _FUNCTIONS[assertion.function](values))


def _judge_use(assertion: Assertion, use: RecordedUse) -> AssertionResult:
    filters = dict(assertion.filters)
    levels = MEASURES[assertion.metric](use, filters)
    if not len(levels.values):
        return AssertionResult(assertion, None, holds=False)
    if (percentile := _PERCENTILE.fullmatch(assertion.function)) is not None:
        value = find_level(levels, float(percentile[1]) / 100)
    elif assertion.function == "mean":
        value = find_mean(levels)
    else:
        value = _FUNCTIONS[assertion.function](levels.values.tolist())
    if assertion.metric not in _MOST_SHARE:
        value = scale_amount(filters.get(_RESOURCE, ""), value)
    return _compare(assertion, value)


def _compare(assertion: Assertion, value: float) -> AssertionResult:
    return AssertionResult(assertion, value, _OPERATORS[assertion.operator](value, assertion.bound))
