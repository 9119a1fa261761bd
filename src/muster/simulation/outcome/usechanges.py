"""Compute the changes of quotas, and of the use of quotas and nodes, from the arrays of a record. Pure."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from muster.gang import arrays as np
from muster.gang.arrays import Floats, Ints
from muster.simulation.outcome.ledgers import QuotaKey, Steps
from muster.simulation.outcome.record import SimulationRecord


class AmountChanges(NamedTuple):
    """Changes of numbered amounts, in any order: when, the number of the amount, and by how much it changed."""

    times: Floats
    rows: Ints
    amounts: Floats


class QuotaUse(NamedTuple):
    """The changes over time of the quotas of queues, and of their use.

    keys: the quotas, by the number that they have in the changes.
    present: the changes of the existence of quotas: 1 when a quota of any amount is added, -1 when it is removed.
    """

    keys: Sequence[QuotaKey]
    nominal: AmountChanges
    present: AmountChanges
    used: AmountChanges


class Demand(NamedTuple):
    """The changes of the amounts that running jobs request.

    changes: for each of `resources`, its changes; the number of an amount (`rows`) is the number of its queue.
    """

    resources: Sequence[str]
    changes: Sequence[AmountChanges]


class RecordedUse:
    """The use of quotas and nodes in a record that does not change any more. Each part is computed at most once."""

    def __init__(self, record: SimulationRecord) -> None:
        self.record = record

    @cached_property
    def quotas(self) -> QuotaUse:
        """The changes of the nominal quotas and of their use."""
        return _read_quota_use(self.record)

    @cached_property
    def borrowed(self) -> AmountChanges:
        """The changes of the use above the nominal quota."""
        return _find_borrowed(self.quotas)

    @cached_property
    def demand(self) -> Demand:
        """The changes of the amounts that running jobs request."""
        return _read_demand(self.record)


def _read_quota_use(record: SimulationRecord) -> QuotaUse:
    """Return the changes of the nominal quotas and of their use."""
    changes = record.changes()
    keys = {key: number for number, key in enumerate(record.quotas.keys)}
    width = len(changes.resource_names)
    combined = to_ints(changes.queues) * width + to_ints(changes.resources)
    used, rows = np.unique(combined, return_inverse=True)
    names = ((changes.queue_names[one // width], *changes.resource_names[one % width]) for one in used.tolist())
    numbers = np.array([keys.setdefault(name, len(keys)) for name in names], np.int64)
    use = AmountChanges(to_floats(changes.times), numbers[rows] if len(used) else rows, to_floats(changes.amounts))
    quotas = record.quotas
    return QuotaUse(list(keys), read_steps(quotas.changes), read_steps(quotas.presence), use)


def _find_borrowed(use: QuotaUse) -> AmountChanges:
    """Return the changes of the use above the nominal quota."""
    used, nominal = use.used, use.nominal
    times, rows = np.concatenate((used.times, nominal.times)), np.concatenate((used.rows, nominal.rows))
    using = np.concatenate((used.amounts, np.zeros(len(nominal.amounts))))
    quota = np.concatenate((np.zeros(len(used.amounts)), nominal.amounts))
    order = np.lexsort((times, rows))
    times, rows = times[order], rows[order]
    above = np.maximum(_sum_within(rows, using[order]) - _sum_within(rows, quota[order]), 0)
    first = np.ones(len(rows), bool)
    first[1:] = rows[1:] != rows[:-1]
    before = np.where(first, 0, np.concatenate((np.zeros(1), above[:-1])) if len(above) else above)
    return AmountChanges(times, rows, above - before)


def _sum_within(rows: Ints, amounts: Floats) -> Floats:
    """Return the running sum of amounts within each row; rows are sorted."""
    total = np.cumsum(amounts)
    starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1]))) if len(rows) else np.zeros(0, np.int64)
    lengths = np.diff(np.concatenate((starts, [len(rows)])))
    sums: Floats = total - np.repeat(total[starts] - amounts[starts], lengths)
    return sums


def _read_demand(record: SimulationRecord) -> Demand:
    """Return the changes of the amounts that running jobs request.

    Many runs share the same amounts, so a table of the different amounts is small.
    """
    runs, amounts = record.runs, record.runs.amounts
    resources = sorted({resource for demand in amounts for resource, _ in demand})
    table = np.array([[dict(demand).get(one, 0) for one in resources] for demand in amounts], np.float64)
    starts, ends, demands = to_floats(runs.starts), to_floats(runs.ends), to_ints(runs.demands)
    rows = to_ints(record.columns().queues)[to_ints(runs.jobs)]
    over = ~np.isnan(ends)
    times, rows = np.concatenate((starts, ends[over])), np.concatenate((rows, rows[over]))
    changes = []
    for number in range(len(resources)):
        asked = table[demands, number]
        changes.append(AmountChanges(times, rows, np.concatenate((asked, -asked[over]))))
    return Demand(resources, changes)


def read_steps(steps: Steps) -> AmountChanges:
    """Return the changes of a ledger."""
    return AmountChanges(to_floats(steps.times), to_ints(steps.numbers), to_floats(steps.amounts))


def to_ints(values: object) -> Ints:
    """Return whole numbers as an array."""
    return np.array(values, np.int64)


def to_floats(values: object) -> Floats:
    """Return numbers as an array."""
    return np.array(values, np.float64)
