"""Compare the variants of a scenario over the same seeds, and tell which differences exceed the noise. Pure.

All variants use the same random draws, so their differences are computed seed by seed, which cancels the effect of the
draws themselves.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.simulation.outcome.assertions import AssertionResult
from muster.simulation.outcome.student import CONFIDENCE, MeanEstimate
from muster.simulation.outcome.summary import GroupSummary, Summary, round_mean

SECONDS = "seconds"


class SimulationRun(Struct, frozen=True):
    """The outcome of one simulation.

    verdicts: the results of its assertions.
    never: the number of jobs that could never have started.
    remarks: further remarks for users.
    """

    variant: str
    seed: int
    summary: Summary
    verdicts: Sequence[AssertionResult]
    never: int
    remarks: Sequence[str] = ()


class Figure(Struct, frozen=True):
    """A quantity that is compared between simulations.

    queue: the queue; None for all queues together.
    unit: `seconds`, a resource, or "" for a number.
    """

    queue: str | None
    name: str
    unit: str


class Difference(Struct, frozen=True):
    """The difference of a figure between a variant and the first variant.

    change: the mean of the differences of all seeds.
    beyond_noise: whether the confidence interval of the change excludes 0; None with one seed, which shows no noise.
    """

    variant: str
    figure: Figure
    before: MeanEstimate
    after: MeanEstimate
    change: MeanEstimate
    beyond_noise: bool | None


class Comparison(Struct, frozen=True):
    """The results of variants, each simulated with the same seeds.

    differences: the differences from the first variant.
    """

    variants: Sequence[str]
    seeds: Sequence[int]
    confidence: float
    differences: Sequence[Difference]


def compare(runs: Sequence[SimulationRun]) -> Comparison:
    """Compare variants with the first one, over the seeds with which both were simulated."""
    figures: dict[str, dict[int, Mapping[Figure, float]]] = {}
    for run in runs:
        figures.setdefault(run.variant, {})[run.seed] = dict(list_figures(run.summary))
    base, *others = figures or [""]
    seeds = list(dict.fromkeys(run.seed for run in runs))
    differences = [one for other in others for one in _compare(other, figures[base], figures[other])]
    return Comparison(list(figures), seeds, CONFIDENCE, differences)


def _compare(
    variant: str, base: Mapping[int, Mapping[Figure, float]], other: Mapping[int, Mapping[Figure, float]]
) -> Iterator[Difference]:
    seeds = [seed for seed in base if seed in other]
    for figure in dict.fromkeys(figure for seed in seeds for figure in (*base[seed], *other[seed])):
        pairs = [
            (base[seed][figure], other[seed][figure])
            for seed in seeds
            if figure in base[seed] and figure in other[seed]
        ]
        if pairs:
            before, after = (MeanEstimate.of(column) for column in zip(*pairs, strict=True))
            change = MeanEstimate.of([after - before for before, after in pairs])
            yield Difference(variant, figure, before, after, change, _excludes_zero(change))


def list_changes(comparison: Comparison) -> list[Difference]:
    """Return the differences that are not 0 for all seeds.

    If there is only one queue, its figures that also exist as totals are left out, since they equal the totals.
    """
    figures = {one.figure for one in comparison.differences}
    queues = {figure.queue for figure in figures} - {None}
    changes = [one for one in comparison.differences if one.change.mean or one.change.low != one.change.high]
    if len(queues) != 1:
        return changes
    return [one for one in changes if one.figure.queue is None or replace(one.figure, queue=None) not in figures]


def is_same_for_all_seeds(runs: Sequence[SimulationRun]) -> bool:
    """Return whether each variant has the same outcome with all of its several seeds, as if it had no random draws."""
    outcomes: dict[str, list[Summary]] = {}
    for run in runs:
        outcomes.setdefault(run.variant, []).append(run.summary)
    return all(len(some) > 1 and all(one == some[0] for one in some) for some in outcomes.values())


def group_failures(runs: Sequence[SimulationRun]) -> Mapping[tuple[str, str], Mapping[int, AssertionResult]]:
    """Return the failed assertions by variant and text, each with its result by seed."""
    failures: dict[tuple[str, str], dict[int, AssertionResult]] = {}
    for run in runs:
        for verdict in run.verdicts:
            if not verdict.holds:
                failures.setdefault((run.variant, verdict.assertion.text), {})[run.seed] = verdict
    return failures


def describe_never(runs: Sequence[SimulationRun]) -> Iterator[str]:
    """Yield sentences that tell in which variants, and with which seeds, jobs could never run."""
    seeds: dict[tuple[str, int], list[int]] = {}
    for run in runs:
        if run.never:
            seeds.setdefault((run.variant, run.never), []).append(run.seed)
    for (variant, never), some in seeds.items():
        yield f"{variant}, {name_seeds(some)}: {never:,} job{'s' if never > 1 else ''} could never run"


def name_seeds(seeds: Sequence[int]) -> str:
    """Return a description of seeds, of which there may be many: `seed 1 and 19 more`.

    seeds: the seeds; not empty.
    """
    more = len(seeds) - 1
    return f"seed {seeds[0]}" + (f" and {more} more" if more else "")


def _excludes_zero(change: MeanEstimate) -> bool | None:
    return None if change.low is None or change.high is None else change.low > 0 or change.high < 0


def list_figures(summary: Summary) -> Iterator[tuple[Figure, float]]:
    """Yield the compared figures of a simulation, with their rounded values."""
    for figure, value in _list_exact_figures(summary):
        yield figure, round_mean(value)


def _list_exact_figures(summary: Summary) -> Iterator[tuple[Figure, float]]:
    yield from _list_group(None, summary.total)
    yield Figure(None, "makespan", SECONDS), summary.makespan
    if summary.fairness is not None:
        yield Figure(None, "fairness", ""), summary.fairness
    for queue, group in summary.queues.items():
        yield from _list_group(queue, group)
    for use in summary.use:
        yield Figure(use.queue, f"mean use of {use.resource} ({use.flavor})", use.resource), use.mean


def _list_group(queue: str | None, group: GroupSummary) -> Iterator[tuple[Figure, float]]:
    if group.wait is not None:
        for name in ("mean", "p50", "p90", "p99"):
            yield Figure(queue, f"wait {name}", SECONDS), getattr(group.wait, name)
    if group.slowdown is not None:
        yield Figure(queue, "slowdown", ""), group.slowdown.mean
    yield Figure(queue, "ended", ""), group.ended
    yield Figure(queue, "over limit", ""), group.over_limit
    yield Figure(queue, "waiting", ""), group.waiting - group.never
    yield Figure(queue, "never", ""), group.never
    yield Figure(queue, "evictions", ""), group.evictions
    yield Figure(queue, "lost", SECONDS), group.lost
    yield Figure(queue, "interruptions", ""), group.interruptions
    yield Figure(queue, "lost by nodes", SECONDS), group.interrupted
