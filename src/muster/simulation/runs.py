"""Simulate the variants of scenarios, each with the same seeds, and compare them."""

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import active_children, get_context
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from muster.api.config import EMBEDDED
from muster.simulation.asserted import Asserted, require_one_resource
from muster.simulation.outcome.comparison import Comparison, SimulationRun, compare
from muster.simulation.outcome.page import write_page
from muster.simulation.outcome.report import Report, write_report
from muster.simulation.scenario.logs.shelf import LogShelf
from muster.simulation.scenario.overlays import Overlay
from muster.simulation.scenario.reading import LoadedScenario, Origin, load_scenario, parse_scenario
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.scenario.sweeps import Sweep, SweepError, list_grid
from muster.simulation.simulate import prepare, simulate

# The maximum number of seeds per variant; more are probably a mistake, since each of them is simulated.
MOST_SEEDS = 1000
# The seconds between two checks for an interrupt while other processes simulate.
_LOOK_SECONDS = 0.2
_DIED = (
    "a process that simulates has died: there was too little memory, or a program simulates in several processes "
    'outside of `if __name__ == "__main__":`'
)
# The maximum number of bytes in a file name; the name of several sweeps may be longer.
_LONGEST_NAME = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")


class Case(Struct, frozen=True):
    """A scenario to simulate: the scenario itself, a variant of it, or a point of a sweep.

    origin: the scenario, without the overlays.
    variant: the name of the variant, which all points of a sweep share.
    """

    name: str
    variant: str
    origin: LoadedScenario
    overlays: Sequence[Overlay]
    seed: int


class Comparing(Struct, frozen=True):
    """The outcome of several simulations.

    stopped: whether the user stopped them before all were done.
    """

    runs: Sequence[SimulationRun]
    comparison: Comparison
    stopped: bool

    @property
    def holds(self) -> bool:
        """Whether all assertions hold in all variants and with all seeds."""
        return all(verdict.holds for run in self.runs for verdict in run.verdicts)


def list_cases(origins: Sequence[Origin], sweeps: Sequence[Sweep], seed: int | None) -> list[Case]:
    """Return a case for each scenario and each of its variants, at each point of the sweeps.

    seed: the first seed of all cases; None for the seed of the first scenario.

    Raises:
        ScenarioError: a scenario cannot be read, two variants have the same name, or a sweep is invalid.
    """
    cases: list[Case] = []
    for origin in origins:
        cases += _list_variants(origin, cases[0].seed if cases else seed)
    names: set[str] = set()
    for case in cases:
        if case.name in names:
            raise ScenarioError(f"{case.name} is the name of another variant, too: change one of them")
        names.add(case.name)
    try:
        grid = list(list_grid(sweeps)) if sweeps else []
    except SweepError as error:
        raise ScenarioError(f"--sweep: {error}") from None
    return [point for case in cases for point in _sweep(case, grid, alone=len(cases) == 1)] if grid else cases


def _list_variants(origin: Origin, seed: int | None) -> Iterator[Case]:
    loaded = load_scenario(origin)
    scenario = parse_scenario(loaded)
    first = scenario.spec.seed if seed is None else seed
    yield Case(scenario.metadata.name, scenario.metadata.name, loaded, (), first)
    for number, one in enumerate(scenario.spec.variants):
        overlay = Overlay(f"spec.variants[{number}]", one.spec, one.manifests, one.settings, loaded.source)
        yield Case(one.name, one.name, loaded, (overlay,), first)


def _sweep(case: Case, grid: Sequence[tuple[str, Overlay]], *, alone: bool) -> Iterator[Case]:
    for name, overlay in grid:
        overlays = (*case.overlays, overlay)
        yield Case(name if alone else f"{case.name}, {name}", case.variant, case.origin, overlays, case.seed)


class _Task(Struct, frozen=True):
    """A simulation to run.

    folder: the folder for its report; None to write no report.
    """

    case: Case
    seed: int
    assertions: Sequence[str]
    variants: Sequence[str]
    folder: Path | None


# Called with the number of finished simulations and the number of all. An interrupt that it raises skips the rest.
Done = Callable[[int, int], None]


def simulate_all(
    cases: Sequence[Case],
    seeds: int = 1,
    *,
    assertions: Sequence[str] = (),
    processes: int = 1,
    folder: Path | None = None,
    first: Report | None = None,
    done: Done = lambda _done, _total: None,
    shelf: LogShelf | None = None,
) -> Comparing:
    """Simulate each case with this number of seeds, and compare the cases with the first one.

    processes: the number of concurrent simulations, each of which reads a log once.
    folder: the folder for the reports; None to write none.
    first: the report of the first case with its first seed, if it has been simulated already.
    done: called with the numbers of finished and of all simulations.
    shelf: the logs that the caller has read.

    All cases are validated before the first is simulated. An interrupt skips the remaining simulations.

    Raises:
        ScenarioError: a case cannot be simulated, or one of the processes dies.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise ScenarioError(f"seeds: must be from 1 to {MOST_SEEDS}")
    variants = [case.variant for case in cases]
    shelf = shelf or LogShelf()
    tasks = [
        _Task(case, case.seed + number, assertions, variants, folder)
        for number in range(seeds)  # a seed for all variants, so that an interrupt leaves pairs
        for case in cases
    ]
    place = {(task.case.name, task.seed): number for number, task in enumerate(tasks)}
    runs = [] if first is None else [_summarize(tasks.pop(0), first)]
    total = len(place)
    at_once = min(processes, len(tasks))
    stopped = False
    try:
        _check_cases(cases, assertions, variants, shelf, lambda: done(len(runs), total))
        if at_once > 1:
            shelf.clear()  # each process of the pool reads logs itself
        done(len(runs), total)
        for run in _play_all(tasks, at_once, lambda: done(len(runs), total), shelf):
            runs.append(run)
            done(len(runs), total)
    except KeyboardInterrupt:
        stopped = True
    runs.sort(key=lambda run: place[run.variant, run.seed])
    return Comparing(runs, compare(runs), stopped)


def _check_cases(
    cases: Sequence[Case],
    assertions: Sequence[str],
    variants: Sequence[str],
    shelf: LogShelf,
    look: Callable[[], None],
) -> None:
    """Raise `ScenarioError` if a case cannot be simulated, or if an assertion names something that every case lacks.

    An assertion may name, for example, a queue or a source of work. look: called before each case.
    """
    lacking: dict[str, list[ScenarioError | None]] = {}  # by the text of the assertion
    by_case: dict[str, Asserted] = {}
    for case in cases:
        look()
        *_, asserted = prepare(
            case.origin, assertions, case.seed, EMBEDDED, case.overlays, case.variant, variants, shelf=shelf
        )
        by_case[case.name] = asserted
        for one in asserted.own:
            lacking.setdefault(one.text, []).append(asserted.lacking.get(one.text))
    for errors in lacking.values():
        if errors[0] is not None and None not in errors:
            raise errors[0]
    require_one_resource(by_case)


def name_folder(variant: str, seed: int) -> str:
    """Return the name of the folder with the report of one simulation, valid on any file system."""
    name = _UNSAFE.sub("-", f"{variant}-seed-{seed}")
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}-{crc32(name.encode()):08x}"


def _play_all(
    tasks: Sequence[_Task], processes: int, look: Callable[[], None], shelf: LogShelf
) -> Iterator[SimulationRun]:
    """Run the simulations, and yield their outcomes as they finish.

    processes: the number of processes; with more than one, the order is undefined.
    look: called periodically.
    shelf: the logs that this process has read.
    """
    if processes <= 1:
        for task in tasks:
            yield _play(task, shelf, look)
        return
    with _open_pool(processes, tasks) as pool:
        left = {pool.submit(_play_in_pool, number) for number in range(len(tasks))}
        while left:
            look()
            ended, left = wait(left, _LOOK_SECONDS, FIRST_COMPLETED)
            for one in ended:
                yield one.result()


@contextmanager
def _open_pool(processes: int, tasks: Sequence[_Task]) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of processes, which are terminated when the context ends. Raises `ScenarioError` if one dies.

    tasks: the tasks of the pool. Each process gets all of them at once, because they share what has been read.

    `multiprocessing.Pool` would replace processes that die, and wait forever.
    """
    others = set(active_children())
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _start_process, (tasks,))
    try:
        yield pool
    except BrokenProcessPool:
        raise ScenarioError(_DIED) from None
    finally:
        for process in set(active_children()) - others:
            process.terminate()
        pool.shutdown(cancel_futures=True)


# The tasks of the pool to which this process belongs.
_tasks: list[_Task] = []


def _start_process(tasks: Sequence[_Task]) -> None:
    """Prepare this process of a pool. An interrupt is for the process that the user sees."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _tasks[:] = tasks


@cache
def _get_own_shelf() -> LogShelf:
    """Return the cache of logs of this process of a pool."""
    return LogShelf()


def _play_in_pool(number: int) -> SimulationRun:
    return _play(_tasks[number], _get_own_shelf(), lambda: None)


def _play(task: _Task, shelf: LogShelf, look: Callable[[], None]) -> SimulationRun:
    case = task.case
    report = simulate(
        case.origin,
        assertions=task.assertions,
        seed=task.seed,
        progress=lambda _record: look(),
        overlays=case.overlays,
        variant=case.variant,
        variants=task.variants,
        shelf=shelf,
    )
    if report.stopped:
        raise KeyboardInterrupt
    if task.folder is not None:
        own = task.folder / name_folder(case.name, task.seed)
        write_report(report, own)
        write_page(report, own)
    return _summarize(task, report)


def _summarize(task: _Task, report: Report) -> SimulationRun:
    return SimulationRun(
        task.case.name, task.seed, report.summary, report.verdicts, report.summary.total.never, report.remarks
    )
