"""Elastic jobs of a simulation shrink for others, grow into free room, and work faster the more pods they have."""

import pytest
from tests.system.simulation.test_simulation import FLAVOR, play, queue, scenario

from muster.simulation.scenario.source import ScenarioError


def job(name, at, pods, seconds, *, sizes="", local="", priority="", more=""):
    """Return a work with one job. sizes: those that it may have, if it is elastic."""
    meta = f"metadata: {{annotations: {{muster.dev/elastic: '{sizes}'}}}}" if sizes else "metadata: {}"
    return f"""
  - name: {name}
    {f"queue: {local}" if local else ""}
    {f"priority: {priority}" if priority else ""}
    arrivals: {{burst: {{at: [{at}], count: 1}}}}
    runTime: {seconds}
    {more}
    template:
      apiVersion: batch/v1
      kind: Job
      {meta}
      spec:
        completionMode: Indexed
        parallelism: {pods}
        completions: {pods}
        backoffLimit: 3
        template:
          spec:
            restartPolicy: Never
            containers: [{{name: c, image: i, resources: {{requests: {{cpu: "1"}}}}}}]
"""


def nodes(count, cpus=2):
    allocatable = f'{{status: {{allocatable: {{cpu: "{cpus}"}}}}}}'
    return f"  nodes:\n  - {{name: n, count: {count}, template: {allocatable}}}\n" if count else ""


def run(tmp_path, works, *, count=4, after="", spec=""):
    """Return what became of each job, by its name without its number."""
    report = play(tmp_path, scenario(f"{spec}{nodes(count)}  work:{''.join(works)}", after))
    return {one.name.rpartition("-")[0]: one for one in report.jobs}


def test_a_job_alone_grows_to_its_most_and_works_twice_as_fast(tmp_path):
    jobs = run(tmp_path, [job("train", 0, 4, 1000, sizes="2:8")])
    assert jobs["train"].ended == 500
    assert jobs["train"].resizes == 1


def test_a_job_shrinks_for_one_that_waits_and_grows_again(tmp_path):
    """It does 200 s of its work with eight pods, 50 s with two, and the rest with eight."""
    jobs = run(tmp_path, [job("train", 0, 4, 1000, sizes="2:8"), job("other", 100, 6, 100)])
    assert (jobs["other"].started, jobs["other"].ended) == (100, 200)
    assert jobs["train"].ended == 200 + 750 / 2
    assert jobs["train"].lost == 0


def test_each_size_is_a_decision_of_the_record(tmp_path):
    works = [job("train", 0, 4, 1000, sizes="2:8"), job("other", 100, 6, 100)]
    report = play(tmp_path, scenario(f"{nodes(4)}  work:{''.join(works)}"), decisions=100)
    resizes = [one for one in report.decisions if one.what in ("Shrunk", "Grown")]
    assert [(one.name, one.what, one.pods_before, one.pods, one.rule) for one in resizes] == [
        ("train-0", "Grown", 4, 8, "Nodes"),
        ("train-0", "Shrunk", 8, 2, "MakesRoom"),
        ("train-0", "Grown", 2, 8, "Nodes"),
    ]
    assert [other.job for other in resizes[1].others] == ["default/other-0"]


def test_no_job_shrinks_below_its_least_size(tmp_path):
    jobs = run(tmp_path, [job("train", 0, 4, 1000, sizes="3:4"), job("other", 100, 6, 100)])
    assert jobs["other"].started == jobs["train"].ended == 1000
    assert jobs["train"].resizes == 0


def test_a_job_that_does_not_fit_starts_smaller(tmp_path):
    jobs = run(tmp_path, [job("rigid", 0, 5, 300), job("train", 0, 6, 600, sizes="2:6")])
    assert jobs["train"].started == 0
    assert jobs["train"].ended == 300 + (600 - 150)


def test_jobs_shrink_before_a_job_of_a_higher_priority_displaces_anybody(tmp_path):
    """Without the elastic job, the urgent one would take the nodes of the weak one."""
    classes = "".join(
        f"\n---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n"
        for name, value in (("low", 1), ("high", 9))
    )

    def of_class(text, name):
        return text.replace("restartPolicy: Never", f"restartPolicy: Never\n            priorityClassName: {name}")

    works = [
        of_class(job("train", 0, 4, 1000, sizes="2:4"), "low"),
        of_class(job("weak", 0, 4, 1000), "low"),
        of_class(job("urgent", 100, 2, 10), "high"),
    ]
    jobs = run(tmp_path, works, after=classes)
    assert jobs["urgent"].started == 100
    assert [jobs[name].evictions for name in ("train", "weak")] == [0, 0]
    works[2] = of_class(job("urgent", 100, 6, 10), "high")  # more than a shrink gives
    jobs = run(tmp_path, works, after=classes)
    assert jobs["urgent"].started == 100
    assert jobs["weak"].evictions == 1


QUEUES = FLAVOR + queue("a", 4) + queue("b", 4)


@pytest.mark.parametrize("count", [0, 8])
def test_a_job_grows_into_borrowed_quota_and_gives_it_back(tmp_path, count):
    """Eight processors of quota in two queues that lend to each other."""
    works = [job("train", 0, 4, 1000, sizes="2:8", local="a"), job("other", 100, 4, 100, local="b")]
    jobs = run(tmp_path, works, count=count, after=QUEUES)
    assert jobs["other"].started == 100
    assert jobs["train"].evictions == 0
    assert jobs["train"].ended == 200 + (1000 - 200 - 100) / 2


@pytest.mark.parametrize("count", [0, 8])
def test_a_job_waits_for_no_more_quota_than_is_free(tmp_path, count):
    works = [job("rigid", 0, 5, 300, local="b"), job("train", 0, 6, 600, sizes="2:6", local="a")]
    jobs = run(tmp_path, works, count=count, after=QUEUES)
    assert jobs["train"].started == 0
    assert jobs["train"].ended == 300 + (600 - 150)


def test_quota_and_nodes_bound_growth_together(tmp_path):
    """There is quota for eight pods, and room for six."""
    jobs = run(tmp_path, [job("train", 0, 4, 600, sizes="2:8", local="a")], count=3, after=QUEUES)
    assert jobs["train"].ended == 400


def test_the_quota_that_a_job_uses_follows_its_size(tmp_path):
    works = [job("train", 0, 4, 1000, sizes="2:8", local="a"), job("other", 100, 4, 100, local="b")]
    report = play(tmp_path, scenario(f"  work:{''.join(works)}", QUEUES))
    used, course = {"a": 0, "b": 0}, []
    for change in report.changes:
        used[change.queue] += change.amount // 1000
        course.append((change.at, used["a"], used["b"]))
    at = {moment: (a, b) for moment, a, b in course}  # the last of each moment
    assert at == {0: (8, 0), 100: (4, 4), 200: (8, 0), 550: (0, 0)}


def test_a_job_that_loses_a_node_goes_on_with_what_fits(tmp_path):
    """Four pods on two nodes, of which one is lost: without checkpoints it begins again, with two pods."""
    lost = "  changes:\n  - {at: 100, lose: {nodes: [n-1], for: 1h}}\n"
    jobs = run(tmp_path, [job("train", 0, 4, 1000, sizes="2:4")], count=2, spec=lost)
    assert jobs["train"].interruptions == 1
    assert jobs["train"].ended == 100 + 2000


def test_a_checkpoint_keeps_the_work_of_all_sizes(tmp_path):
    """It runs twice as fast from the start: after 100 s, it has done 200 s of work, of which 180 s are kept."""
    lost = "  changes:\n  - {at: 100, lose: {nodes: [n-1], for: 1h}}\n"
    train = job("train", 0, 2, 1000, sizes="1:4", more="checkpoint: {every: 90}")
    jobs = run(tmp_path, [train], count=2, spec=lost)
    assert jobs["train"].lost == 20 * 2
    assert jobs["train"].ended == 100 + 820


def test_a_time_limit_counts_from_the_start_whatever_the_size(tmp_path):
    jobs = run(tmp_path, [job("train", 0, 4, 1000, sizes="2:8", more="limit: 300")])
    assert jobs["train"].ended == 300


def test_growth_begins_once_the_pods_are_there_and_counts_from_readiness(tmp_path):
    jobs = run(tmp_path, [job("train", 0, 4, 1000, sizes="2:8", more="startup: 50")])
    assert jobs["train"].ended == 50 + 500


@pytest.mark.parametrize("seed", range(4))
def test_all_work_is_done_once_within_the_quota(tmp_path, seed):
    """The quota that jobs held adds up to their work, whatever their sizes were."""
    drawn = {"arrivals: {burst: {at: [0], count: 1}}": "arrivals: {poisson: {every: 200}}\n    count: 40"}
    drawn |= {"runTime: 0": "runTime: {uniform: {from: 10, to: 500}}\n    size: {uniform: {from: 2, to: 4}}"}
    works = [job("elastic", 0, 4, 0, sizes="2:6", local="a"), job("rigid", 0, 4, 0, local="b")]
    for old, new in drawn.items():
        works = [one.replace(old, new) for one in works]
    report = play(tmp_path, scenario(f"  seed: {seed}\n  work:{''.join(works)}", QUEUES))
    assert all(one.ended is not None for one in report.jobs)
    assert sum(one.resizes for one in report.jobs) > 10
    moments: dict[float, int] = {}
    for change in report.changes:
        moments[change.at] = moments.get(change.at, 0) + change.amount // 1000
    used, held, since = 0, 0.0, 0.0
    for at, amount in moments.items():
        held += used * (at - since)
        used, since = used + amount, at
        assert 0 <= used <= 8
    done = sum(one.pods * (one.run_time + one.lost / one.pods) for one in report.jobs)
    assert held == pytest.approx(done)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (job("train", 0, 4, 10, sizes="8:2"), "muster.dev/elastic would be ignored"),
        (job("train", 0, 4, 10, sizes="2:8").replace("completions: 4", "completions: 8"), "they must be equal"),
    ],
)
def test_an_annotation_that_the_engine_would_ignore_is_an_error(tmp_path, text, why):
    with pytest.raises(ScenarioError, match=why):
        run(tmp_path, [text])


def test_the_whole_engine_refuses_elastic_jobs(tmp_path):
    with pytest.raises(ScenarioError, match="an elastic job cannot be played with --engine full"):
        play(tmp_path, scenario(f"{nodes(1)}  work:{job('train', 0, 2, 10, sizes='1:2')}"), engine="full")
