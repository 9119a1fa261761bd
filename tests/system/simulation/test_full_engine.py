"""The whole engine: what it plays, refuses and reports."""

import msgspec
import pytest
import yaml
from tests.system.simulation.random_scenarios import RandomScenario

from muster.simulation.scenario.source import ScenarioError
from muster.simulation.simulate import simulate

HEAD = {"apiVersion": "muster.dev/v1alpha1", "kind": "Scenario", "metadata": {"name": "s"}}
REQUESTS = {"resources": {"requests": {"cpu": "1"}}}


def kueue(kind, name, **spec):
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def queue(name, cpus, **spec):
    quota = {"name": "cpu", "nominalQuota": cpus}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    return [
        kueue("ClusterQueue", name, namespaceSelector={}, resourceGroups=[group], **spec),
        kueue("LocalQueue", name, clusterQueue=name),
    ]


def job(**spec):
    pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", **REQUESTS}]}}
    whole = {"completionMode": "Indexed", "parallelism": 1, "completions": 1, "template": pods} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": whole}


def work(name, at, run_time, **more):
    arrivals = {"burst": {"at": at, "count": 1}}
    return {"name": name, "arrivals": arrivals, "runTime": run_time, "template": job()} | more


def write(tmp_path, works, objects=(), **spec):
    file = tmp_path / "scenario.yaml"
    head = HEAD | {"spec": spec | {"work": works}}
    file.write_text(yaml.safe_dump_all([head, kueue("ResourceFlavor", "default"), *objects]))
    return str(file)


def play(tmp_path, works, objects=(), *, engine="full", progress=None, **spec):
    return simulate(write(tmp_path, works, objects, **spec), engine=engine, progress=progress)


def times(report):
    return [(one.name, one.started and round(one.started), one.ended and round(one.ended)) for one in report.jobs]


def test_jobs_wait_for_quota(tmp_path):
    report = play(tmp_path, [work("a", [10, 20, 30], 100, queue="q", size=2)], queue("q", 4))
    assert times(report) == [("a-0", 10, 110), ("a-1", 20, 120), ("a-2", 110, 210)]
    assert [(round(one.at), one.amount) for one in report.changes][:2] == [(10, 2000), (20, 2000)]
    assert sum(one.amount for one in report.changes) == 0


def test_jobs_without_a_queue_wait_for_nodes(tmp_path):
    nodes = [{"name": "n", "count": 2, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    report = play(tmp_path, [work("a", [10, 20], 100, size=2)], nodes=nodes)
    assert times(report) == [("a-0", 10, 110), ("a-1", 110, 210)]


def test_a_job_of_a_higher_priority_evicts_another(tmp_path):
    works = [work("a", [10], 100, queue="q"), work("b", [50], 100, queue="q", priority=5)]
    report = play(tmp_path, works, queue("q", 1, preemption={"withinClusterQueue": "LowerPriority"}))
    assert times(report) == [("a-0", 10, 250), ("b-0", 50, 150)]
    assert [(one.evictions, round(one.lost)) for one in report.jobs] == [(1, 40), (0, 0)]


def test_a_value_that_cannot_be_drawn_is_refused_before_the_simulation(tmp_path):
    jobs = work("a", [10], 100, queue="q", priority={"uniform": {"from": 5, "to": 1}})
    with pytest.raises(ScenarioError, match=r"spec\.work\[0\]\.priority\.uniform: to is less than from"):
        play(tmp_path, [jobs], queue("q", 1), **{"assert": ["count(ended, priority=3) == 0"]})


def test_a_limit_counts_from_the_start(tmp_path):
    nodes = [{"name": "n", "count": 1, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    report = play(tmp_path, [work("a", [0, 10], 1000, limit=60)], nodes=nodes)
    assert times(report) == [("a-0", 0, 60), ("a-1", 60, 120)]
    assert [job.over_limit for job in report.jobs] == [True, True]


@pytest.mark.parametrize("engine", ["fast", "full"])
@pytest.mark.parametrize("queued", [{}, {"queue": "q"}])
def test_a_job_is_over_the_limit_of_its_template_if_an_interruption_takes_its_time(tmp_path, engine, queued):
    """The first job would end within its limit, and starts again after a drain; the second has the same limit."""
    nodes = [{"name": "n", "count": 1, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    works = [work("a", [10, 400], 100, template=job(activeDeadlineSeconds=150), **queued)]
    changes = [{"at": 90, "drain": {"pool": "n", "for": 10}}]
    report = play(tmp_path, works, queue("q", 1), engine=engine, nodes=nodes, changes=changes)
    assert times(report) == [("a-0", 10, 160), ("a-1", 400, 500)]
    assert [(one.over_limit, one.interruptions) for one in report.jobs] == [(True, 1), (False, 0)]


@pytest.mark.parametrize("queued", [{}, {"queue": "q"}])
def test_a_job_that_fails_with_its_node_is_not_over_a_limit(tmp_path, queued):
    nodes = [{"name": "n", "count": 1, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    rule = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    works = [work("a", [10], 100, template=job(podFailurePolicy={"rules": [rule]}), **queued)]
    changes = [{"at": 50, "lose": {"pool": "n", "for": 10}}]
    report = play(tmp_path, works, queue("q", 1), nodes=nodes, changes=changes)
    assert times(report) == [("a-0", 10, 50)]
    assert [one.over_limit for one in report.jobs] == [False]


@pytest.mark.parametrize("queued", [{}, {"queue": "q"}])
def test_a_jobset_is_over_the_limit_of_its_jobs(tmp_path, queued):
    """The limit of a Job counts from its creation: the second JobSet waits a minute for the node."""
    nodes = [{"name": "n", "count": 1, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    roles = [{"name": "w", "replicas": 1, "template": {"spec": job(activeDeadlineSeconds=150)["spec"]}}]
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": roles}}
    works = [work("a", [10, 50], 100, template=jobset, **queued)]
    report = play(tmp_path, works, queue("q", 2), nodes=nodes)
    assert times(report) == [("a-0", 10, 110), ("a-1", 110, 200)]
    assert [one.over_limit for one in report.jobs] == [False, True]


@pytest.mark.parametrize("engine", ["fast", "full"])
def test_the_jobs_that_a_stopped_queue_evicted_compete_at_once_when_it_is_released(tmp_path, engine):
    """The first job had preempted the second, and does not have to do so again."""
    works = [work("high", [50], 100, queue="q", priority=5), work("low", [60], 100, queue="q")]
    changes = [{"at": 100, "stop": {"clusterQueue": "q", "policy": "HoldAndDrain", "for": 100}}]
    objects = queue("q", 1, preemption={"withinClusterQueue": "LowerPriority"})
    report = play(tmp_path, works, objects, engine=engine, changes=changes)
    assert times(report) == [("high-0", 50, 300), ("low-0", 300, 400)]
    assert [one.evictions for one in report.jobs] == [1, 0]


@pytest.mark.parametrize("engine", ["fast", "full"])
def test_a_gang_passes_the_head_once_its_tenant_uses_less(tmp_path, engine):
    """The second job of q became the head before the pods of the first counted as use of q."""
    nodes = [{"name": "n", "count": 2, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    works = [
        work("long", [0], 1000, queue="p"),
        work("short", [0], 500, queue="q"),
        work("first", [10], 2000, queue="q"),
        work("second", [20], 2000, queue="q"),
        work("other", [30], 100, queue="p"),
    ]
    report = play(tmp_path, works, [*queue("p", 9), *queue("q", 9)], engine=engine, nodes=nodes)
    started = {one.name: round(one.started) for one in report.jobs}
    assert started == {"long-0": 0, "short-0": 0, "first-0": 500, "other-0": 1000, "second-0": 1100}


@pytest.mark.parametrize(
    ("spec", "why"),
    [({}, "excess of the maximum"), ({"stopPolicy": "Hold"}, "inactive")],
)
def test_jobs_that_never_run_are_named(tmp_path, spec, why):
    report = play(tmp_path, [work("a", [0], 60, queue="q", size=9)], queue("q", 2, **spec))
    assert [(one.name, one.never) for one in report.waiting] == [("a-0", True)]
    assert why in report.waiting[0].why or "quota" in report.waiting[0].why, report.waiting


def test_a_job_that_no_node_takes_is_named(tmp_path):
    nodes = [{"name": "n", "count": 1, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    [waiting] = play(tmp_path, [work("a", [0], 60, size=2)], nodes=nodes).waiting
    assert waiting.never
    assert "nodes" in waiting.why


@pytest.mark.parametrize("engine", ["fast", "full"])
def test_a_job_that_is_evicted_again_and_again_without_a_node_is_named(tmp_path, engine):
    """Its time limits never end, so the simulation would not either."""
    nodes = [{"name": "n", "count": 1, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    ready = {"timeout": "1m", "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffMaxSeconds": 2}}
    head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "metadata": {"name": "c"}}
    settings = head | {"waitForPodsReady": ready}
    report = play(
        tmp_path, [work("a", [0], 60, queue="q", size=2)], [*queue("q", 2), settings], engine=engine, nodes=nodes
    )
    assert [(one.name, one.never) for one in report.waiting] == [("a-0", True)]
    assert report.jobs[0].evictions > 5


def test_the_time_of_a_scenario_ends(tmp_path):
    report = play(tmp_path, [work("a", [0, 30], 60, queue="q")], queue("q", 1), until=40)
    assert times(report) == [("a-0", 0, None), ("a-1", None, None)]
    assert report.summary.seconds == 40


def test_an_interrupt_ends_the_simulation_and_not_the_report(tmp_path):
    def interrupt(record):
        if len(record) >= 2:
            raise KeyboardInterrupt

    report = play(tmp_path, [work("a", [0, 30, 60], 60, queue="q")], queue("q", 1), progress=interrupt)
    assert report.stopped
    assert [one.name for one in report.jobs] == ["a-0", "a-1"]


def test_jobs_that_run_in_waves_are_refused(tmp_path):
    with pytest.raises(ScenarioError, match=r"work\[0\]\.template\.spec\.completions: must be the parallelism"):
        play(tmp_path, [work("a", [0], 60, template=job(completions=4))])


def test_a_job_that_the_server_refuses_is_named(tmp_path):
    with pytest.raises(ScenarioError, match=r"a-0: .*spec\.parallelism"):
        play(tmp_path, [work("a", [0], 60, size=200_000)])


def test_a_seed_gives_the_same_outcome_each_time(tmp_path):
    """Where there are worker clusters, `test_jobs_run_in_worker_clusters` looks at that."""
    file = RandomScenario(18).write(tmp_path)
    one, same = (msgspec.json.encode(simulate(file, engine="full").jobs) for _ in range(2))
    assert one == same


def test_jobs_that_come_between_two_milliseconds_are_played(tmp_path):
    work = {"name": "w", "arrivals": {"poisson": {"every": "7.77m"}}, "runTime": "1s", "template": job(), "count": 5}
    report = play(tmp_path, [work], until="10h")
    assert (report.summary.total.submitted, report.summary.total.ended) == (5, 5)


def test_changes_happen_to_the_cluster(tmp_path):
    """A node is drained, the queue gets more quota, and a pool grows, each of which lets a job start."""
    nodes = [{"name": "n", "count": 1, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    changes = [
        {"at": 50, "drain": {"pool": "n", "for": 30}},
        {"at": 300, "quota": {"clusterQueue": "q", "nominalQuota": {"cpu": 2}}},
        {"at": 400, "scale": {"pool": "n", "count": 2}},
    ]
    works = [work("a", [10, 220], 1000, queue="q")]
    report = play(tmp_path, works, queue("q", 1), nodes=nodes, changes=changes)
    fast = play(tmp_path, works, queue("q", 1), nodes=nodes, changes=changes, engine="fast")
    assert [(one.name, one.started, one.ended) for one in fast.jobs] == [("a-0", 10, 1080), ("a-1", 400, 1400)]
    assert times(report) == times(fast)
    assert [one.interruptions for one in report.jobs] == [1, 0]
    states = [(one.node, one.state) for one in report.node_changes]
    assert states == [("n-0", "cordoned"), ("n-0", "ready"), ("n-1", "ready")]


def test_jobs_that_start_on_the_new_nodes_of_a_pool_stay_there(tmp_path):
    """They start on the first node while the cluster still adds the others."""
    nodes = [{"name": "n", "count": 0, "template": {"status": {"allocatable": {"cpu": "1"}}}}]
    changes = [{"at": 400, "scale": {"pool": "n", "count": 6}}]
    report = play(tmp_path, [work("a", [10, 20, 30], 1000)], nodes=nodes, changes=changes)
    assert times(report) == [(name, 400, 1400) for name in ("a-0", "a-1", "a-2")]
    assert [one.interruptions for one in report.jobs] == [0, 0, 0]


def test_a_stopped_engine_decides_nothing(tmp_path):
    """The job that runs goes on, and the job that comes meanwhile waits for the engine."""
    works = [work("a", [10, 30], 100, queue="q")]
    changes = [{"at": 20, "restart": {"for": 600}}]
    report = play(tmp_path, works, queue("q", 2), changes=changes)
    assert times(report) == [("a-0", 10, 110), ("a-1", 620, 720)]
    assert times(report) == times(play(tmp_path, works, queue("q", 2), changes=changes, engine="fast"))


def test_jobs_run_in_worker_clusters(tmp_path):
    """East is lost while a job runs there, which starts anew once east is back: west is too small."""
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    objects = [
        *queue("q", 9, admissionChecksStrategy={"admissionChecks": [{"name": "clusters"}]}),
        kueue("AdmissionCheck", "clusters", controllerName="kueue.x-k8s.io/multikueue", parameters=parameters),
        kueue("MultiKueueConfig", "all", clusters=["east", "west"]),
    ]
    workers = [kueue("ResourceFlavor", "default"), *queue("q", 2)]
    clusters = [
        {"name": "east", "manifests": workers, "lost": [{"at": 200, "for": 2_000}]},
        {"name": "west", "manifests": [kueue("ResourceFlavor", "default"), *queue("q", 1)]},
    ]
    works = [work("a", [10], 3000, queue="q", size=2), work("b", [30], 100, queue="q")]
    report, same = (play(tmp_path, works, objects, clusters=clusters) for _ in range(2))
    assert msgspec.json.encode(report.jobs) == msgspec.json.encode(same.jobs)
    fast = play(tmp_path, works, objects, clusters=clusters, engine="fast")
    assert [one.cluster for one in report.jobs] == [one.cluster for one in fast.jobs] == ["east", "west"]
    assert [one.evictions for one in report.jobs] == [one.evictions for one in fast.jobs]
    assert times(report)[1] == times(fast)[1] == ("b-0", 30, 130)
    [slow, quick] = [one.jobs[0] for one in (report, fast)]
    assert slow.ended == pytest.approx(quick.ended, abs=2), "it is found by the same attempt to connect"


@pytest.mark.parametrize("engine", ["fast", "full"])
def test_assertions_judge_the_use_of_quotas_and_nodes(tmp_path, engine):
    pool = [{"name": "n", "count": 2, "template": {"status": {"allocatable": {"cpu": "4"}}}}]
    changes = [
        {"at": 1000, "scale": {"pool": "n", "count": 4}},
        {"at": 1000, "quota": {"clusterQueue": "q", "nominalQuota": {"cpu": 4}}},
    ]
    works = [work("a", [0], 2000, queue="q", size=3), work("b", [0], 2000, size=2)]
    quotas = [*queue("q", 2, cohortName="c"), *queue("other", 4, cohortName="c")]
    spec = {"nodes": pool, "changes": changes}
    texts = {
        "mean(utilisation, queue=q) < 9": 3 / 3,
        "mean(borrowed, queue=q) < 9": 0.5,
        "mean(used) < 9": 3,
        "mean(occupancy) < 90%": 5 / 12,
        "mean(occupancy, queue=q) < 90%": 3 / 12,
    }
    file = write(tmp_path, works, quotas, **spec)
    report = simulate(file, engine=engine, assertions=list(texts))
    assert {one.assertion.text: one.value for one in report.verdicts} == pytest.approx(texts, rel=1e-3)


@pytest.mark.parametrize("engine", ["fast", "full"])
def test_a_queue_without_a_flavor_has_no_quota_of_it(tmp_path, engine):
    """A change takes 3 of the 5 CPUs of the queue, with their flavor; a job uses 2 CPUs of the other one."""
    [cluster_queue, local_queue] = queue("q", 2)
    [group] = cluster_queue["spec"]["resourceGroups"]
    spot = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 3}]}
    groups = [group | {"flavors": [*group["flavors"], spot]}]
    has = cluster_queue | {"spec": cluster_queue["spec"] | {"resourceGroups": groups}}
    works = [work("a", [0], 2000, queue="q", size=2)]
    objects = [kueue("ResourceFlavor", "spot"), has, local_queue]
    file = write(tmp_path, works, objects, changes=[{"at": 1000, "apply": cluster_queue}])
    [verdict] = simulate(file, engine=engine, assertions=["mean(utilisation, queue=q) < 1"]).verdicts
    assert verdict.value == pytest.approx(4 / 7, rel=1e-2)
