"""Pods of high priority take the nodes of weaker ones, as the scheduler's own rules say."""

import pytest
from tests.system.simulation.test_simulation import FLAVOR, JOB, NODES, burst, play, queue, scenario

HIGH = """
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
%s
"""
REQUESTS = "resources: {requests: {cpu: 1}}"
URGENT = JOB.replace("restartPolicy", "priorityClassName: high\n            restartPolicy")


def work(name, at, *, job=JOB, run="100s", more=""):
    return burst(1, name=name, run=run, job=job, more=more).replace("at: [0]", f"at: [{at}]")


def starts(report):
    return {job.name: job.started for job in report.jobs}


def test_a_job_of_high_priority_takes_the_node_of_the_job_that_started_last(tmp_path):
    works = [work("a", 0), work("b", 5), work("c", 10, job=URGENT)]
    report = play(tmp_path, scenario(NODES % 2 + "  work:\n" + "".join(works), HIGH % ""))
    assert starts(report) == {"a-0": 0.0, "b-0": 5.0, "c-0": 10.0}
    a, b, c = report.jobs
    assert (a.ended, b.ended, c.ended) == (100.0, 200.0, 110.0), "b starts anew once a has ended"
    assert (a.evictions, b.evictions, b.lost) == (0, 1, 5.0)


@pytest.mark.parametrize(
    ("job", "value"),
    [
        pytest.param(URGENT, "preemptionPolicy: Never", id="its class displaces nobody"),
        pytest.param(JOB, "", id="its priority is that of the others"),
    ],
)
def test_a_job_that_may_not_displace_others_waits(tmp_path, job, value):
    works = [work("a", 0), work("c", 10, job=job)]
    report = play(tmp_path, scenario(NODES % 1 + "  work:\n" + "".join(works), HIGH % value))
    assert starts(report) == {"a-0": 0.0, "c-0": 100.0}
    assert [one.evictions for one in report.jobs] == [0, 0]


@pytest.mark.parametrize(
    ("annotation", "started", "evictions"),
    [
        ("{volcano.sh/cooldown-time: 30s}", 30.0, 1),
        ('{volcano.sh/preemptable: "false"}', 100.0, 0),
    ],
)
def test_the_annotations_of_a_pod_protect_it(tmp_path, annotation, started, evictions):
    shielded = JOB.replace("          spec:", f"          metadata: {{annotations: {annotation}}}\n          spec:")
    assert annotation in shielded
    works = [work("a", 0, job=shielded), work("c", 10, job=URGENT)]
    report = play(tmp_path, scenario(NODES % 1 + "  work:\n" + "".join(works), HIGH % ""))
    assert starts(report)["c-0"] == started
    assert report.jobs[0].evictions == evictions


def test_a_gang_displaces_no_more_than_it_needs_and_nobody_if_that_does_not_help(tmp_path):
    works = [
        *(work(name, at) for at, name in enumerate("abc")),
        work("two", 10, job=URGENT, more="    size: 2\n"),
        work("four", 11, job=URGENT, more="    size: 4\n"),
    ]
    report = play(tmp_path, scenario(NODES % 3 + "  work:\n" + "".join(works), HIGH % ""))
    assert starts(report)["two-0"] == 10.0
    assert {job.name: job.evictions for job in report.jobs} == {"a-0": 0, "b-0": 1, "c-0": 1, "two-0": 0, "four-0": 0}
    assert [one.name for one in report.waiting if one.never] == ["four-0"]


def test_a_displaced_job_keeps_its_quota_and_waits_behind_those_whose_pods_are_older(tmp_path):
    works = [
        work("a", 0, more="    queue: q\n"),
        work("b", 5, more="    queue: q\n"),
        work("c", 10, job=URGENT, run="20s"),
    ]
    report = play(tmp_path, scenario(NODES % 1 + "  work:\n" + "".join(works), HIGH % "" + FLAVOR + queue("q", 2)))
    assert starts(report) == {"a-0": 0.0, "b-0": 30.0, "c-0": 10.0}
    a, b, _ = report.jobs
    assert (b.ended, a.ended, a.evictions) == (130.0, 230.0, 1)
    assert report.summary.use[0].peak == 2000


def test_a_drawn_priority_without_a_queue_is_that_of_the_pods(tmp_path):
    works = [work("a", 0), work("c", 10, more="    priority: 7\n")]
    report = play(tmp_path, scenario(NODES % 1 + "  work:\n" + "".join(works)))
    assert starts(report)["c-0"] == 10.0
    works = [work("a", 0, more="    queue: q\n"), work("c", 10, more="    priority: 7\n    queue: q\n")]
    report = play(tmp_path, scenario(NODES % 1 + "  work:\n" + "".join(works), FLAVOR + queue("q", 2)))
    assert starts(report)["c-0"] == 100.0, "a queue goes by it, and nodes by the class of the pods"


def test_a_gang_is_as_hard_to_displace_as_its_strongest_pod(tmp_path):
    """Each role of a JobSet has the class that its own template names."""
    roles = "".join(
        f"        - name: {name}\n          replicas: 1\n          template:\n            spec: {{template: {{spec: {{"
        f"{chosen}restartPolicy: Never, containers: [{{name: c, image: i, {REQUESTS}}}]}}}}}}\n"
        for name, chosen in (("head", ""), ("tail", "priorityClassName: high, "))
    )
    jobset = f"""
      apiVersion: jobset.x-k8s.io/v1alpha2
      kind: JobSet
      spec:
        replicatedJobs:
{roles}"""
    works = [work("a", 0, job=jobset), work("b", 10, job=URGENT)]
    report = play(tmp_path, scenario(NODES % 2 + "  work:\n" + "".join(works), HIGH % ""))
    assert starts(report) == {"a-0": 0.0, "b-0": 100.0}
    assert [one.evictions for one in report.jobs] == [0, 0]
