"""Variants, seeds and sweeps of whole scenarios."""

import json
import multiprocessing
import os
from pathlib import Path
from threading import Thread

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from muster.cli.actions.comparing import report_comparing
from muster.cli.commands.forecasts.simulate import command
from muster.simulation.outcome.comparison import compare
from muster.simulation.runs import Comparing, list_cases, simulate_all
from muster.simulation.scenario.logs.shelf import LogShelf
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.scenario.sweeps import parse_sweep

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "simulate" / "variants.yaml"
SCENARIO = """apiVersion: muster.dev/v1alpha1
kind: Scenario
metadata: {name: base}
spec:
  nodes:
  - name: n
    count: 1
    template: {status: {allocatable: {cpu: "1"}}}
  work:
  - name: w
    arrivals: {burst: {at: [0], count: 4}}
    runTime: 10m
    template:
      apiVersion: batch/v1
      kind: Job
      spec:
        template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}}
  variants:
  - name: wide
    spec: {nodes: [{name: n, count: 2}]}
  - name: short
    set: {work.w.runTime: 1m}
"""


DEV = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: dev}, spec: {}}"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return str(path)


def last_ends(outcome):
    return {(run.variant, run.seed): run.summary.makespan for run in outcome.runs}


def test_a_pool_may_be_renamed_by_its_path(file):
    renamed = SCENARIO.replace("{work.w.runTime: 1m}", "{nodes.n.name: other, nodes.other.count: 4}")
    Path(file).write_text(renamed)
    assert last_ends(simulate_all(list_cases([file], [], None)))["short", 1] == 600.0


def test_variants_are_played_with_all_seeds(file):
    outcome = simulate_all(list_cases([file], [], None), 2)
    ends = {"base": 2400.0, "wide": 1200.0, "short": 240.0}
    assert last_ends(outcome) == {(name, seed): end for name, end in ends.items() for seed in (1, 2)}
    assert list(outcome.comparison.variants) == ["base", "wide", "short"]


def test_variants_and_seeds_share_what_is_read_of_a_log(file, tmp_path):
    text = SCENARIO.replace("arrivals: {burst: {at: [0], count: 4}}\n    runTime: 10m", "trace: {file: log.swf}")
    text = text.replace("work.w.runTime: 1m", "work.w.trace.limits: none")
    Path(file).write_text(text)
    cases = list_cases([file], [], None)  # before there is a log
    lines = (f"{job} 0 0 600 1 -1 -1 1 900 -1 1 1 1 1 1 1 -1 -1\n" for job in range(4))
    (tmp_path / "log.swf").write_text("".join(lines))
    looks = []
    outcome = simulate_all(cases, 3, shelf=LogShelf(lambda log, jobs: looks.append((log.name, jobs))))
    assert {run.variant: run.summary.makespan for run in outcome.runs} == {"base": 2400, "wide": 1200, "short": 2400}
    assert looks == [("log.swf", 0)]
    assert simulate_all(cases, 3, processes=2).runs == outcome.runs


def test_a_sweep_takes_the_place_of_the_scenario_or_is_played_in_each_variant(file, tmp_path):
    sweeps = [parse_sweep("nodes.n.count=1..4:3")]
    names = [case.name for case in list_cases([file], sweeps, None)]
    assert names[:3] == ["base, nodes.n.count=1", "base, nodes.n.count=4", "wide, nodes.n.count=1"]
    alone = tmp_path / "alone.yaml"
    alone.write_text(SCENARIO.partition("  variants:")[0])
    outcome = simulate_all(list_cases([str(alone)], sweeps, None))
    assert last_ends(outcome) == {("nodes.n.count=1", 1): 2400.0, ("nodes.n.count=4", 1): 600.0}


def test_scenarios_are_compared_with_the_same_seeds(file, tmp_path):
    other = tmp_path / "other.yaml"
    text = SCENARIO.partition("  variants:")[0]
    other.write_text(text.replace("name: base", "name: other").replace("spec:\n", "spec:\n  seed: 9\n", 1))
    outcome = simulate_all(list_cases([file, str(other)], [], None), 2)
    assert [run.seed for run in outcome.runs if run.variant == "other"] == [1, 2]
    with pytest.raises(ScenarioError, match="base is the name of another variant, too"):
        list_cases([file, file], [], None)


def test_the_report_of_many_sweeps_has_a_folder_of_its_own(file, tmp_path):
    cases = [case for case in list_cases([file], [], None) if case.name != "short"]
    cases = [replace(case, name=f"{'work.w.runTime=10m, ' * 20}{case.name}") for case in cases]
    simulate_all(cases, folder=tmp_path / "out")
    folders = [path for path in (tmp_path / "out").iterdir() if (path / "report.html").exists()]
    assert len(folders) == 2


def test_an_assertion_names_the_variant_that_it_is_about(file):
    outcome = simulate_all(list_cases([file], [], None), assertions=["max(wait, variant=wide) < 11m"])
    assert [(run.variant, verdict.holds) for run in outcome.runs for verdict in run.verdicts] == [("wide", True)]
    assert not simulate_all(list_cases([file], [], None), assertions=["max(wait) < 11m"]).holds


def test_a_queue_or_work_of_an_assertion_is_one_of_its_variant(file):
    template = "{apiVersion: batch/v1, kind: Job, spec: {template: {spec: %s}}}"
    pod = "{restartPolicy: Never, containers: [{name: c, image: i}]}"
    work = f"{{name: x, arrivals: {{burst: {{at: [0], count: 1}}}}, runTime: 1m, template: {template % pod}}}"
    Path(file).write_text(f"{SCENARIO}  - {{name: more, spec: {{work: [{work}]}}}}\n")

    def list_verdicts(text):
        outcome = simulate_all(list_cases([file], [], None), assertions=[text])
        return {run.variant: verdict.holds for run in outcome.runs for verdict in run.verdicts}

    assert list_verdicts("count(submitted, work=x, variant=more) == 1") == {"more": True}
    assert list_verdicts("count(submitted, work=x) < 2") == dict.fromkeys(["base", "wide", "short", "more"], True)
    with pytest.raises(ScenarioError, match=r"--assert: there is no work x, but w$"):
        list_verdicts("count(submitted, work=x, variant=wide) == 1")
    with pytest.raises(ScenarioError, match=r"--assert: there is no work y, but w$"):
        list_verdicts("count(submitted, work=y) == 1")
    with pytest.raises(ScenarioError, match=r"there is no variant wider: do you mean wide\?"):
        list_verdicts("count(submitted, work=x, variant=wider) == 1")


def test_an_interrupt_leaves_out_the_simulation_that_it_cuts_short(file):
    def interrupt(done: int, total: int) -> None:
        assert total == 6
        if done == 2:
            raise KeyboardInterrupt

    outcome = simulate_all(list_cases([file], [], None), 2, done=interrupt)
    assert outcome.stopped
    assert [run.variant for run in outcome.runs] == ["base", "wide"]


def test_several_processes_find_the_same(file, tmp_path):
    cases = list_cases([file], [], None)
    alone = simulate_all(cases, 2)
    together = simulate_all(cases, 2, processes=2, folder=tmp_path / "out")
    assert together == alone
    folders = {path.name for path in (tmp_path / "out").iterdir()}
    assert folders == {f"{case.name}-seed-{case.seed + number}" for case in cases for number in (0, 1)}
    assert (tmp_path / "out" / f"wide-seed-{cases[0].seed}" / "report.html").exists()


def test_an_interrupt_ends_the_other_processes(file):
    def interrupt(done: int, _total: int) -> None:
        if done:
            raise KeyboardInterrupt

    outcome = simulate_all(list_cases([file], [], None), 20, processes=2, done=interrupt)
    assert outcome.stopped
    assert 1 <= len(outcome.runs) < 60
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (
            "name: short",
            "name: wide",
            "scenario.yaml:21: spec.variants[1].name: wide is the name of another variant, too",
        ),
        ("name: short", "name: base", "spec.variants[1].name: base is the name of the scenario, too"),
        ("name: short", "name: a b", "spec.variants[1].name: 'a b' is no name"),
        (
            "count: 2",
            "cuont: 2",
            "scenario.yaml:20: spec.variants[0].spec.nodes[0].cuont: there is no such field: do you mean count?",
        ),
        (
            "work.w.run",
            "work.v.run",
            "scenario.yaml:22: spec.variants[1].set.work.v.runTime: v is no item of the list",
        ),
        ("count: 2", "count: -2", "scenario.yaml:20: spec.variants[0].spec.nodes[0].count: must be from 0"),
        ("runTime: 1m", "runTime: 1x", "scenario.yaml:22: spec.variants[1].set.work.w.runTime: unknown unit"),
        (
            "set: {work.w.runTime: 1m}",
            f"manifests: [{DEV.replace('spec: {', 'spec: {cohort: a, ')}]\n---\n{DEV}",
            "scenario.yaml:22: spec.variants[1].manifests[0]: ClusterQueue dev: ",
        ),
    ],
)
def test_a_variant_that_is_wrong_ends_all_before_the_first_simulation(file, before, after, problem):
    Path(file).write_text(SCENARIO.replace(before, after))
    done = CliRunner().invoke(command, [file])
    assert (done.exit_code, done.stdout) == (2, "")
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["-", "in/pipe", "/dev/fd/{}"])
def test_a_scenario_comes_through_a_pipe(file, tmp_path, monkeypatch, name):
    """It can be read only once, and its files are in the working directory. A shell may open its file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flavor.yaml").write_text(FLAVOR)
    (tmp_path / "in").mkdir()
    text = SCENARIO.replace("spec:\n", "spec:\n  manifests: [flavor.yaml]\n", 1)
    if name.startswith("/dev"):
        (tmp_path / "in" / "scenario.yaml").write_text(text)
        name = name.format(os.open("in/scenario.yaml", os.O_RDONLY))
    elif name != "-":
        os.mkfifo(name)
        Thread(target=Path(name).write_text, args=(text,)).start()
    done = CliRunner().invoke(command, [name, "-o", "json"], input=text)
    assert done.exit_code == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert {run["variant"]: run["summary"]["makespan"] for run in runs} == {"base": 2400, "wide": 1200, "short": 240}


def test_an_error_in_the_standard_input_has_its_line():
    done = CliRunner().invoke(command, ["-"], input=SCENARIO.replace("runTime: 10m", "runTme: 10m"))
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: stdin:12: spec.work[0].runTme: there is no such field")


def test_the_command_compares(file, tmp_path):
    done = CliRunner().invoke(command, [file, "--assert", "max(wait) < 11m", "--report", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "base, seed 1: FAILS: max(wait) < 11m (it is 30m)" in done.stderr
    assert "with one seed, nothing can be said of noise" in done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[:4]] == ["VARIANT", "base", "wide", "short"]
    document = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len(document["runs"]) == 3
    assert document["comparison"]["differences"][0]["beyond_noise"] is None


def test_the_command_counts_jobs_that_could_never_run_apart(file):
    huge = SCENARIO.replace('requests: {cpu: "1"}', 'requests: {cpu: "2"}').replace('cpu: "1"', 'cpu: "2"', 1)
    Path(file).write_text(huge.replace("{nodes: [{name: n, count: 2}]}", "{nodes: [{name: n, count: 0}]}"))
    done = CliRunner().invoke(command, [file, "--seeds", "3"])
    header, base, wide, _ = [line.split() for line in done.stdout.splitlines()[:4]]
    at = header.index("NEVER") - len(header)
    assert (base[0], wide[0], header[at - 1]) == ("base", "wide", "WAITING")
    assert [line.partition(":")[2] for line in done.stderr.splitlines()] == [
        " one seed does, and shows no noise",
        " 4 jobs could never run",
    ]
    assert "wide, seed 1 and 2 more: 4 jobs could never run" in done.stderr


FLAVOR = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: f}\n"
QUEUE = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  resourceGroups:
  - coveredResources: [%s]
    flavors: [{name: f, resources: [%s]}]
"""


def write_queue(name, *resources):
    quotas = ", ".join(f"{{name: {one}, nominalQuota: 8}}" for one in resources)
    return QUEUE % (name, ", ".join(resources), quotas)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("max(used, queue=prod) <= 60", {"base": None, "wide": None, "short": None, "more": 0.0}),
        ("max(borrowed, queue=prod) <= 60", {"base": None, "wide": None, "short": None, "more": 0.0}),
        ("max(occupancy, queue=prod, resource=cpu) <= 60%", {"base": None, "wide": None, "short": None, "more": 0.0}),
        ("max(used, queue=dev) <= 60", {"base": 0.0, "wide": 0.0, "short": 0.0, "more": 0.0}),
    ],
)
def test_an_assertion_fails_in_a_variant_without_the_queue_that_it_names(file, text, values):
    prod = json.dumps(yaml.safe_load(write_queue("prod", "cpu")))
    more = f"  - {{name: more, manifests: [{prod}]}}\n"
    Path(file).write_text(f"{SCENARIO}{more}{FLAVOR}{write_queue('dev', 'cpu')}")
    outcome = simulate_all(list_cases([file], [], None), assertions=[text])
    [verdicts] = zip(*(run.verdicts for run in outcome.runs), strict=True)
    assert {run.variant: one.value for run, one in zip(outcome.runs, verdicts, strict=True)} == values
    assert [one.holds for one in verdicts] == [value is not None for value in values.values()]


def test_an_assertion_that_is_ambiguous_in_a_variant_is_refused(file):
    """The scenario has only quotas of CPUs, and a variant has some of memory, too."""
    prod = json.dumps(yaml.safe_load(write_queue("prod", "cpu", "memory")))
    more = f"  - {{name: more, manifests: [{prod}]}}\n"
    Path(file).write_text(f"{SCENARIO}{more}{FLAVOR}{write_queue('dev', 'cpu')}")
    with pytest.raises(
        ScenarioError, match=r"^--assert: several resources match: add resource=cpu or resource=memory$"
    ):
        simulate_all(list_cases([file], [], None), assertions=["max(used) <= 60"])


def test_an_assertion_is_about_the_same_resource_in_all_variants(file):
    """The scenario has only quotas of CPUs, and a variant only quotas of memory."""
    prod = json.dumps(yaml.safe_load(write_queue("prod", "memory")))
    more = f"  - {{name: more, manifests: [{prod}, {{$patch: delete, {DEV[1:]}]}}\n"
    Path(file).write_text(f"{SCENARIO}{more}{FLAVOR}{write_queue('dev', 'cpu')}")
    why = r"^--assert: max\(used\) <= 60 measures cpu in base and memory in more: add resource=cpu$"
    with pytest.raises(ScenarioError, match=why):
        simulate_all(list_cases([file], [], None), assertions=["max(used) <= 60"])


@pytest.mark.parametrize(
    ("priority", "named", "others"),
    [
        ("", "7", ": the priorities are 0"),
        ("priority: 5", "7", ": the priorities are 5"),
        ("priority: {constant: 5}", "7", ": the priorities are 5"),
        ("priority: {uniform: {from: -3, to: 5}}", "7", ": the priorities are -3 to 5"),
        ("priority: {exponential: {mean: 5}}", "-1", ": the priorities are 0 to 2147483647"),
        ("priority: {empirical: values}", "7", ": the priorities are -2, 8"),
    ],
)
def test_an_assertion_about_a_priority_that_no_job_has_is_refused(file, tmp_path, priority, named, others):
    (tmp_path / "values").write_text("8\n-2\n8\n")
    Path(file).write_text(SCENARIO.replace("runTime: 10m", f"runTime: 10m\n    {priority}").partition("  variants")[0])
    done = CliRunner().invoke(command, [file, "--assert", f"count(waiting, priority={named}) == 0"])
    assert done.exit_code == 2
    assert done.stderr.endswith(f"Error: --assert: no job has the priority {named}{others}\n")


@pytest.mark.parametrize(
    ("priority", "named"),
    [("priority: {uniform: {from: -3, to: 5}}", -3), ("priority: {lognormal: {median: 9, sigma: 1}}", 99)],
)
def test_an_assertion_may_be_about_a_priority_that_a_job_may_have(file, priority, named):
    Path(file).write_text(SCENARIO.replace("runTime: 10m", f"runTime: 10m\n    {priority}").partition("  variants")[0])
    done = CliRunner().invoke(command, [file, "--assert", f"count(waiting, priority={named}) == 0"])
    assert done.exit_code == 0, done.stderr


def test_an_assertion_about_a_user_that_one_variant_has_is_judged_in_all(file):
    more = """  - name: more
    spec:
      work:
      - name: eve
        arrivals: {burst: {at: [0], count: 1}}
        runTime: 1m
        priority: 7
        template:
          apiVersion: batch/v1
          kind: Job
          spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
"""
    Path(file).write_text(SCENARIO + more)
    texts = ["count(ended, user=eve) < 2", "max(wait, user=eve) < 1h", "count(ended, priority=7) == 0"]
    outcome = simulate_all(list_cases([file], [], None), assertions=texts)
    values = {run.variant: [one.value for one in run.verdicts] for run in outcome.runs}
    none = [0.0, None, 0.0]
    assert values == {"base": none, "wide": none, "short": none, "more": [1.0, 0.0, 1.0]}
    with pytest.raises(ScenarioError, match=r"^--assert: there is no user evi: do you mean eve\?$"):
        simulate_all(list_cases([file], [], None), assertions=["count(ended, user=evi, variant=more) < 5"])
    with pytest.raises(ScenarioError, match=r"^--assert: there is no user evi, but w$"):
        simulate_all(list_cases([file], [], None), assertions=["count(ended, user=evi) < 5"])


def test_an_assertion_without_jobs_fails_as_such(file, tmp_path):
    Path(file).write_text(SCENARIO.partition("  variants:")[0])
    text = "max(wait, queue=dev) < 1h"
    Path(file).write_text(f"{Path(file).read_text()}{FLAVOR}{write_queue('dev', 'cpu')}")
    done = CliRunner().invoke(command, [file, "--assert", text, "--report", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert f"FAILS: {text} (there is no such job)" in done.stderr.splitlines()
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"{text.replace('<', '&lt;')}: fails, there is no such job" in page


@pytest.mark.parametrize("seeds", [0, 1001])
def test_a_number_of_seeds_that_is_none_is_named_as_the_argument_is(file, seeds):
    with pytest.raises(ScenarioError, match=r"^seeds: must be from 1 to 1000$"):
        simulate_all(list_cases([file], [], None), seeds)


def test_an_interrupt_before_the_first_outcome_leaves_nothing_to_compare(tmp_path, capsys):
    stopped = Comparing([], compare([]), stopped=True)
    assert report_comparing(stopped, 120, tmp_path / "out", "table") == 130
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "stopped before the first of 120 simulations was done: there is nothing to compare\n"
    assert not (tmp_path / "out").exists()


def test_the_example_says_what_is_beyond_noise():
    done = CliRunner().invoke(command, [str(EXAMPLE), "--seeds", "5", "-o", "json"])
    assert done.exit_code == 0
    differences = json.loads(done.stdout)["comparison"]["differences"]
    found = {
        (one["variant"], one["figure"]["queue"]): (one["change"]["mean"], one["beyond_noise"])
        for one in differences
        if one["figure"]["name"] == "wait mean"
    }
    change, beyond_noise = found["more-nodes", "research"]
    assert (change < 0, beyond_noise) == (True, True)
    assert found["more-quota", "prod"][0] > 0


@pytest.mark.parametrize(("bound", "code"), [("30m", 0), ("1s", 1)])
def test_the_example_for_ci_holds_and_fails_if_its_bound_is_too_low(tmp_path, bound, code):
    text = (ROOT / "examples" / "simulate" / "ci.yaml").read_text()
    file = tmp_path / "ci.yaml"
    file.write_text(text.replace("quota-planned) < 30m", f"quota-planned) < {bound}"))
    done = CliRunner().invoke(command, [str(file), "--seeds", "5"])
    assert done.exit_code == code, done.stderr
    assert ("FAILS: p90(wait, queue=prod, variant=quota-planned) < 1s" in done.stderr) == bool(code)
