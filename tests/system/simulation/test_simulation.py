"""Whole scenarios: simulations agree with simulators that share none of their code, and with what a queue promises."""

import gzip
import heapq
import re
from collections import deque
from pathlib import Path
from random import Random

import pytest
from tests.documents import PEERS

from muster.simulation.outcome.report import write_report
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.simulate import simulate

ROOT = Path(__file__).resolve().parents[3]
TRACES = PEERS / "traces"
JOB = """
      apiVersion: batch/v1
      kind: Job
      spec:
        completionMode: Indexed
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
"""
NODES = """
  nodes:
  - name: n
    count: %d
    template: {status: {allocatable: {cpu: "1", pods: "1"}}}
"""
FLAVOR = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
"""
QUEUE = """
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %(name)s}
spec:
  cohortName: %(cohort)s
  namespaceSelector: {}
  queueingStrategy: %(strategy)s
  preemption: {reclaimWithinCohort: Any}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: "%(cpus)d"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %(name)s}
spec: {clusterQueue: %(name)s}
"""


def scenario(body, after=""):
    return f"apiVersion: muster.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: s}}\nspec:\n{body}{after}"


def queue(name, cpus, *, strategy="BestEffortFIFO", cohort="all"):
    return QUEUE % {"name": name, "cpus": cpus, "strategy": strategy, "cohort": cohort}


def play(tmp_path, text, **options):
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    return simulate(str(file), **options)


# Simulators of the literature, for machines whose processors are all alike: (submit, run, limit, processors).


def fcfs(jobs, processors):
    """First come, first served: nobody passes the first that waits. When each starts."""
    starts, free = {}, processors
    ends: list[tuple[float, int]] = []
    line: deque[tuple[int, float, float, int]] = deque()
    for number, (submit, run, _, size) in enumerate(jobs):
        line.append((number, submit, run, size))
    now = 0.0
    while line:
        number, submit, run, size = line[0]
        now = max(now, submit)
        while ends and (ends[0][0] <= now or free < size):
            end, freed = heapq.heappop(ends)
            now, free = max(now, end), free + freed
        starts[number] = now
        heapq.heappush(ends, (now + run, size))
        free -= size
        line.popleft()
    return [starts[number] for number in range(len(jobs))]


def easy(jobs, processors):
    """EASY backfill: a job may pass the first that waits if it does not delay that one. When each starts."""
    starts, line, free = {}, [], processors
    running = {}  # by number: the end as promised, and the processors
    events = [(submit, 1, number) for number, (submit, *_) in enumerate(jobs)]
    heapq.heapify(events)

    def start(number, now):
        nonlocal free
        _, run, limit, size = jobs[number]
        starts[number] = now
        running[number] = now + limit, size
        free -= size
        heapq.heappush(events, (now + run, 0, number))

    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, comes, number = heapq.heappop(events)
            if comes:
                line.append(number)
            else:
                free += running.pop(number)[1]
        while line and jobs[line[0]][3] <= free:
            start(line.pop(0), now)
        if not line:
            continue
        need, will_be_free, shadow = jobs[line[0]][3], free, now
        for promised, size in sorted(running.values()):
            if will_be_free >= need:
                break
            will_be_free, shadow = will_be_free + size, promised
        spare = will_be_free - need
        for number in line[1:]:
            _, _, limit, size = jobs[number]
            if size <= free and (now + limit <= shadow or size <= min(spare, free)):
                spare -= size if now + limit > shadow else 0
                start(number, now)
                line.remove(number)
    return [starts[number] for number in range(len(jobs))]


def write_log(path, jobs):
    lines = [
        f"{number} {submit} -1 {run} {size} -1 -1 {size} {limit} -1 1 1 -1 -1 -1 -1 -1 -1"
        for number, (submit, run, limit, size) in enumerate(jobs)
    ]
    path.write_text("\n".join(lines) + "\n")


def draw_log(seed, number=150, processors=16):
    """Draw jobs that come and end at different moments; at one moment, simulators differ in whom they look at first."""
    random, at, jobs = Random(seed), 0, []
    for _ in range(number):
        at += random.randrange(100_000)
        run = random.randrange(1, 600_000)
        jobs.append((at, run, run, random.choice([1, 1, 2, 3, 5, 8, processors])))
    return jobs


def replay(tmp_path, log, *, nodes=0, limits="exact", queued="", after=""):
    queue_line = f"    queue: {queued}\n" if queued else ""
    body = f"  work:\n  - name: log\n    trace: {{file: {log}, limits: {limits}}}\n{queue_line}    template:{JOB}"
    return play(tmp_path, scenario((NODES % nodes if nodes else "") + body, after))


@pytest.mark.parametrize("seed", range(6))
def test_a_strict_queue_serves_first_come_first_served(tmp_path, seed):
    jobs = draw_log(seed)
    write_log(tmp_path / "log.swf", jobs)
    report = replay(tmp_path, "log.swf", queued="q", after=FLAVOR + queue("q", 16, strategy="StrictFIFO"))
    first = jobs[0][0]
    assert [job.started for job in report.jobs] == [start - first for start in fcfs(jobs, 16)]


@pytest.mark.parametrize("seed", range(6))
def test_nodes_are_filled_as_by_easy_backfill(tmp_path, seed):
    jobs = draw_log(seed)
    write_log(tmp_path / "log.swf", jobs)
    report = replay(tmp_path, "log.swf", nodes=16)
    first = jobs[0][0]
    assert [job.started for job in report.jobs] == [start - first for start in easy(jobs, 16)]


# Jobs of a log that are played, unless the long form plays all.
USUAL_JOBS = 3000


def read_log(file, part):
    if not (TRACES / file).exists():
        pytest.skip("the log is not there")
    lines = [line for line in gzip.decompress((TRACES / file).read_bytes()).decode().splitlines() if line.strip()]
    remarks = [line for line in lines if line.startswith(";")]
    jobs = [line for line in lines if not line.startswith(";")][part]
    rows = [line.split() for line in jobs]
    return "\n".join([*remarks, *jobs]), sorted(
        (float(row[1]), float(row[3]), float(row[3]), int(row[4])) for row in rows if float(row[3]) >= 0
    )


def mean(waits):
    waits = list(waits)
    return sum(waits) / len(waits)


# With the place where jobs begin to wait: few of the other jobs of the second one do.
LOGS = [("lublin-256.swf.gz", 256, 0), ("NASA-iPSC-1993-3.1-cln.swf.gz", 128, 6000)]


@pytest.mark.parametrize(("file", "processors", "first"), LOGS)
def test_logs_of_real_machines_are_served_first_come_first_served(tmp_path, file, processors, first, long):
    text, jobs = read_log(file, slice(None) if long else slice(first, first + USUAL_JOBS))
    (tmp_path / "log.swf").write_text(text)
    after = FLAVOR + queue("q", processors, strategy="StrictFIFO")
    report = replay(tmp_path, "log.swf", limits="none", queued="q", after=after)
    expected = mean(start - job[0] for start, job in zip(fcfs(jobs, processors), jobs, strict=True))
    assert expected > 0
    assert report.summary.total.wait.mean == pytest.approx(expected, rel=0.001)


@pytest.mark.parametrize(("file", "processors", "first"), LOGS)
def test_logs_of_real_machines_are_backfilled_as_by_easy(tmp_path, file, processors, first, long):
    text, jobs = read_log(file, slice(None) if long else slice(first, first + USUAL_JOBS))
    (tmp_path / "log.swf").write_text(text)
    report = replay(tmp_path, "log.swf", nodes=processors)
    expected = mean(start - job[0] for start, job in zip(easy(jobs, processors), jobs, strict=True))
    assert expected > 0
    assert report.summary.total.wait.mean == pytest.approx(expected, rel=0.001)


TWO_TEAMS = scenario(
    f"""  seed: 3
  assert: ["count(ended) == 60", "p99(wait, queue=b) < 1h"]
  work:
  - name: a
    queue: a
    arrivals: {{burst: {{at: [0], count: 40}}}}
    runTime: 10m
    template:{JOB}
  - name: b
    queue: b
    arrivals: {{poisson: {{every: 2m}}}}
    count: 20
    runTime: {{exponential: {{mean: 5m}}}}
    size: 4
    template:{JOB}
""",
    FLAVOR + queue("a", 8) + queue("b", 8),
)


def test_a_team_gets_back_what_the_other_borrows(tmp_path):
    report = play(tmp_path, TWO_TEAMS)
    assert report.holds, report.verdicts
    assert report.summary.queues["a"].evictions > 0
    assert report.summary.queues["a"].lost > 0
    assert report.summary.queues["b"].evictions == 0
    peaks = {use.queue: use.peak for use in report.summary.use}
    assert peaks["a"] == 16_000, "it borrows all that the other does not use"
    assert max(_used_together(report)) <= 16_000


def _used_together(report):
    used = 0
    for change in report.changes:
        used += change.amount
        yield used


def test_the_same_seed_gives_the_same_outcome_and_another_another(tmp_path):
    one, same, other = (play(tmp_path, TWO_TEAMS, seed=seed) for seed in (1, 1, 2))
    assert list(one.jobs) == list(same.jobs)
    assert list(one.jobs) != list(other.jobs)


def test_jobs_that_can_never_run_are_named_and_stop_nobody(tmp_path):
    body = f"""  work:
  - name: huge
    queue: q
    arrivals: {{burst: {{at: [0], count: 2}}}}
    runTime: 1m
    size: 100
    template:{JOB}
  - name: small
    queue: q
    arrivals: {{burst: {{at: [1], count: 2}}}}
    runTime: 1m
    template:{JOB}
"""
    report = play(tmp_path, scenario(body, FLAVOR + queue("q", 8)))
    assert [(one.name, one.never) for one in report.waiting] == [("huge-0", True), ("huge-1", True)]
    assert report.summary.works["small"].ended == 2


def test_a_trace_says_run_times_sizes_and_limits_itself(tmp_path):
    write_log(tmp_path / "log.swf", draw_log(1))
    body = f"  work:\n  - name: log\n    trace: {{file: log.swf}}\n    size: 4\n    template:{JOB}"
    with pytest.raises(ScenarioError, match=re.escape("scenario.yaml:8: spec.work[0].size: has no effect on a trace")):
        play(tmp_path, scenario(body))


def test_the_queue_numbers_of_a_log_become_local_queues(tmp_path):
    write_log(tmp_path / "log.swf", [(0, 10, 10, 1), (1, 10, 10, 1)])
    body = f'  work:\n  - name: log\n    trace: {{file: log.swf, queues: {{"-1": q}}}}\n    template:{JOB}'
    report = play(tmp_path, scenario(body, FLAVOR + queue("q", 1)))
    assert [(job.queue, job.started) for job in report.jobs] == [("q", 0.0), ("q", 10.0)]
    with pytest.raises(ScenarioError, match=r"queues\.-1: no manifest defines the LocalQueue"):
        play(tmp_path, scenario(body.replace(": q}", ": other}"), FLAVOR + queue("q", 1)))


def test_the_count_of_a_trace_takes_the_jobs_that_come_first(tmp_path):
    write_log(tmp_path / "log.swf", [(90, 10, 10, 1), (0, 10, 10, 1), (50, 10, 10, 1)])
    body = f"  work:\n  - name: log\n    trace: {{file: log.swf}}\n    count: 2\n    template:{JOB}"
    assert [job.name for job in play(tmp_path, scenario(body)).jobs] == ["log-1", "log-2"]


def test_a_log_that_is_damaged_is_named(tmp_path):
    (tmp_path / "log.swf.gz").write_bytes(gzip.compress(b"")[:10] + b"\xff" * 20)
    body = f"  work:\n  - name: log\n    trace: {{file: log.swf.gz}}\n    template:{JOB}"
    with pytest.raises(ScenarioError, match=r"log\.swf\.gz: "):
        play(tmp_path, scenario(body))


def burst(count, *, queued="", name="w", run="10s", job=JOB, more=""):
    line = f"    queue: {queued}\n" if queued else ""
    come = f"    arrivals: {{burst: {{at: [0], count: {count}}}}}\n    runTime: {run}\n"
    return f"  - name: {name}\n{line}{come}{more}    template:{job}"


@pytest.mark.parametrize("queued", ["", "q"])
def test_jobs_that_come_at_once_start_in_the_order_of_the_scenario(tmp_path, queued):
    works = "  work:\n" + burst(11, name="z", queued=queued) + burst(1, queued=queued)
    text = scenario(works, FLAVOR + queue("q", 1)) if queued else scenario(NODES % 1 + works)
    jobs = play(tmp_path, text).jobs
    assert [job.name for job in jobs] == [*(f"z-{number}" for number in range(11)), "w-0"]
    assert [job.started for job in jobs] == [10.0 * number for number in range(12)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("parallelism: 1", "parallelism: 1\n        activeDeadlineSeconds: 60"),
        ("kind: Job", 'kind: Job\n      metadata: {labels: {kueue.x-k8s.io/max-exec-time-seconds: "60"}}'),
    ],
)
def test_a_job_has_the_limit_of_its_template(tmp_path, before, after):
    report = play(tmp_path, scenario("  work:\n" + burst(1, run="1h", job=JOB.replace(before, after))))
    assert [job.ended for job in report.jobs] == [60.0]


ROLE = """
        - name: %s
          template:
            spec:
              activeDeadlineSeconds: %d
              template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}"""


def test_a_jobset_ends_with_the_longest_limit_of_its_roles(tmp_path):
    job = "\n      apiVersion: jobset.x-k8s.io/v1alpha2\n      kind: JobSet\n      spec:\n        replicatedJobs:"
    job += ROLE % ("a", 30) + ROLE % ("b", 60) + "\n"
    report = play(tmp_path, scenario("  work:\n" + burst(1, run="1h", job=job)))
    assert [(one.pods, one.ended) for one in report.jobs] == [(2, 60.0)]


@pytest.mark.parametrize("size", [6, 3])
def test_a_job_of_another_size_may_start_with_fewer_pods(tmp_path, size):
    fewer = 'kind: Job\n      metadata: {annotations: {kueue.x-k8s.io/job-min-parallelism: "3"}}'
    job = (
        JOB.replace("kind: Job", fewer)
        .replace("parallelism: 1", "parallelism: 5")
        .replace("completions: 1", "completions: 5")
    )
    works = burst(1, queued="q", job=job, more=f"    size: {size}\n")
    report = play(tmp_path, scenario("  work:\n" + works, FLAVOR + queue("q", 4)))
    assert [job.started for job in report.jobs] == [0.0]
    assert max(_used_together(report)) == min(size, 4) * 1000


@pytest.mark.parametrize(("expected", "started"), [("1m", 0.0), ("10m", 110.0)])
def test_backfill_counts_on_the_expected_duration_of_a_template(tmp_path, expected, started):
    """The big job b waits for a until 100 s. A job passes it that is expected to end before."""
    expects = f"kind: Job\n      metadata: {{annotations: {{muster.dev/expected-duration: {expected}}}}}"
    works = [
        burst(1, name="a", run="100s", more="    limit: 100s\n"),
        burst(1, name="b", more="    size: 2\n    limit: 10s\n"),
        burst(1, name="c", run="50s", job=JOB.replace("kind: Job", expects)),
    ]
    report = play(tmp_path, scenario(NODES % 2 + "  work:\n" + "".join(works)))
    assert [job.started for job in report.jobs] == [0.0, 100.0, started]


def test_nodes_serve_pods_by_their_age(tmp_path):
    """Job b was submitted before those of d, and is admitted once a ends: its pods are younger."""
    works = [
        burst(1, name="a", queued="q"),
        burst(1, name="b", queued="q"),
        burst(2, name="d").replace("at: [0]", "at: [5]"),
    ]
    report = play(tmp_path, scenario(NODES % 1 + "  work:\n" + "".join(works), FLAVOR + queue("q", 1)))
    assert {job.name: job.started for job in report.jobs} == {"a-0": 0.0, "d-0": 10.0, "d-1": 20.0, "b-0": 30.0}


def test_an_assertion_counts_the_wait_of_a_job_that_never_starts(tmp_path):
    """One job of nine starts at once. The others have waited for two days when the time is over."""
    text = scenario("  until: 2d\n  work:\n" + burst(9, queued="q", run="9d"), FLAVOR + queue("q", 1))
    report = play(tmp_path, text, assertions=["p99(wait, queue=q) < 30m"])
    assert [(one.value, one.holds) for one in report.verdicts] == [(2 * 86_400.0, False)]


def test_a_pool_without_nodes_has_no_room(tmp_path):
    report = play(tmp_path, scenario(NODES % 0 + "  work:\n" + burst(1)))
    assert [one.never for one in report.waiting] == [True]


@pytest.mark.parametrize("count", [-1, 10**9])
def test_a_pool_has_a_sensible_number_of_nodes(tmp_path, count):
    with pytest.raises(ScenarioError, match=r"spec\.nodes\[0\]\.count: must be from 0 to 200000"):
        play(tmp_path, scenario(NODES % count + "  work:\n" + burst(1)))


@pytest.mark.parametrize("field", ["allocatable", "capacity"])
def test_a_node_of_a_manifest_takes_pods(tmp_path, field):
    node = f'---\napiVersion: v1\nkind: Node\nmetadata: {{name: n}}\nstatus: {{{field}: {{cpu: "1"}}}}\n'
    report = play(tmp_path, scenario("  work:\n" + burst(2), node))
    assert [job.started for job in report.jobs] == [0.0, 10.0]


@pytest.mark.parametrize(("api", "kind"), [("batch/v1", "Job"), ("v1", "Pod"), ("kueue.x-k8s.io/v1beta2", "Workload")])
def test_work_among_the_manifests_is_refused(tmp_path, api, kind):
    with pytest.raises(ScenarioError, match=f"{kind} other: would have no effect: jobs are the templates of spec.work"):
        play(
            tmp_path,
            scenario("  work:\n" + burst(1), f"---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: other}}\n"),
        )


def test_no_node_has_the_name_of_another(tmp_path):
    pool = '  - name: n\n    count: 2\n    template: {status: {allocatable: {cpu: "1"}}}\n'
    with pytest.raises(ScenarioError, match=re.escape("spec.nodes[1].name: n is the name of another pool, too")):
        play(tmp_path, scenario(f"  nodes:\n{pool}{pool}  work:\n" + burst(1)))
    node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: n-1}\n"
    with pytest.raises(ScenarioError, match=re.escape("spec.nodes[0].name: n-1 is the name of a Node, too")):
        play(tmp_path, scenario(f"  nodes:\n{pool}  work:\n" + burst(1), node))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("spec: {clusterQueue: q}", "spec: {clusterQueue: q, stopPolicy: Hold}", "LocalQueue q is inactive"),
        ("namespaceSelector: {}", "stopPolicy: Hold", "ClusterQueue q is inactive"),
        ("namespaceSelector: {}", "namespaceSelector: {matchLabels: {a: b}}", "namespace doesn't match"),
        ('cpu: "1"', 'memory: "1"', "resource memory unavailable"),
    ],
)
def test_a_queue_that_never_admits_is_named(tmp_path, before, after, why):
    text = scenario("  work:\n" + burst(1, queued="q"), FLAVOR + queue("q", 1))
    assert before in text
    waiting = play(tmp_path, text.replace(before, after)).waiting
    assert [(one.never, why in one.why) for one in waiting] == [(True, True)], waiting


def test_a_limit_ends_a_job_and_the_time_of_a_scenario_may_end(tmp_path):
    body = f"""  until: 1h
{NODES % 1}
  work:
  - name: w
    arrivals: {{burst: {{at: [0], count: 10}}}}
    runTime: 1h
    limit: 20m
    template:{JOB}
"""
    report = play(tmp_path, scenario(body))
    assert [job.ended for job in report.jobs[:4]] == [1200.0, 2400.0, 3600.0, None]
    assert [job.over_limit for job in report.jobs[:4]] == [True, True, True, False]
    assert report.summary.seconds == 3600.0
    assert (report.summary.total.ended, report.summary.total.over_limit) == (3, 3)
    assert report.summary.total.slowdown.mean == 2.0, "of 20, 40 and 60 minutes for runs of 20 minutes"
    assert {one.why for one in report.waiting} == {"the nodes have no room for it"}


@pytest.mark.parametrize(("more", "over"), [("", False), ("    startup: 1s\n", True)])
def test_a_job_whose_limit_is_its_run_time_is_over_it_only_if_its_startup_counts(tmp_path, more, over):
    body = f"""{NODES % 1}  work:
  - name: w
    arrivals: {{burst: {{at: [0.1], count: 2}}}}
    runTime: 0.7
    limit: 0.7
{more}    template:{JOB}"""
    report = play(tmp_path, scenario(body))
    assert [job.over_limit for job in report.jobs] == [over, over]


def test_an_interrupt_ends_the_simulation_and_not_the_report(tmp_path):
    def interrupt(record):
        if len(record) >= 10:
            raise KeyboardInterrupt

    report = play(tmp_path, TWO_TEAMS, progress=interrupt)
    assert report.stopped
    assert 10 <= len(report.jobs) < 60


def test_the_scenario_of_the_page_runs(tmp_path):
    [text] = re.findall(
        r"^```yaml\n(apiVersion.*?)^```", (ROOT / "docs" / "simulate.md").read_text(), re.MULTILINE | re.DOTALL
    )
    report = play(tmp_path, text)
    assert report.summary.seconds == 86_400.0
    assert report.summary.total.ended > 100


def test_the_table_of_the_page_is_that_of_the_example():
    total = simulate(str(ROOT / "examples" / "simulate" / "two-teams.yaml")).summary.total
    [row] = re.findall("^all .*", (ROOT / "docs" / "simulate.md").read_text(), re.MULTILINE)
    assert row.split()[1:5] == [str(one) for one in (total.submitted, total.ended, total.over_limit, total.waiting)]


def test_a_report_is_written(tmp_path):
    write_report(play(tmp_path, TWO_TEAMS), tmp_path / "out")
    jobs = (tmp_path / "out" / "jobs.csv").read_text().splitlines()
    assert jobs[0].endswith(
        ",ended,evictions,lost,wait,forecast,cluster,interruptions,interrupted,resizes,over_limit,user"
    )
    assert len(jobs) == 61
    assert '"fairness"' in (tmp_path / "out" / "summary.json").read_text()


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (
            "runTime: 10m",
            "runtime: 10m",
            "scenario.yaml:11: spec.work[0].runtime: there is no such field: do you mean runTime?",
        ),
        ("runTime: 10m", "runTime: long", "scenario.yaml:11: spec.work[0].runTime: invalid duration"),
        ("runTime: 10m", "runTime: -5", "scenario.yaml:11: spec.work[0].runTime: -5.0 is negative"),
        ("name: b\n", "name: a\n", "spec.work[1].name: a is the name of other work, too"),
        ("    count: 20\n", "", "scenario.yaml:24: spec.work[1]: count is needed, unless spec.until ends"),
        ("every: 2m", "every: 0", "spec.work[1].arrivals.poisson.every: must be positive"),
        ("muster.dev/v1alpha1", "muster.dev/v9", "scenario.yaml:1: apiVersion: is muster.dev/v9"),
        ("kind: Scenario", "kind: Story", "holds 0 objects of kind Scenario instead of one"),
        ("parallelism: 1", "parallelisms: 1", "spec.work[0].template: Job in version"),
        ("kind: Job", "kind: CronJob", "spec.work[0].template: a CronJob cannot be simulated"),
        ("kind: Job", "kind: Jbo", "scenario.yaml:12: spec.work[0].template: no kind Jbo in batch/v1 is served"),
        ("- name: a\n", "- name: A_1\n", 'scenario.yaml:8: spec.work[0].name: Invalid value: "A_1": a lowercase'),
        ("queueingStrategy: BestEffortFIFO", "queueingStrategy: Best", "Unsupported value"),
        (
            "    queue: a\n",
            "    queue: c\n",
            "scenario.yaml:9: spec.work[0].queue: no manifest defines the LocalQueue default/c, but",
        ),
        ("seed: 3", "until: soon", "scenario.yaml:5: spec.until: invalid duration"),
        (
            "seed: 3",
            "until: 2026-01-04",
            "scenario.yaml:5: spec.until: 2026-01-04 is before the start, 2026-01-05T00:00",
        ),
        ("seed: 3", "start: 2026-01-05T00:00:00", "scenario.yaml:5: spec.start: Expected `datetime` with a timezone"),
        ("    count: 20\n", "    count: -1\n", "spec.work[1].count: must not be negative"),
        ("kind: Job\n", "kind: Job\n      metadata: [x]\n", "spec.work[0].template.metadata: must be a map"),
        (
            "kind: Job\n",
            "kind: Job\n      metadata: {labels: x}\n",
            "template.metadata.labels: must be a map of strings",
        ),
        ("queue=b", "queue=c", "scenario.yaml:6: spec.assert[1]: there is no queue c, but a, b"),
        (
            "apiVersion",
            "---\n# no document\n---\nseed: 1\napiVersion",
            "scenario.yaml:4: seed: there is no such field, but apiVersion, kind, metadata",
        ),
        ("runTime: 10m", "runTime: 10000000d", "would pass the year 9999"),
        ("count(ended) == 60", "count(ended) = 60", "scenario.yaml:6: spec.assert[0]: 'count(ended) = 60' is not like"),
    ],
)
def test_a_scenario_that_is_wrong_is_told_where(tmp_path, before, after, problem):
    assert before in TWO_TEAMS
    with pytest.raises(ScenarioError) as refusal:
        play(tmp_path, TWO_TEAMS.replace(before, after, 1))
    assert problem in str(refusal.value)
