"""Whole scenarios whose jobs and nodes come from tables."""

import csv
import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.documents import PEERS

from muster.cli.commands.forecasts.simulate import command
from muster.simulation.outcome.report import write_report
from muster.simulation.runs import list_cases, simulate_all
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.scenario.sweeps import parse_sweep
from muster.simulation.simulate import simulate

ROOT = Path(__file__).resolve().parents[3]
TRACES = PEERS / "traces"
HEAD = "apiVersion: muster.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec:\n"
TRACE = """  work:
  - name: log
    trace:
      file: jobs.csv
      format: csv
      columns:
        submit: at
        runTime: for
        pods: n
        requests: {cpu: cpus, nvidia.com/gpu: gpus}
        nodeSelector: {model: {column: models, separator: "|"}}
        id: id
"""
NODES = "  nodes:\n  - file: nodes.csv\n    columns: {name: name, allocatable: {cpu: cpus, nvidia.com/gpu: gpus}%s}\n"
JOBS_HEAD = "id,at,for,n,cpus,gpus,models\n"


def play(tmp_path, scenario, jobs="", nodes=""):
    (tmp_path / "jobs.csv").write_text(JOBS_HEAD + jobs)
    (tmp_path / "nodes.csv").write_text("name,cpus,gpus,model\n" + nodes)
    (tmp_path / "scenario.yaml").write_text(HEAD + scenario)
    return simulate(str(tmp_path / "scenario.yaml"))


def starts(report):
    return {job.name: job.started for job in report.jobs}


def test_jobs_of_a_table_have_their_own_pods(tmp_path):
    nodes = "a,8,2,old\nb,8,4,new\n"
    jobs = "big,100,10,1,1,4,\nsmall,100,10,1,1,2,\nalso,100,10,1,8,0,\nlater,99,10,1,1,1,new|newer\n"
    report = play(tmp_path, NODES % ", labels: {model: model}" + TRACE, jobs, nodes)
    assert starts(report) == {"log-later": 0.0, "log-big": 10.0, "log-small": 1.0, "log-also": 11.0}


def test_the_label_of_a_job_may_be_one_of_several(tmp_path):
    jobs = "x,0,10,1,1,1,new|newest\ny,0,10,1,1,1,newest\n"
    report = play(tmp_path, NODES % ", labels: {model: model}" + TRACE, jobs, "a,8,1,old\nb,8,1,new\n")
    assert starts(report) == {"log-x": 0.0, "log-y": None}
    assert [(one.name, one.never) for one in report.waiting] == [("log-y", True)]


QUEUE = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq, annotations: {muster.dev/user-limits: "jobs=1"}}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: "4"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: q}
spec: {clusterQueue: cq}
"""
TO_QUEUE = """  work:
  - name: log
    queue: q
    trace:
      file: jobs.csv
      format: csv
      columns: {submit: at, runTime: for, pods: n, requests: {cpu: cpus}, id: id, %s}
"""


def test_the_users_of_a_table_have_the_limits_of_their_queue(tmp_path):
    jobs = "a,0,10,1,2,0,ada\nb,0,10,1,2,0,ada\nc,0,10,1,2,0,bob\n"
    report = play(tmp_path, TO_QUEUE % "user: models" + QUEUE, jobs)
    assert starts(report) == {"log-a": 0.0, "log-b": 10.0, "log-c": 0.0}


def test_the_users_of_a_table_are_in_the_report_and_in_assertions(tmp_path):
    (tmp_path / "scenario.yaml").write_text(HEAD + TO_QUEUE % "user: models" + QUEUE)
    jobs = "a,0,10,1,2,0,unix:ada\nb,20,10,1,2,0,unix:ada\nc,50,10,1,2,0,bob\n"
    (tmp_path / "jobs.csv").write_text(JOBS_HEAD + jobs)
    texts = ["count(ended, user=ada) == 2", "max(wait, user=bob) < 0", "count(ended, priority=0) == 3"]
    report = simulate(str(tmp_path / "scenario.yaml"), assertions=texts)
    assert [job.user for job in report.jobs] == ["ada", "ada", "bob"]
    assert [one.holds for one in report.verdicts] == [True, False, True]
    for name, problem in (("user=eve", "there is no user eve, but ada, bob"), ("priority=7", "the priorities are 0")):
        with pytest.raises(ScenarioError, match=f"^--assert: .*{problem}$"):
            simulate(str(tmp_path / "scenario.yaml"), assertions=[f"count(ended, {name}) < 5"])
    write_report(report, tmp_path)
    assert [row["user"] for row in csv.DictReader((tmp_path / "jobs.csv").read_text().splitlines())] == [
        "ada",
        "ada",
        "bob",
    ]


def test_an_assertion_may_name_a_user_that_one_value_of_a_sweep_has(tmp_path):
    (tmp_path / "scenario.yaml").write_text(HEAD + TO_QUEUE % "user: models" + QUEUE)
    for name, user in (("jobs", "ada"), ("more", "eve")):
        (tmp_path / f"{name}.csv").write_text(JOBS_HEAD + f"a,0,10,1,2,0,{user}\n")
    cases = list_cases([str(tmp_path / "scenario.yaml")], [parse_sweep("work.log.trace.file=jobs.csv,more.csv")], None)
    for text in ("count(ended, user=eve) <= 1", "count(ended, user=eve, variant=s) <= 1"):
        runs = simulate_all(cases, assertions=[text]).runs
        assert [verdict.value for run in runs for verdict in run.verdicts] == [0.0, 1.0]
    for text in ("count(ended, user=evi) <= 1", "count(ended, user=evi, variant=s) <= 1"):
        with pytest.raises(ScenarioError, match=r"there is no user evi, but ada$"):
            simulate_all(cases, assertions=[text])
    with pytest.raises(ScenarioError, match=r"there is no variant t, but s$"):
        simulate_all(cases, assertions=["count(ended, variant=t) <= 1"])


def test_the_number_of_jobs_to_come_is_known(tmp_path):
    more = """  - name: burst
    arrivals: {burst: {at: [0, 60], count: 3}}
    count: 4
    runTime: 1m
    template:
      apiVersion: batch/v1
      kind: Job
      spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
"""
    (tmp_path / "scenario.yaml").write_text(HEAD + TO_QUEUE % "user: models" + more + QUEUE)
    (tmp_path / "jobs.csv").write_text(JOBS_HEAD + "a,0,10,1,2,0,ada\nb,20,10,1,2,0,ada\n")
    expected = set()
    report = simulate(str(tmp_path / "scenario.yaml"), progress=lambda record: expected.add(record.expected))
    assert expected == {len(report.jobs)} == {6}


def test_the_name_of_a_job_that_could_never_run_is_safe_for_terminals(tmp_path):
    (tmp_path / "scenario.yaml").write_text(HEAD + TO_QUEUE % "user: models" + QUEUE)
    (tmp_path / "jobs.csv").write_text(JOBS_HEAD + "a\x1b]0;b\x07,0,10,1,9,0,ada\n")
    done = CliRunner().invoke(command, [str(tmp_path / "scenario.yaml")])
    assert "log-a\\x1b]0;b\\x07 could never run: " in done.stderr


def test_an_error_that_quotes_a_table_is_safe_for_terminals(tmp_path):
    (tmp_path / "scenario.yaml").write_text(HEAD + TO_QUEUE % "user: models" + QUEUE)
    (tmp_path / "jobs.csv").write_text("\x1b]0;b\x07\n")
    done = CliRunner().invoke(command, [str(tmp_path / "scenario.yaml")])
    assert (done.exit_code, "\x1b" in done.stderr) == (2, False)
    assert ", but \\x1b]0;b\\x07" in done.stderr


def test_a_gang_of_a_table_may_start_with_fewer_pods(tmp_path):
    queue = QUEUE.replace(', annotations: {muster.dev/user-limits: "jobs=1"}', "")
    jobs = "a,0,10,6,1,3,\nb,0,10,6,1,5,\n"
    report = play(tmp_path, TO_QUEUE % "gang: gpus" + queue, jobs)
    assert starts(report) == {"log-a": 0.0, "log-b": None}, "4 CPUs are enough for 3 of 6 pods, and not for 5"


def test_jobs_that_never_ran_are_counted(tmp_path):
    report = play(tmp_path, TRACE, "x,0,,1,1,1,\ny,0,1,1,1,1,\n")
    assert report.remarks == ["log: 1 job of the log never ran, and is left out"]


def test_many_kinds_of_jobs_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("muster.simulation.engine.templates._MOST_KEPT", 3)
    monkeypatch.setattr("muster.simulation.engine.nodes.asking._MOST_SHAPES", 3)
    jobs = "".join(f"{number},0,10,1,{number % 9},0,\n" for number in range(40))
    report = play(tmp_path, NODES % "" + TRACE, jobs, "a,8,0,\n")
    assert report.summary.total.ended == 40
    spans = [(job.started, job.ended, int(job.name.removeprefix("log-")) % 9) for job in report.jobs]
    busy = [sum(cpus for start, end, cpus in spans if start <= at < end) for at, *_ in spans]
    assert max(busy) == 8


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (
            "format: csv",
            "format: cvs",
            r"scenario.yaml:9: spec.work\[0\].trace.format: there is no format cvs: do you mean csv\?",
        ),
        ("runTime: for", "runtime: for", r"trace.columns.runtime: there is no such field: do you mean runTime\?"),
        ("        runTime: for\n", "", r"scenario.yaml:10: spec.work\[0\].trace.columns: runTime is needed"),
        ("runTime: for", "runTime: gone", r"jobs.csv:1: there is no column gone, but id, at, for"),
        ("pods: n", "pods: att", r"jobs.csv:1: there is no column att: do you mean at\?"),
        ("separator: ", "seperator: ", r"nodeSelector.*.seperator: there is no such field: do you mean separator\?"),
        ("pods: n", "pods: id", r"jobs.csv:2: id: 'x' is no number"),
        ("cpu: cpus", "cpu: {column: cpus, unit: x}", r"scenario.yaml:14: .*columns.requests.cpu: 'x' is no suffix"),
        ("jobs.csv", "gone.csv", "gone.csv: No such file"),
        ("      format: csv", "      format: csv\n      start: soon", r"trace.start: soon is no number of seconds"),
        ("      format: csv", "      format: csv\n      start: 5", "jobs.csv:2: at: was submitted before the start, 5"),
        ("format: csv", "format: philly", "columns and header have no effect on the format philly"),
        ("requests:", "gang: n\n        nope:", "columns.nope: there is no such field"),
        ("      format: csv", "      speed: 0", r"trace.speed: 0 is no speed: it must be positive"),
        ("    trace:", "    history: x\n    trace:", "exactly one of trace and history is needed"),
    ],
)
def test_a_trace_that_is_wrong_is_named(tmp_path, before, after, problem):
    assert before in TRACE
    with pytest.raises(ScenarioError, match=problem):
        play(tmp_path, TRACE.replace(before, after, 1), "x,0,10,1,1,1,\n")


SACCT = """JobID|User|Partition|Submit|Start|End|Timelimit|NNodes|AllocCPUS|AllocTRES
1|ada|gpu|2026-01-05T08:00:00|2026-01-05T09:00:00|2026-01-05T10:00:00|02:00:00|1|8|billing=8,cpu=8,gres/gpu=2,node=1
2|ada|gpu|2026-01-05T08:10:00|2026-01-05T10:00:00|2026-01-05T10:30:00|1-00:00:00|2|16|cpu=16,gres/gpu:a=4,gres/gpu=4
3|bob|cpu|2026-01-05T08:20:00|Unknown|Unknown|01:00:00|1|0|
4|bob|cpu|2026-01-05T08:30:00|2026-01-05T11:00:00|2026-01-05T11:30:00|UNLIMITED|1|8|cpu=8,mem=4000M,node=1
"""


def test_jobs_of_slurm_are_replayed(tmp_path):
    (tmp_path / "sacct.csv").write_text(SACCT)
    work = "  work:\n  - name: log\n    trace: {file: sacct.csv, format: sacct}\n"
    report = play(tmp_path, NODES % "" + work, nodes="a,8,2,\nb,8,2,\n")
    assert starts(report) == {"log-1": 0.0, "log-2": 3600.0, "log-4": 5400.0}, "4 has no limit, so it does not pass 2"
    assert report.remarks == ["log: 1 job of the log never ran, and is left out"]
    assert [one.never for one in play(tmp_path, NODES % "" + work, nodes="a,8,2,\nb,8,1,\n").waiting] == [True]
    (tmp_path / "sacct.csv").write_text(SACCT.replace("UNLIMITED", "00:30:00"))
    assert starts(play(tmp_path, NODES % "" + work, nodes="a,8,2,\nb,8,2,\n"))["log-4"] == 1800.0


def test_a_published_table_without_its_format_is_answered_with_the_formats(tmp_path):
    (tmp_path / "pods.csv").write_text("name\n")
    work = "  work:\n  - {name: log, trace: {file: pods.csv}}\n"
    with pytest.raises(
        ScenarioError, match=r"in `columns.requests`; without a format, the file is read as csv: .*openb"
    ):
        play(tmp_path, work)
    with pytest.raises(ScenarioError, match=r"a log of this format does not say .* file is read as swf: .*openb"):
        play(tmp_path, work.replace("pods.csv", "pods.txt"))
    with pytest.raises(
        ScenarioError, match=r"nodes\[0\].columns: name is needed; formats with columns are openb, spot2026"
    ):
        play(tmp_path, "  nodes: [{file: pods.csv}]\n")


def test_jobs_of_a_log_come_faster(tmp_path):
    jobs = "x,100,10,1,1,1,\ny,160,10,1,1,1,\n"
    report = play(tmp_path, TRACE.replace("      format: csv\n", "      speed: 1.2\n"), jobs)
    assert starts(report) == {"log-x": 0.0, "log-y": 50.0}
    swept = simulate_all(list_cases([str(tmp_path / "scenario.yaml")], [parse_sweep("work.log.trace.speed=1,2")], None))
    assert [run.summary.makespan for run in swept.runs] == [70.0, 40.0]


def test_the_name_of_a_file_says_its_format(tmp_path):
    assert starts(play(tmp_path, TRACE.replace("      format: csv\n", ""), "x,0,10,1,1,1,\n")) == {"log-x": 0.0}
    with pytest.raises(ScenarioError, match=r"jobs\.csv:2: has 2 fields instead of 7$"):
        play(tmp_path, TRACE.replace("      format: csv\n", ""), "x,0\n")
    other = (
        r"jobs\.csv:1: there is no column .*; without a format, the file is read as csv: other formats are swf, hist"
    )
    with pytest.raises(ScenarioError, match=other):
        play(tmp_path, TRACE.replace("      format: csv\n", "").replace("submit: ", "submit: no-"), "x,0\n")


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ("A_b,1,1,\n", "nodes.csv:2: 'A_b' is no name of a node"),
        ("a,1,1,\na,1,1,\n", "nodes.csv:3: node a is that of line 2, too"),
        ("a,many,1,\n", "nodes.csv:2: cpus: 'many' is no number"),
        ("a,1,1,two words\n", "nodes.csv:2: .*metadata.labels"),
        ("a,1\n", "nodes.csv:2: has 2 fields instead of 4"),
    ],
)
def test_a_table_of_nodes_that_is_wrong_is_named(tmp_path, nodes, problem):
    with pytest.raises(ScenarioError, match=problem):
        play(tmp_path, NODES % ", labels: {model: model}" + TRACE, "x,0,10,1,1,1,\n", nodes)


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_a_byte_order_mark_is_no_part_of_a_log(tmp_path, name):
    log = b"\xef\xbb\xbf; Version: 2\n1 0 -1 60 1 -1 -1 1 60 -1 1 1 1 1 0 -1 -1 -1\n"
    (tmp_path / name).write_bytes(gzip.compress(log) if name.endswith("gz") else log)
    pod = "{spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}"
    template = f"{{apiVersion: batch/v1, kind: Job, spec: {{template: {pod}}}}}"
    [job] = play(tmp_path, f"  work:\n  - {{name: log, trace: {{file: {name}}}, template: {template}}}\n").jobs
    assert (job.name, job.run_time) == ("log-1", 60.0)


@pytest.mark.parametrize("packs", [True, False])
def test_a_log_that_is_not_all_gzip_is_named(tmp_path, packs):
    head = JOBS_HEAD.encode()
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(head) + b"more" if packs else head)
    with pytest.raises(ScenarioError, match=r"jobs\.csv\.gz: is no gzip file, or other data follow its end$"):
        play(tmp_path, TRACE.replace("jobs.csv", "jobs.csv.gz"))


def test_a_damaged_table_is_named(tmp_path):
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(b"id,at\n" * 1000)[:30])
    with pytest.raises(ScenarioError, match=r"spec\.work\[0\]\.trace\.file: .*jobs\.csv\.gz: Compressed file ended"):
        play(tmp_path, TRACE.replace("jobs.csv", "jobs.csv.gz"))


@pytest.mark.skipif(not (TRACES / "openb-pods.csv.gz").exists(), reason="the log is not there")
def test_the_log_of_openb_runs_on_its_nodes(tmp_path):
    nodes = f"  nodes:\n  - {{file: {TRACES}/openb-nodes.csv.gz, format: openb}}\n"
    work = f"  work:\n  - {{name: log, trace: {{file: {TRACES}/openb-pods.csv.gz, format: openb}}}}\n"
    report = play(tmp_path, nodes + work)
    assert report.summary.total.ended == 7_255
    assert report.remarks == ["log: 897 jobs of the log never ran, and are left out"]


@pytest.mark.skipif(not (TRACES / "spot-gpu-nodes.csv.gz").exists(), reason="the log is not there")
def test_the_nodes_of_spot2026_are_known(tmp_path):
    nodes = f"  nodes:\n  - {{name: spot, file: {TRACES}/spot-gpu-nodes.csv.gz, format: spot2026}}\n"
    with gzip.open(TRACES / "spot-gpu-nodes.csv.gz", "rt") as lines:
        gpus = sum(int(row["gpu_capacity_num"]) for row in csv.DictReader(lines))
    report = play(tmp_path, nodes + TRACE, f"x,0,10,{gpus},0,1,\ny,0,10,{gpus + 1},0,1,\n")
    assert starts(report) == {"log-x": 0.0, "log-y": None}


def test_the_example_of_the_page_runs():
    report = simulate(str(ROOT / "examples" / "simulate" / "tables"))
    assert report.holds
    assert report.summary.total.ended == 196
    page, example = (
        (ROOT / file).read_text() for file in ("docs/simulate-replay.md", "examples/simulate/tables/scenario.yaml")
    )
    assert example[example.index("  nodes:") : example.index("  assert:")] in page
