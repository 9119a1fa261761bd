"""Whole scenarios with worker clusters: a job runs in one cluster at a time, and starts anew if that is lost."""

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from muster.api.config import EMBEDDED
from muster.api.config.types import EARLIEST_START, INCREMENTAL, IncrementalDispatcher
from muster.simulation.scenario.source import ScenarioError
from muster.simulation.simulate import simulate

ROOT = Path(__file__).resolve().parents[3]
QUEUE = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: "%d"}]}]
"""
CHECKED = QUEUE + "  admissionChecksStrategy: {admissionChecks: [{name: clusters}]}\n"
FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: default}\n"
LOCAL = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: q}\nspec: {clusterQueue: %s}\n"
CHECK = """apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: clusters}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: clusters}
"""
CONFIG = (
    "apiVersion: kueue.x-k8s.io/v1beta2\nkind: MultiKueueConfig\nmetadata: {name: clusters}\nspec: {clusters: [%s]}\n"
)
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
INCREMENTALLY = replace(
    EMBEDDED,
    multi_kueue=replace(
        EMBEDDED.multi_kueue,
        dispatcher_name=INCREMENTAL,
        incremental_dispatcher_config=IncrementalDispatcher(step_size=1),
    ),
)


def cluster(name, cpus, *, more="", nodes=None):
    pool = f"    nodes: [{{name: n, count: {nodes}, template: {{status: {{allocatable: {{cpu: '1'}}}}}}}}]\n"
    return f"  - name: {name}\n    manifests: [{name}.yaml]\n{pool if nodes is not None else ''}{more}", cpus


def work(count, *, name="w", run="10m", at=0, more=""):
    arrivals = f"    arrivals: {{burst: {{at: [{at}], count: {count}}}}}\n"
    return f"  - name: {name}\n    queue: q\n{arrivals}    runTime: {run}\n{more}    template:{JOB}"


def play(tmp_path, clusters, works, *, quota=100, after="", edit=lambda text: text, **options):
    for entry, cpus in clusters:
        name = re.findall("name: (.*)", entry)[0]
        (tmp_path / f"{name}.yaml").write_text("---\n".join((FLAVOR, QUEUE % ("there", cpus), LOCAL % "there")))
    names = ", ".join(re.findall("name: (.*)", entry)[0] for entry, _ in clusters)
    body = f"  clusters:\n{''.join(entry for entry, _ in clusters)}  work:\n{''.join(works)}{after}"
    head = f"apiVersion: muster.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: s}}\nspec:\n{body}"
    parts = (head, FLAVOR, CHECKED % ("here", quota), LOCAL % "here", CHECK, CONFIG % names)
    file = tmp_path / "scenario.yaml"
    file.write_text(edit("---\n".join(parts)))
    return simulate(str(file), **options)


def find_peaks(report):
    return {use.queue: use.peak for use in report.summary.use}


def test_jobs_go_where_there_is_room(tmp_path):
    report = play(tmp_path, [cluster("east", 3), cluster("west", 2)], [work(10)])
    assert Counter((job.cluster, job.started) for job in report.jobs) == {
        ("east", 0.0): 3,
        ("west", 0.0): 2,
        ("east", 600.0): 3,
        ("west", 600.0): 2,
    }
    assert all(job.ended == job.started + 600 for job in report.jobs)
    assert find_peaks(report) == {"here": 10_000, "east/there": 3000, "west/there": 2000}
    assert report.summary.total.evictions == 0
    there = [change.at for change in report.changes if change.queue != "here"]
    assert there == [0.0, 0.0, 1200.0, 1200.0], "clones that come and go within a moment leave no trace"


def test_a_worker_ends_a_job_at_its_limit(tmp_path):
    report = play(tmp_path, [cluster("east", 1)], [work(2, more="    limit: 4m\n")])
    assert [(job.started, job.ended, job.over_limit) for job in report.jobs] == [(0, 240, True), (240, 480, True)]


def test_the_quota_of_the_manager_comes_first(tmp_path):
    report = play(tmp_path, [cluster("east", 9)], [work(3)], quota=1)
    assert [job.started for job in report.jobs] == [0.0, 600.0, 1200.0]


def test_a_job_with_quota_waits_for_nodes_at_its_home(tmp_path):
    report = play(tmp_path, [cluster("east", 9, nodes=1)], [work(2)])
    assert [job.started for job in report.jobs] == [0.0, 600.0]
    report = play(tmp_path, [cluster("east", 9, nodes=0)], [work(1)])
    assert [(one.why, one.never) for one in report.waiting] == [("cluster east: 0/0 nodes are available.", True)]


LOST = "    lost: [{at: 1m%s}]\n"


def test_a_cluster_that_is_lost_for_long_loses_its_jobs(tmp_path):
    east = cluster("east", 1, more=LOST % ", for: 2h")
    [job] = play(tmp_path, [east], [work(1, run="1h")]).jobs
    assert (job.evictions, job.lost) == (1, 960.0), "it ran for a minute, and 15 minutes unseen"
    assert job.ended == 60 + 7355 + 3600, "it starts anew once the manager has found the cluster again"


def test_a_queue_without_a_cluster_gives_no_quota(tmp_path):
    east = cluster("east", 1, more=LOST % ", for: 10m")
    report = play(tmp_path, [east], [work(1, name="a", run="30s"), work(1, name="b", at=120, run="30s")])
    held = [(one.at, one.amount) for one in report.changes if one.queue == "here"]
    assert held == [(0, 1000), (30, -1000), (695, 1000), (725, -1000)], "east is found 635 s after its loss at 60 s"


def test_a_job_whose_cluster_was_lost_goes_behind_the_others(tmp_path):
    east = cluster("east", 1, more=LOST % ", for: 2h")
    works = [work(1, name="first", run="1h"), work(1, name="second", at=30, run="1h")]
    first, second = play(tmp_path, [east], works, quota=1).jobs
    assert (second.started, first.ended) == (7415, 7415 + 2 * 3600)


def test_a_cluster_that_is_back_in_time_keeps_its_jobs(tmp_path):
    [job] = play(tmp_path, [cluster("east", 1, more=LOST % ", for: 10m")], [work(1, run="1h")]).jobs
    assert (job.evictions, job.ended) == (0, 3600.0)
    [job] = play(tmp_path, [cluster("east", 1, more=LOST % ", for: 10m")], [work(1, run="5m")]).jobs
    assert (job.evictions, job.ended) == (0, 300.0), "the end that nobody saw counts"


def test_a_job_of_a_lost_cluster_moves_to_another(tmp_path):
    east = cluster("east", 1, more=LOST % "")
    report = play(tmp_path, [east, cluster("west", 1, more="    lost: [{at: 0, for: 2m}]\n")], [work(1, run="2h")])
    [job] = report.jobs
    assert (job.cluster, job.evictions, job.ended) == ("west", 1, 960.0 + 7200)


def test_a_simulation_ends_with_its_jobs(tmp_path):
    east = cluster("east", 1, more="    lost: [{at: 9h, for: 2h}]\n")
    assert play(tmp_path, [east], [work(1, run="1h")]).summary.seconds == 3600.0


def test_more_clusters_are_asked_after_a_while(tmp_path):
    """The first cluster is full, and the second is asked five minutes later."""
    clusters = [cluster("a", 1), cluster("b", 1)]
    report = play(tmp_path, clusters, [work(2, run="1h")], configuration=INCREMENTALLY)
    assert [(job.cluster, job.started) for job in report.jobs] == [("a", 0.0), ("b", 300.0)]
    assert report.summary.seconds == 3900.0, "nothing happens after the last job has ended"


def test_a_job_of_higher_priority_preempts_through_the_manager(tmp_path):
    works = [work(1, run="1h"), work(1, name="urgent", at=60, run="10m", more="    priority: 9\n")]
    low, high = play(tmp_path, [cluster("east", 5)], works, quota=1).jobs
    assert (high.started, low.evictions, low.lost, low.ended) == (60.0, 1, 60.0, 660.0 + 3600)


@pytest.mark.parametrize("engine", ["fast", "full"])
def test_a_job_that_only_got_room_at_its_worker_starts_after_one_of_higher_priority(tmp_path, engine):
    """The end of the first job makes room for the second at the worker, and gives the third quota at the manager."""
    first = work(1, name="first", more="    size: 2\n    priority: 1\n")
    second = work(1, name="second", at=60)
    third = work(1, name="third", at=120, more="    size: 2\n    priority: 1\n")
    report = play(tmp_path, [cluster("east", 2)], [first, second, third], quota=3, engine=engine)
    assert {job.name: round(job.ended) for job in report.jobs} == {"first-0": 600, "third-0": 1200, "second-0": 1800}
    assert [job.evictions for job in report.jobs] == [0, 0, 0]


@pytest.mark.parametrize("engine", ["fast", "full"])
def test_a_job_runs_with_the_pods_that_its_worker_admits(tmp_path, engine):
    annotations = """
      metadata:
        annotations:
          kueue.x-k8s.io/job-min-parallelism: "1"
          kueue.x-k8s.io/job-completions-equal-parallelism: "true"
      spec:"""
    entry = work(1).replace("\n      spec:", annotations, 1)
    works = [entry.replace("parallelism: 1", "parallelism: 3").replace("completions: 1", "completions: 3")]
    [job] = play(tmp_path, [cluster("east", 2)], works, engine=engine).jobs
    assert (round(job.started), round(job.ended), job.cluster) == (0, 600, "east")


@pytest.mark.parametrize("engine", ["fast", "full"])
def test_a_job_is_evicted_at_once_and_keeps_its_quota_while_its_cluster_is_lost(tmp_path, engine):
    works = [work(1, run="1h"), work(1, name="urgent", at=120, more="    priority: 9\n")]
    clusters = [cluster("east", 5, more=LOST % ""), cluster("west", 0)]
    report = play(tmp_path, clusters, works, quota=1, after="  until: 10m\n", engine=engine)
    low, high = report.jobs
    assert (low.evictions, round(low.lost), high.started) == (1, 120, None)
    assert [change.amount for change in report.changes if change.queue == "here"] == [1000]
    if engine == "fast":
        assert report.waiting[0].why == "it may still run in cluster east, which is lost"


def test_a_worker_that_preempts_sends_the_job_back(tmp_path):
    works = [work(1, run="1h"), work(1, name="urgent", at=60, run="10m", more="    priority: 9\n")]
    low, high = play(tmp_path, [cluster("east", 1)], works).jobs
    assert (high.started, low.evictions, low.lost, low.ended) == (60.0, 1, 60.0, 660.0 + 3600)


@pytest.mark.parametrize("seed", range(20))
def test_each_job_runs_in_one_cluster_at_a_time(tmp_path, seed):
    """With random clusters, losses, sizes and priorities all jobs end, and no quota is exceeded or kept."""
    random = Random(seed)
    clusters = []
    for number in range(random.randint(1, 5)):
        losses = ", ".join(
            f"{{at: {30 * hour}m, for: {random.randint(1, 29)}m}}" for hour in range(random.randint(0, 4))
        )
        nodes = random.choice((None, 8))
        clusters.append(cluster(f"c{number}", random.randint(4, 8), more=f"    lost: [{losses}]\n", nodes=nodes))
    shape = "    size: {uniform: {from: 1, to: 4}}\n    priority: {uniform: {from: 0, to: 3}}\n"
    works = [work(30, name=f"w{at}", at=at, run="{exponential: {mean: 20m}}", more=shape) for at in (0, 4000)]
    configuration = random.choice((EMBEDDED, INCREMENTALLY))
    report = play(tmp_path, clusters, works, quota=random.randint(8, 30), configuration=configuration, seed=seed)
    assert report.summary.total.ended == 60
    assert not report.waiting
    used: Counter[str] = Counter()
    quotas = {f"{re.findall('name: (.*)', entry)[0]}/there": 1000 * cpus for entry, cpus in clusters}
    for change in report.changes:
        used[change.queue] += change.amount
        assert 0 <= used[change.queue] <= quotas.get(change.queue, 30_000)
    assert not any(used.values())
    for job in report.jobs:
        assert job.ended >= job.started + job.run_time - 1e-6


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("clusters: [east]", "clusters: [east, north]", "AdmissionCheck clusters: Missing clusters: [north]"),
        ("name: east\n", "name: east\n    count: 2\n", "Missing clusters: [east]"),
        ("name: east\n", "name: east\n    count: 0\n", "scenario.yaml:7: spec.clusters[0].count: must be from 1 to"),
        ("kueue.x-k8s.io/multikueue", "example.com/budget", "the checks of example.com/budget cannot be simulated"),
        (
            "metadata: {name: clusters}\nspec: {clusters",
            "metadata: {name: other}\nspec: {clusters",
            '"clusters" not found',
        ),
        ("[{name: clusters}]", "[{name: gone}]", "ClusterQueue here: Can't admit new workloads: references missing"),
        (
            "  admissionChecksStrategy: {admissionChecks: [{name: clusters}]}\n",
            "",
            "spec.clusters[0].name: no ClusterQueue sends workloads to east",
        ),
        ("    queue: q\n", "    queue: r\n", "spec.work[0].queue: no manifest defines the LocalQueue default/r"),
        ("[east.yaml]", "[gone.yaml]", "gone.yaml: No such file"),
        ("[east.yaml]", "[{kind: x}]", "scenario.yaml:7: "),
        ("[east.yaml]", "[]", "spec.work[0].queue: no cluster that it is sent to has the LocalQueue default/q"),
        (
            "[east.yaml]",
            "[east.yaml]\n    lost: [{at: -1}]",
            "scenario.yaml:8: spec.clusters[0].lost[0].at: -1.0 is neg",
        ),
        ("[east.yaml]", "[east.yaml]\n    lost: [{at: 1}, {at: 5}]", "spec.clusters[0].lost[1]: overlaps with another"),
        (
            "[east.yaml]",
            "[east.yaml]\n    nodes: [{name: n, count: 1, template: {spec: {}}}]",
            "8: spec.clusters[0].nodes[0].tem",
        ),
        (
            "[east.yaml]",
            "[east.yaml]\n    nodes: [{name: n, count: -1, template: {spec: {}}}]",
            "nodes[0].count: must be from 0",
        ),
        ("spec: {clusters: [", "spec: {quotaManagement: Automated, clusters: [", "quotaManagement Automated cannot be"),
    ],
)
def test_clusters_that_are_wrong_are_refused(tmp_path, before, after, problem):
    def edit(text):
        assert before in text
        return text.replace(before, after)

    with pytest.raises(ScenarioError) as refusal:
        play(tmp_path, [cluster("east", 1)], [work(1)], edit=edit)
    assert problem in str(refusal.value)


def test_a_dispatcher_that_is_not_simulated_is_refused(tmp_path):
    multi = replace(EMBEDDED.multi_kueue, dispatcher_name="example.com/mine")
    with pytest.raises(ScenarioError, match=re.escape("dispatcherName example.com/mine cannot be simulated")):
        play(tmp_path, [cluster("east", 1)], [work(1)], configuration=replace(EMBEDDED, multi_kueue=multi))


def test_the_manifests_of_a_cluster_may_be_in_the_scenario(tmp_path):
    def edit(text):
        inline = (
            "[{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q}, spec: {clusterQueue: there}}"
        )
        (tmp_path / "rest.yaml").write_text(f"{FLAVOR}---\n{QUEUE % ('there', 1)}")
        return text.replace("[east.yaml]", f"{inline}, rest.yaml]")

    [job] = play(tmp_path, [cluster("east", 1)], [work(1)], edit=edit).jobs
    assert job.cluster == "east"


def test_clusters_that_are_alike_have_numbers(tmp_path):
    def edit(text):
        return text.replace("name: east\n", "name: east\n    count: 2\n").replace("[east]", "[east-0, east-1]")

    report = play(tmp_path, [cluster("east", 1)], [work(4)], edit=edit)
    assert Counter(job.cluster for job in report.jobs) == {"east-0": 2, "east-1": 2}


def test_the_example_plays():
    report = simulate(str(ROOT / "examples" / "simulate" / "two-clusters.yaml"))
    assert {job.cluster for job in report.jobs} == {"", "east", "west"}
    assert report.summary.total.evictions > 0


BY_START = replace(EMBEDDED, multi_kueue=replace(EMBEDDED.multi_kueue, dispatcher_name=EARLIEST_START))


@pytest.mark.parametrize(
    ("configuration", "started"), [(EMBEDDED, 100.0), (BY_START, 360.0)], ids=["all at once", "by start"]
)
def test_a_job_goes_where_it_would_start_first(tmp_path, configuration, started):
    """By the limits of the jobs there, west is free first; east is asked five minutes later, and was free before."""
    works = [
        work(2, name="long", run="100s", more="    limit: 4h\n"),
        work(2, name="short", run="1h", at=1, more="    limit: 1h\n"),
        work(1, name="next", run="1h", at=60),
    ]
    report = play(tmp_path, [cluster("east", 2), cluster("west", 2)], works, configuration=configuration)
    assert [job.started for job in report.jobs] == [0.0, 0.0, 1.0, 1.0, started]


def test_jobs_of_one_moment_see_those_before_them(tmp_path):
    report = play(tmp_path, [cluster("east", 3), cluster("west", 3)], [work(6)], configuration=BY_START)
    assert Counter((job.cluster, job.started) for job in report.jobs) == {("east", 0.0): 3, ("west", 0.0): 3}
