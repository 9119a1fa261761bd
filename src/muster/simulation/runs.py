"""Simulate the variants of scenarios, each with the same seeds, and compare them."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from muster.api.config import EMBEDDED
from muster.simulation.engine.world import Progress
from muster.simulation.outcome.comparison import Comparison, Run, compare
from muster.simulation.scenario.overlays import Overlay
from muster.simulation.scenario.reading import ScenarioError, read_scenario
from muster.simulation.scenario.sweeps import Sweep, SweepError, list_grid
from muster.simulation.simulate import prepare, simulate

# More seeds of a variant are a mistake: each of them is simulated.
MOST_SEEDS = 1000


class Case(Struct, frozen=True):
    """A variant of a scenario, or a point of a sweep of one. origin: the file, folder or text of the scenario.

    variant: the name of the variant, which all points of a sweep share.
    """

    name: str
    variant: str
    origin: str | bytes
    overlays: Sequence[Overlay]
    seed: int


class Comparing(Struct, frozen=True):
    """The outcome of several simulations. stopped: whether some of them are missing."""

    runs: Sequence[Run]
    comparison: Comparison
    stopped: bool

    @property
    def holds(self) -> bool:
        """Whether all assertions hold in all variants and with all seeds."""
        return all(verdict.holds for run in self.runs for verdict in run.verdicts)


def list_cases(origins: Sequence[str | bytes], sweeps: Sequence[Sweep], seed: int | None) -> list[Case]:
    """Return all variants of scenarios, the scenario itself first, each with all values of the sweeps.

    seed: the first one of all, instead of that of the first scenario.

    Raises:
        ScenarioError: a scenario cannot be read, or two variants have the same name.
    """
    cases: list[Case] = []
    for origin in origins:
        cases += _list_variants(origin, cases[0].seed if cases else seed)
    names = [case.name for case in cases]
    if twice := next((case for at, case in enumerate(cases) if case.name in names[:at]), None):
        raise ScenarioError(f"{twice.name} is the name of another variant, too: change one of them")
    try:
        grid = list(list_grid(sweeps)) if sweeps else []
    except SweepError as error:
        raise ScenarioError(f"--sweep: {error}") from None
    return [point for case in cases for point in _sweep(case, grid, alone=len(cases) == 1)] if grid else cases


def _list_variants(origin: str | bytes, seed: int | None) -> Iterator[Case]:
    reading = read_scenario(origin)
    scenario, source = reading.scenario, reading.source
    first = scenario.spec.seed if seed is None else seed
    yield Case(scenario.metadata.name, scenario.metadata.name, origin, (), first)
    for number, one in enumerate(scenario.spec.variants):
        context = source.locate(f"spec.variants[{number}]")
        yield Case(one.name, one.name, origin, (Overlay(context, one.spec, one.manifests, one.settings),), first)


def _sweep(case: Case, grid: Sequence[tuple[str, Overlay]], *, alone: bool) -> Iterator[Case]:
    for name, overlay in grid:
        overlays = (*case.overlays, overlay)
        yield Case(name if alone else f"{case.name}, {name}", case.variant, case.origin, overlays, case.seed)


def simulate_all(
    cases: Sequence[Case],
    seeds: int = 1,
    *,
    assertions: Sequence[str] = (),
    progress: Callable[[int, int], Progress | None] = lambda _done, _total: None,
) -> Comparing:
    """Simulate each case with as many seeds, and compare the cases with the first one.

    All cases are checked before the first is simulated. An interrupt leaves out the simulation that it cuts short.
    progress: makes the progress of the next simulation, from how many are done and the number of all.

    Raises:
        ScenarioError: a case cannot be simulated.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise ScenarioError(f"--seeds: must be from 1 to {MOST_SEEDS}")
    variants = list(dict.fromkeys(case.variant for case in cases))
    for case in cases:
        prepare(case.origin, assertions, case.seed, EMBEDDED, case.overlays, variants)
    runs: list[Run] = []
    total = len(cases) * seeds
    for number in range(seeds):  # a seed for all variants, so that an interrupt leaves pairs
        for case in cases:
            report = simulate(
                case.origin,
                assertions=assertions,
                seed=case.seed + number,
                progress=progress(len(runs), total),
                overlays=case.overlays,
                variant=case.variant,
                variants=variants,
            )
            if report.stopped:
                return Comparing(runs, compare(runs), stopped=True)
            never = sum(one.never for one in report.waiting)
            runs.append(Run(case.name, case.seed + number, report.summary, report.verdicts, never))
    return Comparing(runs, compare(runs), stopped=False)
