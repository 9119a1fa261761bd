"""Simulate a scenario, from its file to the report."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from muster.api.config import EMBEDDED, Configuration
from muster.controllers.decisionlog import DecisionLog
from muster.simulation.asserted import Asserted, judge_all, read_assertions
from muster.simulation.engine.refusals import refuse_checks, refuse_idle_queues
from muster.simulation.engine.site import Site, build_site
from muster.simulation.engine.unusedresources import describe_unused_resources
from muster.simulation.engine.world import Progress, WorkerSite, World
from muster.simulation.full.engine import FullEngine
from muster.simulation.outcome.report import Report
from muster.simulation.outcome.summary import summarize
from muster.simulation.outcome.timeline import build_timeline
from muster.simulation.outcome.usechanges import RecordedUse
from muster.simulation.scenario.logs.shelf import LogShelf
from muster.simulation.scenario.overlays import Overlay
from muster.simulation.scenario.reading import Origin, Reading, read_scenario
from muster.simulation.scenario.settings import take_configuration
from muster.simulation.scenario.workers import read_workers

EngineName = Literal["fast", "full"]


def simulate(
    origin: Origin,
    *,
    assertions: Sequence[str] = (),
    seed: int | None = None,
    configuration: Configuration = EMBEDDED,
    progress: Progress | None = None,
    decisions: int = 0,
    overlays: Sequence[Overlay] = (),
    variant: str = "",
    variants: Sequence[str] = (),
    engine: EngineName = "fast",
    shelf: LogShelf | None = None,
) -> Report:
    """Simulate a scenario; return the report.

    assertions: further assertions to evaluate, in addition to those of the scenario.
    seed: the seed to use; None for the scenario's seed.
    configuration: the settings for a scenario without a Configuration.
    progress: called with the record so far, after the events of each simulated time; None for no calls.
    decisions: the number of newest decisions in the report.
    overlays: the differences of the variant.
    variant: the name of the variant; "" for the scenario itself.
    variants: the names of variants that assertions may refer to.
    engine: `full` simulates a complete cluster with its server.
    shelf: the cache of logs that several simulations share; None for no sharing.

    A KeyboardInterrupt ends the simulation early; the report then covers the time so far. Raises `ScenarioError` if the
    scenario cannot be simulated.
    """
    log = DecisionLog(decisions) if decisions else None
    reading, site, played, asserted = prepare(
        origin, assertions, seed, configuration, overlays, variant, variants, log, engine, shelf
    )
    stopped = False
    try:
        played.run(progress)
    except KeyboardInterrupt:
        stopped = True
    record = played.record
    use = RecordedUse(record)
    jobs, changes, waiting = list(record.jobs()), record.changes(), list(played.list_waiting())
    return Report(
        reading.scenario.metadata.name,
        summarize(jobs, changes, record.now, {one.name for one in waiting if one.never}),
        jobs,
        changes,
        waiting,
        judge_all(asserted, jobs, use),
        stopped,
        build_timeline(use),
        record.nodes,
        record.rooms,
        [*_list_remarks(reading), *describe_unused_resources(reading, site)],
        list(record.node_changes()),
        log.since(0) if log is not None else (),
        log.count if log is not None else 0,
    )


def _list_remarks(reading: Reading) -> Iterator[str]:
    """Yield remarks about what is missing in a state, and about the jobs of logs that never ran."""
    if reading.state is not None:
        yield from (f"the state lacks {kind}: {why}" for kind, why in reading.state.missing.items())
    for name, jobs in reading.logs.items():
        if jobs.left_out:
            one = jobs.left_out == 1
            what = (
                "1 job of the log never ran, and is" if one else f"{jobs.left_out:,} jobs of the log never ran, and are"
            )
            yield f"{name}: {what} left out"


def prepare(
    origin: Origin,
    assertions: Sequence[str],
    seed: int | None,
    configuration: Configuration,
    overlays: Sequence[Overlay],
    variant: str,
    variants: Sequence[str],
    log: DecisionLog | None = None,
    engine: EngineName = "fast",
    shelf: LogShelf | None = None,
) -> tuple[Reading, Site, World | FullEngine, Asserted]:
    """Read and validate a scenario; return it, its cluster, the engine for it, and the assertions about it.

    log: the log to which each decision is added; None for no log.

    The other arguments are those of `simulate`. Raises `ScenarioError` if the scenario cannot be simulated.
    """
    reading = read_scenario(origin, overlays, shelf)
    if seed is not None:
        scenario = reading.scenario
        reading = replace(reading, scenario=replace(scenario, spec=replace(scenario.spec, seed=seed)))
    reading, configuration = take_configuration(reading, configuration)
    site = build_site(reading, configuration)
    if not reading.scenario.spec.clusters:  # else the manager judges them
        refuse_checks(reading.manifests, site.cluster_queues)
    refuse_idle_queues(reading.manifests, site, configuration)
    workers = [WorkerSite(one, build_site(one.reading, configuration)) for one in read_workers(reading)]
    for one in workers:
        refuse_idle_queues(one.reading.reading.manifests, one.site, configuration)
    played = (
        FullEngine(reading, site, configuration, workers)
        if engine == "full"
        else World(reading, site, configuration, workers, log)
    )
    name = variant or reading.scenario.metadata.name
    asserted = read_assertions(reading, assertions, site, workers, played.record, name, variants)
    return reading, site, played, asserted
