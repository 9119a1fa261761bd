"""What `muster simulate` prints, and how it ends."""

import signal
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from muster.cli.commands.forecasts.simulate import command, make_table
from muster.simulation.outcome.record import QuotaChange, SimulationRecord
from muster.simulation.outcome.summary import summarize
from muster.simulation.scenario.logs.jobs import OrderedJobs

SCENARIO = """
apiVersion: muster.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  work:
  - name: w
    arrivals: {burst: {at: [0, 10], count: 1}}
    runTime: 90m
    template:
      apiVersion: batch/v1
      kind: Job
      spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


def make_traced(file: Path) -> str:
    """Return a scenario with the jobs of a log, which is written beside it."""
    (file.parent / "log.swf").write_text(
        "".join(f"{job} {job} 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n" for job in (1, 2))
    )
    return SCENARIO.replace("arrivals: {burst: {at: [0, 10], count: 1}}", "trace: {file: log.swf}").replace(
        "    runTime: 90m\n", ""
    )


def test_an_interrupt_stops_between_two_moments(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt comes before the first start is recorded. The report has that start, and no later job."""
    record_start = SimulationRecord.start

    def start(record: SimulationRecord, *values: Any, **more: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        record_start(record, *values, **more)

    monkeypatch.setattr(SimulationRecord, "start", start)
    done = CliRunner().invoke(command, [str(file), "--report", str(file.parent / "out")])
    assert done.exit_code == 130
    assert "stopped after 0s of virtual time" in done.stderr
    rows = (file.parent / "out" / "jobs.csv").read_text().splitlines()
    assert [row.split(",")[:8] for row in rows[1:]] == [["w-0", "w", "", "1", "0", "0.0", "5400.0", "0.0"]]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("more", [[], ["--seeds", "2"]])
def test_an_interrupt_ends_the_reading_of_a_log(file: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]) -> None:
    order = OrderedJobs.__init__

    def interrupt_and_order(self: OrderedJobs, *values: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        order(self, *values)

    monkeypatch.setattr(OrderedJobs, "__init__", interrupt_and_order)
    file.write_text(make_traced(file))
    done = CliRunner().invoke(command, [str(file), *more], standalone_mode=False)
    if more:
        assert done.exit_code == 130
        assert "stopped before the first of 2 simulations was done" in done.stderr
    else:
        assert isinstance(done.exception, click.Abort | KeyboardInterrupt)
    assert done.stdout == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_assertion_about_time_shows_a_time_span(file: Path) -> None:
    done = CliRunner().invoke(command, [str(file), "--assert", "max(wait) < 1m", "--assert", "max(slowdown) > 1"])
    assert done.exit_code == 1
    assert "holds: max(wait) < 1m (it is 0s)\nFAILS: max(slowdown) > 1 (it is 1)" in done.stderr


def test_jobs_that_could_never_run_have_a_column_of_their_own(file: Path) -> None:
    one = "template: {status: {allocatable: {cpu: '1'}}}"
    text = SCENARIO.replace("spec:\n", f"spec:\n  nodes: [{{name: n, count: 1, {one}}}]\n", 1)
    big = text.partition("  - name: w\n")[2].replace("image: i", "image: i, resources: {requests: {cpu: '2'}}")
    file.write_text(f"{text}  - name: big\n{big}")
    table = CliRunner().invoke(command, [str(file)]).stdout.splitlines()
    assert table[0].split()[:7] == ["QUEUE", "JOBS", "ENDED", "WAITING", "NEVER", "WAIT", "MEAN"]
    assert table[1].split()[:6] == ["(none)", "4", "2", "0", "2", "0s"]


def test_jobs_that_their_limits_ended_have_a_column_of_their_own(file: Path) -> None:
    file.write_text(SCENARIO.replace("    runTime: 90m\n", "    runTime: 90m\n    limit: 1h\n"))
    table = CliRunner().invoke(command, [str(file)]).stdout.splitlines()
    assert table[0].split()[:6] == ["QUEUE", "JOBS", "ENDED", "OVER", "LIMIT", "WAITING"]
    assert table[1].split()[:5] == ["(none)", "2", "2", "2", "0"]
    compared = CliRunner().invoke(command, [str(file), "--seeds", "2"]).stdout.splitlines()
    assert "ENDED   OVER LIMIT   WAITING   EVICTIONS" in compared[0]


def test_large_numbers_of_jobs_are_whole_numbers(file: Path) -> None:
    file.write_text(SCENARIO.replace("count: 1", "count: 6172"))
    assert "12,344 ±0" in CliRunner().invoke(command, [str(file), "--seeds", "2"]).stdout


def test_seeds_of_a_scenario_that_draws_nothing_are_named(file: Path) -> None:
    done = CliRunner().invoke(command, [str(file), "--seeds", "2"])
    assert done.stderr.startswith("all seeds have the same outcome, as if nothing were drawn")
    file.write_text(SCENARIO.replace("runTime: 90m", "runTime: {exponential: {mean: 90m}}"))
    assert "all seeds" not in CliRunner().invoke(command, [str(file), "--seeds", "2"]).stderr


def test_the_table_says_how_many_jobs_have_a_forecast() -> None:
    record = SimulationRecord(["w"])
    for number, forecast in enumerate((60.0, None, 60.0)):
        job = record.submit(str(number), 0, "q", 1, 0, 0.0, 10.0)
        if forecast is not None:
            record.forecast(job, forecast)
        record.start(job, 60.0 * min(number, 1))  # the first one starts at once
    record.now = 60.0
    *_, forecasts, last = make_table(summarize(list(record.jobs()), [], 60.0)).splitlines()
    assert forecasts == (
        "what muster why would have forecast for 1 of 2 jobs that waited: "
        "half within 0% of the wait, nine of ten within 0%"
    )
    assert last == "(the table has the waits themselves, which no forecast changes)"


def test_the_table_shows_means_of_quota_in_whole_units_and_peaks_exactly() -> None:
    amounts = (("cpu", 100_400), ("x.com/gpu", 6))
    changes = [QuotaChange(0.0, "q", "f", resource, amount) for resource, amount in amounts]
    changes.append(QuotaChange(1.0, "q", "f", "x.com/gpu", -2))
    _, cpu, gpu = make_table(summarize([], changes, 3.0)).split("\n\n")[1].splitlines()
    assert (cpu.split(), gpu.split()) == (["q", "f", "cpu", "100", "100400m"], ["q", "f", "x.com/gpu", "4.67", "6"])


def test_a_report_in_the_place_of_a_file_is_refused_before_the_simulation(file: Path) -> None:
    done = CliRunner().invoke(command, [str(file), "--report", str(file)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is a file" in done.stderr
