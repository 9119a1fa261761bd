"""Simulate a scenario, from its file to the report."""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from muster.api.config import EMBEDDED, Configuration
from muster.simulation.engine.engine import Engine, Progress
from muster.simulation.engine.site import Site, build_site
from muster.simulation.full.engine import FullEngine
from muster.simulation.outcome.assertions import Assertion, AssertionSyntaxError, judge, parse_assertion
from muster.simulation.outcome.report import Report
from muster.simulation.outcome.summary import summarize
from muster.simulation.scenario.reading import Reading, ScenarioError, read_scenario

EngineName = Literal["fast", "full"]


def simulate(
    name: str,
    *,
    assertions: Sequence[str] = (),
    seed: int | None = None,
    configuration: Configuration = EMBEDDED,
    progress: Progress | None = None,
    engine: EngineName = "fast",
) -> Report:
    """Simulate the scenario of a file or folder.

    assertions: judged together with those of the scenario. seed: instead of the scenario's. An interrupt by the user
    ends the simulation, not the report. engine: `full` plays the whole of a cluster, with its server.

    Raises:
        ScenarioError: the scenario cannot be simulated.
    """
    reading = read_scenario(name)
    if seed is not None:
        scenario = reading.scenario
        reading = replace(reading, scenario=replace(scenario, spec=replace(scenario.spec, seed=seed)))
    site = build_site(reading, configuration)
    asserted = _parse_assertions(reading, assertions, site)
    played = FullEngine(reading, site, configuration) if engine == "full" else Engine(reading, site, configuration)
    stopped = False
    try:
        played.run(progress)
    except KeyboardInterrupt:
        stopped = True
    jobs, changes = list(played.record.jobs()), list(played.record.changes())
    return Report(
        reading.scenario.metadata.name,
        summarize(jobs, changes, played.record.now),
        jobs,
        changes,
        list(played.list_waiting()),
        [judge(one, jobs) for one in asserted],
        stopped,
    )


def _parse_assertions(reading: Reading, more: Sequence[str], site: Site) -> list[Assertion]:
    known = {"queue": [one.metadata.name for one in site.cluster_queues], "work": list(site.templates)}
    parsed = []
    for number, text in enumerate(reading.scenario.spec.assertions):
        try:
            parsed.append(parse_assertion(text, known))
        except AssertionSyntaxError as error:
            raise reading.source.error(f"spec.assert[{number}]", str(error)) from None
    for text in more:
        try:
            parsed.append(parse_assertion(text, known))
        except AssertionSyntaxError as error:
            raise ScenarioError(f"--assert: {error}") from None
    return parsed
