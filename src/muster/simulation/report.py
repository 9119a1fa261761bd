"""Simulate a scenario, and report what became of its jobs."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api.config import EMBEDDED, Configuration
from muster.simulation.assertions import Assertion, AssertionSyntaxError, Verdict, judge, parse_assertion
from muster.simulation.engine import Engine, Waiting
from muster.simulation.reading import Reading, ScenarioError, read_scenario
from muster.simulation.record import Change, JobOutcome, Record
from muster.simulation.site import Site, build_site
from muster.simulation.summary import Summary, summarize

Progress = Callable[[Record], None]


class Report(Struct, frozen=True):
    """The outcome of a scenario.

    stopped: whether it was stopped before its end. waiting: the jobs that have not started, and why.
    changes: the changes of used quota.
    """

    scenario: str
    summary: Summary
    jobs: Sequence[JobOutcome]
    changes: Sequence[Change]
    waiting: Sequence[Waiting]
    verdicts: Sequence[Verdict]
    stopped: bool

    @property
    def holds(self) -> bool:
        """Whether all assertions hold."""
        return all(verdict.holds for verdict in self.verdicts)


def simulate(
    name: str,
    *,
    assertions: Sequence[str] = (),
    seed: int | None = None,
    configuration: Configuration = EMBEDDED,
    progress: Progress | None = None,
) -> Report:
    """Simulate the scenario of a file or folder.

    assertions: judged together with those of the scenario. seed: instead of the scenario's. An interrupt by the user
    ends the simulation, not the report.

    Raises:
        ScenarioError: the scenario cannot be simulated.
    """
    reading = read_scenario(name)
    if seed is not None:
        scenario = reading.scenario
        reading = replace(reading, scenario=replace(scenario, spec=replace(scenario.spec, seed=seed)))
    site = build_site(reading, configuration)
    asserted = _parse_assertions(reading, assertions, site)
    engine = Engine(reading, site, configuration)
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


def write_report(report: Report, folder: Path) -> None:
    """Write `summary.json`, `jobs.csv` and `timeline.csv` into a folder, which is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = msgspec.json.format(msgspec.json.encode(report.summary), indent=2)
    (folder / "summary.json").write_bytes(summary + b"\n")
    _write_rows(folder / "jobs.csv", JobOutcome, report.jobs)
    _write_rows(folder / "timeline.csv", Change, report.changes)


def _write_rows(file: Path, type: type[Struct], rows: Sequence[Struct]) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(type.__struct_fields__)
        writer.writerows(msgspec.structs.astuple(row) for row in rows)
