"""Simulate a scenario, from its file to the report."""

from collections.abc import Sequence

from msgspec.structs import replace

from muster.api.config import EMBEDDED, Configuration
from muster.simulation.engine.engine import Engine, Progress
from muster.simulation.engine.site import Site, build_site
from muster.simulation.outcome.assertions import Assertion, AssertionSyntaxError, judge, parse_assertion
from muster.simulation.outcome.report import Report
from muster.simulation.outcome.summary import summarize
from muster.simulation.scenario.overlays import Overlay
from muster.simulation.scenario.reading import Reading, ScenarioError, read_scenario


def simulate(
    name: str | bytes,
    *,
    assertions: Sequence[str] = (),
    seed: int | None = None,
    configuration: Configuration = EMBEDDED,
    progress: Progress | None = None,
    overlays: Sequence[Overlay] = (),
    variant: str = "",
    variants: Sequence[str] = (),
) -> Report:
    """Simulate the scenario of a file or folder, or of a text.

    assertions: judged together with those of the scenario. seed: instead of the scenario's. overlays: what is different
    in the variant. variant, variants: its name, if it is not the scenario itself, and those that assertions may name.
    An interrupt by the user ends the simulation, not the report.

    Raises:
        ScenarioError: the scenario cannot be simulated.
    """
    reading, engine, asserted = prepare(name, assertions, seed, configuration, overlays, variants)
    own = variant or reading.scenario.metadata.name
    asserted = [one for one in asserted if one.variant in ("", own)]
    stopped = False
    try:
        engine.run(progress)
    except KeyboardInterrupt:
        stopped = True
    jobs, changes = list(engine.record.jobs()), list(engine.record.changes())
    return Report(
        reading.scenario.metadata.name,
        summarize(jobs, changes, engine.record.now),
        jobs,
        changes,
        list(engine.list_waiting()),
        [judge(one, jobs) for one in asserted],
        stopped,
    )


def prepare(
    name: str | bytes,
    assertions: Sequence[str],
    seed: int | None,
    configuration: Configuration,
    overlays: Sequence[Overlay],
    variants: Sequence[str],
) -> tuple[Reading, Engine, list[Assertion]]:
    """Return a scenario, the engine that can play it, and what it asserts.

    Raises:
        ScenarioError: the scenario cannot be simulated.
    """
    reading = read_scenario(name, overlays)
    if seed is not None:
        scenario = reading.scenario
        reading = replace(reading, scenario=replace(scenario, spec=replace(scenario.spec, seed=seed)))
    site = build_site(reading, configuration)
    asserted = _parse_assertions(reading, assertions, site, variants)
    return reading, Engine(reading, site, configuration), asserted


def _parse_assertions(reading: Reading, more: Sequence[str], site: Site, variants: Sequence[str]) -> list[Assertion]:
    scenario = reading.scenario
    own = [scenario.metadata.name, *(one.name for one in scenario.spec.variants)]
    known = {
        "queue": [one.metadata.name for one in site.cluster_queues],
        "work": list(site.templates),
        "variant": variants or own,
    }
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
