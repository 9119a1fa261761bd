"""Simulations from Python."""

import asyncio
import subprocess
import sys
from copy import deepcopy
from math import inf, nan
from re import escape
from typing import Any

import msgspec
import pytest
from tests.system.simulation.test_simulation import FLAVOR, ROOT, burst, queue, scenario

import muster
from muster.simulation.runs import list_cases, simulate_all
from muster.simulation.scenario.logs.jobs import OrderedJobs
from muster.simulation.scenario.model import Scenario
from muster.simulation.simulate import simulate

TEMPLATE = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
}
WORK = {"name": "w", "arrivals": {"burst": {"at": [0], "count": 3}}, "runTime": "10m", "template": TEMPLATE}
DOCUMENT: dict[str, Any] = {
    "apiVersion": "muster.dev/v1alpha1",
    "kind": "Scenario",
    "metadata": {"name": "s"},
    "spec": {"work": [WORK]},
}


@pytest.mark.parametrize("scenario", [DOCUMENT, msgspec.convert(DOCUMENT, Scenario)], ids=["dict", "object"])
def test_a_document_is_simulated(scenario):
    moments = []
    report = muster.simulate(scenario, progress=lambda record: moments.append(record.now))
    assert [(job.name, job.ended) for job in report.jobs] == [(f"w-{number}", 600.0) for number in range(3)]
    assert (report.summary.makespan, report.comparison, moments) == (600.0, None, [0.0, 600.0])
    assert "<td>all</td><td>3</td><td>3</td>" in report._repr_html_()


@pytest.mark.parametrize("assertions", ["count(ended) == 2", ["count(ended) == 2"]])
def test_assertions_are_one_or_several(assertions):
    [verdict] = muster.simulate(DOCUMENT, assertions=assertions).verdicts
    assert (verdict.value, verdict.holds) == (3.0, False)


def test_progress_is_a_line_if_it_is_asked_for(capsys):
    for silent in (False, None):
        muster.simulate(DOCUMENT, progress=silent)
        assert capsys.readouterr().err == ""
    muster.simulate(DOCUMENT, progress=True)
    assert capsys.readouterr().err.rpartition("\r")[2].rstrip() == "10m simulated, 3 jobs, 3 ended"
    muster.simulate(DOCUMENT, seeds=2, progress=True)
    assert capsys.readouterr().err.rpartition("\r")[2].rstrip() == "10m simulated, 3 jobs, 3 ended, 2 simulations"


def test_the_line_of_progress_fits_into_the_terminal_and_ends(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    muster.simulate(DOCUMENT, progress=True)
    assert capsys.readouterr().err.rpartition("\r")[2] == "10m simulated, 3 jo\n"
    with pytest.raises(muster.Error):
        muster.simulate(DOCUMENT | {"spec": {"works": []}}, progress=True)
    assert capsys.readouterr().err.endswith("\n")


def test_a_notebook_shows_waits_as_the_terminal_does(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text(scenario("  work:\n" + burst(3, queued="q", run="65m"), FLAVOR + queue("q", 1)))
    assert "<td>q</td><td>3</td><td>3</td><td>1h5m</td>" in muster.simulate(file)._repr_html_()


def test_a_notebook_that_runs_an_event_loop_simulates():
    async def simulate_in_cell():
        return muster.simulate(DOCUMENT)

    assert asyncio.run(simulate_in_cell()).summary.makespan == 600.0


def test_seeds_are_compared(tmp_path):
    file = tmp_path / "scenario.json"
    file.write_bytes(msgspec.json.encode(DOCUMENT))
    report = muster.simulate(file, seeds=2)
    assert report.runs is not None
    assert [run.seed for run in report.runs] == [1, 2]
    assert muster.simulate(file, seeds=3, processes=2).runs == muster.simulate(file, seeds=3).runs


def test_the_first_seed_is_simulated_once(tmp_path):
    file = tmp_path / "scenario.json"
    file.write_bytes(msgspec.json.encode(DOCUMENT))
    cases, counted = list_cases([str(file)], [], None), []
    compared = simulate_all(cases, 2, first=simulate(str(file)), done=lambda done, total: counted.append((done, total)))
    assert counted[0] == (1, 2)
    assert compared == simulate_all(cases, 2)


def test_variants_and_seeds_read_a_log_once(tmp_path, monkeypatch):
    (tmp_path / "log.swf").write_text("1 0 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n")
    document = deepcopy(DOCUMENT)
    document["spec"]["work"] = [{"name": "w", "trace": {"file": "log.swf"}, "template": TEMPLATE}]
    counted, order = [], OrderedJobs.__init__

    def count_and_order(self: OrderedJobs, *values: Any) -> None:
        counted.append(self)
        order(self, *values)

    monkeypatch.setattr(OrderedJobs, "__init__", count_and_order)
    monkeypatch.chdir(tmp_path)
    assert muster.simulate(document, seeds=3).summary.makespan == 60.0
    assert len(counted) == 1


def test_a_program_whose_processes_would_start_it_again_is_told(tmp_path):
    (tmp_path / "scenario.json").write_bytes(msgspec.json.encode(DOCUMENT))
    program = tmp_path / "program.py"
    program.write_text("import muster\nmuster.simulate('scenario.json', seeds=3, processes=2)\n")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "\nmuster.sdk.errors.Error: a process that simulates has died" in done.stderr


def test_an_interrupt_leaves_out_the_other_seeds(tmp_path):
    def interrupt(_record):
        raise KeyboardInterrupt

    file = tmp_path / "scenario.json"
    file.write_bytes(msgspec.json.encode(DOCUMENT))
    report = muster.simulate(file, seeds=2, progress=interrupt)
    assert (report.whole.stopped, report.runs) == (True, None)


def test_what_is_wrong_is_an_error_of_the_interface(monkeypatch):
    with pytest.raises(muster.Error, match=r"^<scenario>: spec\.works: there is no such field: do you mean work\?$"):
        muster.simulate(DOCUMENT | {"spec": {"works": []}})
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(muster.Error, match="needs pandas"):
        muster.simulate(DOCUMENT).jobs.to_pandas()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"work": [WORK | {"runTime": nan}]}, "spec.work[0].runTime: nan is no JSON number"),
        (
            {"work": [WORK | {"runTime": {"uniform": {"from": 1, "to": inf}}}]},
            "spec.work[0].runTime.uniform.to: inf",
        ),
        ({"work": [WORK], "until": -inf}, "spec.until: -inf is no JSON number"),
    ],
    ids=["nan", "infinite, in a distribution", "negative"],
)
def test_a_number_that_is_none_is_named(spec, why):
    """JSON has null for it, which would be a field that lacks, or one without a bound."""
    with pytest.raises(muster.Error, match=f"^<scenario>: {escape(why)}"):
        muster.simulate(DOCUMENT | {"spec": spec})


def test_the_report_is_a_page_and_a_timeline_of_bins():
    report = muster.simulate(ROOT / "examples/simulate/two-teams.yaml")
    assert report.html().startswith("<!DOCTYPE html>")
    rows = [row for row in report.timeline if row.of == "quota" and row.resource == "nvidia.com/gpu"]
    assert {row.queue for row in rows} == {"prod", "research"}
    assert rows[0].capacity in (24, 40)
