"""The judge of the fast engine: what it compares, and where it says that there is nothing to compare."""

import pytest
from tests.system.simulation.judge import (
    BACK,
    CAME,
    DRAWN_VICTIM,
    ENDED,
    EQUAL_PAST,
    FIRST,
    LIMIT,
    OTHER_NODES,
    SEVERAL_KINDS,
    Comparison,
    Journal,
    Moment,
    Unclear,
    configure,
    find_difference,
)
from tests.system.simulation.random_scenarios import RandomScenario
from tests.system.simulation.test_full_engine import job, kueue, queue, work, write

from muster.api.config.types import ALL_AT_ONCE
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.simulation.scenario.reading import read_scenario

JOB_SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "spec": {"replicatedJobs": [{"name": "r", "replicas": 1, "template": {"spec": job()["spec"]}}]},
}


@pytest.mark.parametrize(
    ("comes", "clear"),
    [((150, 170), True), ((50, 170), False), ((50, 70), True)],
    ids=["both during the restart", "one before", "both before"],
)
def test_a_restarted_cluster_may_decide_before_it_knows_all_jobs(tmp_path, comes, clear):
    """It gives the JobSet quota before it queues the Job of higher priority, which came meanwhile."""
    of_set, of_job = comes
    works = [
        work("before", [10], 150, queue="q"),
        work("set", [of_set], 100, queue="q", template=JOB_SET),
        work("job", [of_job], 100, queue="q", priority=5),
    ]
    changes = [{"at": 100, "restart": {"for": 100}}]
    outcome = find_difference(write(tmp_path, works, queue("q", 1), changes=changes))
    assert outcome == ("" if clear else CAME)


@pytest.mark.parametrize(("workers", "outcome"), [((1, 1), ENDED), ((2,), "")], ids=["two ended", "one ended"])
def test_a_restarted_cluster_may_decide_before_it_frees_all_quota(tmp_path, workers, outcome):
    """The end of one job makes room for the small job only, so that the big one waits, which has higher priority."""
    works = [
        *(work(f"before-{at}", [at], 120, queue="q", size=size) for at, size in zip((10, 20), workers, strict=False)),
        work("big", [40], 100, queue="q", size=2, priority=5),
        work("small", [60], 100, queue="q"),
    ]
    changes = [{"at": 100, "restart": {"for": 100}}]
    assert find_difference(write(tmp_path, works, queue("q", 2), changes=changes)) == outcome


def test_a_job_more_that_got_quota_for_a_moment_counts_as_past_use(tmp_path):
    """The cluster evicted a victim more, started it again, and so its LocalQueue comes behind the other one later."""
    scenario = RandomScenario(2484)
    outcome = find_difference(scenario.write(tmp_path), configure(scenario.dispatcher))
    assert isinstance(outcome, Unclear)
    assert "past use" in outcome.why


@pytest.mark.parametrize(
    ("seed", "outcome"),
    [
        pytest.param(214, LIMIT, id="a Job that waits for nodes again ends at its time limit in the fast engine only"),
        pytest.param(1450, EQUAL_PAST, id="each of two LocalQueues ran one job of two CPUs"),
        pytest.param(1463, SEVERAL_KINDS, id="two Jobs take the nodes before the pods of a JobSet are there"),
        pytest.param(1525, OTHER_NODES, id="a job starts where another one got a node in place of a lost one"),
        pytest.param(767, BACK, id="a job that a worker evicted is late for its own quota, which another gets"),
        pytest.param(1575, BACK, id="a job gets the quota of one of a lost cluster, which takes it back at once"),
    ],
)
def test_both_engines_may_be_right(tmp_path, seed, outcome):
    scenario = RandomScenario(seed)
    assert find_difference(scenario.write(tmp_path), configure(scenario.dispatcher)) == outcome


@pytest.mark.parametrize(
    ("admitted", "priorities", "victims", "drawn"),
    [
        (2, (0, 0), ({"w-0"}, {"w-1"}), True),
        (1, (0, 0), ({"w-0"}, {"w-1"}), False),
        (2, (0, 1), ({"w-0"}, {"w-1"}), False),
        (2, (0, 0), ({"w-0"}, set()), False),
        (2, (0, 0), ({"w-0"}, {"w-0", "w-1"}), False),
    ],
    ids=["got quota together", "one by one", "another priority", "in one engine only", "one more"],
)
def test_which_of_equal_jobs_is_evicted_is_drawn(tmp_path, admitted, priorities, victims, drawn):
    journal = Journal([])
    journal.queue_of = {"w-0": "q", "w-1": "q"}
    journal.priorities = dict(zip(journal.queue_of, priorities, strict=True))
    reading = read_scenario(write(tmp_path, [work("w", [10, 20], 100, queue="q")], queue("q", 1)))
    comparison = Comparison(journal, reading, configure(ALL_AT_ONCE))
    before = Moment(10, {"admit": [[("q", "f", "cpu", 1000)] * admitted]})
    comparison.note(before, before)
    fast, full = (Moment(100, {"submit": ["top-0"], "evict": sorted(names)}, victims=names) for names in victims)
    assert comparison.explain(fast, full, None) == (DRAWN_VICTIM if drawn else None)


def make_moment(at, evicted, victims):
    return Moment(at, {"end": ["ended"], "evict": evicted}, victims=victims)


@pytest.mark.parametrize(
    ("victims", "late", "same"),
    [({"a", "b"}, 0.3, True), ({"a", "c"}, 0.3, False), ({"a", "b"}, 10, False)],
    ids=["the same first", "others first", "later"],
)
def test_quota_that_comes_free_part_by_part_may_make_a_job_take_other_flavors(victims, late, same):
    """Both engines evict two jobs first. In the cluster, the other flavors of the preemptor spare the third job."""
    fast, full = make_moment(100, ["a", "b", "c"], {"a", "b"}), make_moment(100 + late, ["a", "b"], victims)
    assert fast.evicts_as(full) is same


def test_one_victim_comes_free_as_a_whole():
    fast, full = make_moment(100, ["a", "c"], {"a"}), make_moment(100, ["a"], {"a"})
    assert not fast.evicts_as(full)


def make_clusters(names):
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "clusters"}
    check = kueue("AdmissionCheck", "clusters", controllerName=MULTI_KUEUE_CONTROLLER, parameters=reference)
    return [check, kueue("MultiKueueConfig", "clusters", clusters=names)]


NODE = {"status": {"allocatable": {"cpu": "1"}}}
SENT = {"admissionChecksStrategy": {"admissionChecks": [{"name": "clusters"}]}}


def test_a_job_that_never_starts_may_have_another_home(tmp_path):
    """Only a job at home in the cluster that is lost is evicted."""
    manifests, nodes = (
        [kueue("ResourceFlavor", "default"), *queue("q", 9)],
        [{"name": "n", "count": 0, "template": NODE}],
    )
    clusters = [{"name": name, "manifests": manifests, "nodes": nodes} for name in ("east", "west")]
    clusters[1]["lost"] = [{"at": 1000}]
    objects = [*queue("q", 9, **SENT), *make_clusters(["east", "west"])]
    works = [work("w", list(range(10, 170, 20)), 100, queue="q")]
    assert find_difference(write(tmp_path, works, objects, clusters=clusters, until=3000)) == FIRST


def test_the_quota_of_a_job_that_comes_back_from_a_worker_may_go_to_another(tmp_path):
    """The local job ends, so that q gets quota, which preempts the job of p in the worker."""
    nothing, any_of = {"cohortName": "all"}, {"cohortName": "all", "preemption": {"reclaimWithinCohort": "Any"}}
    manifests = [kueue("ResourceFlavor", "default"), *queue("p", 0, **nothing), *queue("q", 1, **any_of)]
    objects = [
        *queue("p", 1, **nothing, **SENT),
        *queue("q", 1, **nothing, **SENT),
        *queue("r", 0, **nothing),
        *make_clusters(["east"]),
    ]
    works = [
        work("victim", [10], 1000, queue="p"),
        work("local", [30], 100, queue="r"),
        work("w", [50, 70], 1000, queue="q"),
    ]
    clusters = [{"name": "east", "manifests": manifests}]
    assert find_difference(write(tmp_path, works, objects, clusters=clusters)) == BACK


def test_jobs_that_lose_their_nodes_together_get_other_ones(tmp_path):
    """The pods of a JobSet come back later than that of a Job, which so has another node when c is lost."""
    role = {"name": "r", "replicas": 2, "template": {"spec": job(backoffLimit=0)["spec"]}}
    gang = JOB_SET | {"metadata": {"annotations": {"muster.dev/gang": "true"}}, "spec": {"replicatedJobs": [role]}}
    pools = {"a": (1, "3"), "b": (0, "1"), "c": (0, "1")}
    nodes = [
        {"name": name, "count": count, "template": {"status": {"allocatable": {"cpu": cpu}}}}
        for name, (count, cpu) in pools.items()
    ]
    works = [work("set", [10], 1000, template=gang), work("job", [30], 1000)]
    changes = [
        {"at": 60, "scale": {"pool": "b", "count": 2}},
        {"at": 80, "scale": {"pool": "c", "count": 1}},
        {"at": 100, "drain": {"pool": "a", "count": 1}},
        {"at": 200, "lose": {"pool": "c", "count": 1, "for": 100}},
    ]
    assert find_difference(write(tmp_path, works, nodes=nodes, changes=changes)) == OTHER_NODES
