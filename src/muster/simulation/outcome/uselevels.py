"""Measure how much of quotas and nodes was used, and for how long: exactly, unlike the bins of a timeline. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from muster.gang import arrays as np
from muster.gang.arrays import Floats
from muster.simulation.outcome.ledgers import QuotaKey
from muster.simulation.outcome.summary import round_mean
from muster.simulation.outcome.usechanges import (
    AmountChanges,
    QuotaUse,
    RecordedUse,
    read_steps,
)

# The parts of a quota that filters may name.
QUOTA_FIELDS = ("queue", "flavor", "resource")
NODE_FIELDS = ("queue", "resource")


class Levels(NamedTuple):
    """The successive values of a measure, such as used quota.

    seconds: how long each value lasted; always above 0.
    weights: the weight of each value in a mean: its seconds; for a share, times the amount that it is a share of.
    """

    values: Floats
    seconds: Floats
    weights: Floats


def match_quota(key: QuotaKey, filters: Mapping[str, str]) -> bool:
    """Return whether a quota matches filters. Quotas of worker clusters match only if the filters name their queue."""
    found = all(filters.get(field, value) == value for field, value in zip(QUOTA_FIELDS, key, strict=True))
    return found and ("queue" in filters or "/" not in key[0])


def _measure_used(use: RecordedUse, filters: Mapping[str, str]) -> Levels:
    quotas = use.quotas
    amounts, available = (_choose(quotas, each, filters) for each in (quotas.used, quotas.present))
    return _find_levels(amounts, available, use.record.now)


def _measure_borrowed(use: RecordedUse, filters: Mapping[str, str]) -> Levels:
    amounts, available = (_choose(use.quotas, each, filters) for each in (use.borrowed, use.quotas.present))
    return _find_levels(amounts, available, use.record.now)


def _measure_utilisation(use: RecordedUse, filters: Mapping[str, str]) -> Levels:
    quotas = use.quotas
    amounts, available = (_choose(quotas, each, filters) for each in (quotas.used, quotas.nominal))
    return _find_shares(amounts, available, use.record.now)


def _measure_occupancy(use: RecordedUse, filters: Mapping[str, str]) -> Levels:
    record, demand = use.record, use.demand
    capacity, resource = record.capacity, filters.get("resource", "")
    steps = _choose_rows(read_steps(capacity.changes), [one == resource for one in capacity.resources])
    queues = [filters.get("queue", queue) == queue for queue in record.queues]
    if resource in demand.resources:
        asked = _choose_rows(demand.changes[demand.resources.index(resource)], queues)
    else:
        asked = _choose_rows(steps, [False] * len(capacity.resources))
    return _find_shares(asked, steps, record.now)


# By metric: the levels of what filters choose. Filters name one resource.
MEASURES: Mapping[str, Callable[[RecordedUse, Mapping[str, str]], Levels]] = {
    "utilisation": _measure_utilisation,
    "used": _measure_used,
    "borrowed": _measure_borrowed,
    "occupancy": _measure_occupancy,
}


def _choose(use: QuotaUse, changes: AmountChanges, filters: Mapping[str, str]) -> AmountChanges:
    return _choose_rows(changes, [match_quota(key, filters) for key in use.keys])


def _choose_rows(changes: AmountChanges, chosen: Sequence[bool]) -> AmountChanges:
    """Return the changes of some amounts.

    chosen: whether each amount is included, by the number of the amount.
    """
    mask = np.array(chosen, bool)[changes.rows] if len(changes.rows) else np.zeros(0, bool)
    return AmountChanges(*(column[mask] for column in changes))


def _find_levels(amounts: AmountChanges, available: AmountChanges, end: float) -> Levels:
    """Return the successive sums of amounts from 0 to `end`, with the seconds that each lasted.

    The time in which nothing is available is left out.
    """
    values, _, seconds = _sum_while_available(amounts, available, end)
    return Levels(values, seconds, seconds)


def _find_shares(amounts: AmountChanges, available: AmountChanges, end: float) -> Levels:
    """Return the successive sums of amounts, each divided by the sum of what is available then.

    The time in which nothing is available is left out.
    """
    values, wholes, seconds = _sum_while_available(amounts, available, end)
    return Levels(values / wholes, seconds, seconds * wholes)


def _sum_while_available(amounts: AmountChanges, available: AmountChanges, end: float) -> tuple[Floats, Floats, Floats]:
    """Return the sums of amounts and of what is available, and for how many seconds they lasted, from 0 to `end`.

    The time in which nothing is available is left out.

    end: in seconds from the start of the simulation.
    """
    times = np.concatenate([np.zeros(1), amounts.times, available.times])
    columns = np.zeros((2, len(times)))
    columns[0, 1 : 1 + len(amounts.times)] = amounts.amounts
    columns[1, 1 + len(amounts.times) :] = available.amounts
    order = np.argsort(times, kind="stable")
    values, wholes = np.cumsum(columns[:, order], axis=1)
    seconds = np.diff(np.append(times[order], end))
    lasting = (seconds > 0) & (wholes > 0)
    return values[lasting], wholes[lasting], seconds[lasting]


def find_mean(levels: Levels) -> float:
    """Return the weighted mean of levels over time. The mean of shares is the total use divided by the total available.

    levels: at least one.
    """
    return round_mean(float((levels.values * levels.weights).sum() / levels.weights.sum()))


def find_level(levels: Levels, share: float) -> float:
    """Return the smallest value that was not exceeded for at least this share of the time.

    levels: at least one.
    """
    order = np.argsort(levels.values, kind="stable")
    lasted = np.cumsum(levels.seconds[order])
    # The sum of many times has an error, for which the last of them must not be missed.
    at = int(np.searchsorted(lasted, share * lasted[-1] * (1 - 1e-12)))
    return float(levels.values[order][min(at, len(lasted) - 1)])
