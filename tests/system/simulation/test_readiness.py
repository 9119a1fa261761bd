"""Jobs whose pods are not ready in time give their quota back, and wait longer each time before another try."""

import pytest
from msgspec.structs import replace
from tests.system.simulation.test_simulation import FLAVOR, JOB, NODES, burst, play, queue, scenario

from muster.api.config import EMBEDDED, WaitForPodsReady
from muster.api.config.types import RequeuingStrategy
from muster.api.values.durations import SECOND

URGENT = JOB.replace("restartPolicy", "priorityClassName: high\n            restartPolicy")
HIGH = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 9\n"


def waiting(timeout=60, *, recovery=None, block=False, limit=None, timestamp="Eviction"):
    strategy = RequeuingStrategy(
        backoff_base_seconds=10, backoff_max_seconds=30, backoff_limit_count=limit, timestamp=timestamp
    )
    recovery_timeout = None if recovery is None else recovery * SECOND
    settings = WaitForPodsReady(
        timeout=timeout * SECOND, block_admission=block, requeuing_strategy=strategy, recovery_timeout=recovery_timeout
    )
    return replace(EMBEDDED, wait_for_pods_ready=settings)


def job(name, at=0, *, startup="0s", run="100s", count=1, job=JOB):
    more = f"    queue: q\n    startup: {startup}\n"
    return burst(count, name=name, run=run, more=more, job=job).replace("at: [0]", f"at: [{at}]")


def refuse_time_after(seconds):
    """Return a function that fails a simulation which goes on for longer."""

    def look(record):
        assert record.now < seconds

    return look


def quota(cpus):
    return FLAVOR + queue("q", cpus)


def test_a_run_begins_once_the_pods_are_ready(tmp_path):
    [one] = play(tmp_path, scenario("  work:\n" + job("a", startup="20s"), quota(1)), configuration=waiting()).jobs
    assert (one.started, one.ended, one.evictions) == (0.0, 120.0, 0)


def test_a_job_that_is_late_backs_off_longer_each_time(tmp_path):
    """It is tried until 60, from 70 until 130, from 150 until 210, from 240 (the longest) until 300, and so on."""
    text = scenario("  until: 400s\n  work:\n" + job("a", startup="61s"), quota(1))
    report = play(tmp_path, text, configuration=waiting())
    changes = [(one.at, one.amount > 0) for one in report.changes]
    assert changes == [
        (at, starts)
        for begin, end in ((0, 60), (70, 130), (150, 210), (240, 300), (330, 390))
        for at, starts in ((begin, True), (end, False))
    ]
    assert [one.evictions for one in report.jobs] == [5]


def test_a_simulation_ends_although_a_job_is_always_late(tmp_path):
    """Only after the end of the other job, which runs much longer than the first job is tried in vain."""
    text = scenario("  work:\n" + job("a", startup="61s") + job("b", at=1, startup="60s", run="10h"), quota(2))
    report = play(tmp_path, text, configuration=waiting(), progress=refuse_time_after(90_000))
    a, b = report.jobs
    assert (a.ended, b.ended) == (None, 36_061.0)
    assert [(one.name, one.never, one.why) for one in report.waiting] == [
        ("a-0", True, "its pods are ready after 1m1s, but it is evicted after 1m")
    ]


def test_a_late_job_whose_limit_ends_it_is_no_job_that_never_runs(tmp_path):
    late = job("a", startup="61s").replace("startup", "limit: 30s\n    startup")
    report = play(tmp_path, scenario("  until: 20s\n  work:\n" + late, quota(1)), configuration=waiting())
    assert (report.jobs[0].started, report.waiting) == (0.0, [])


def test_a_job_is_given_up_after_the_last_retry(tmp_path):
    text = scenario("  work:\n" + job("a", startup="61s") + job("b", at=1), quota(1))
    report = play(tmp_path, text, configuration=waiting(limit=1))
    a, b = report.jobs
    assert (a.evictions, a.ended, b.started) == (2, None, 60.0)
    assert [(one.name, one.never, one.why) for one in report.waiting] == [
        ("a-0", True, "its pods were not ready in time too often")
    ]


@pytest.mark.parametrize(("timestamp", "first"), [("Eviction", "c"), ("Creation", "a")])
def test_a_late_job_queues_by_its_eviction_or_its_creation(tmp_path, timestamp, first):
    """Job b runs from 60 to 160. Meanwhile c came, after a was submitted and before a was evicted."""
    works = [job("a", startup="61s"), job("b", at=1), job("c", at=2)]
    text = scenario("  until: 161s\n  work:\n" + "".join(works), quota(1))
    report = play(tmp_path, text, configuration=waiting(timestamp=timestamp))
    held = {one.name.removesuffix("-0"): one for one in report.jobs}
    assert held["b"].started == 60.0
    assert (held["c"].started == 160.0) is (first == "c")


@pytest.mark.parametrize(("block", "second"), [(False, 0.0), (True, 30.0)])
def test_the_next_job_waits_for_the_pods_of_the_one_before_if_admission_blocks(tmp_path, block, second):
    text = scenario("  work:\n" + job("a", startup="30s", count=2), quota(2))
    report = play(tmp_path, text, configuration=waiting(block=block))
    assert [one.started for one in report.jobs] == [0.0, second]


def test_a_job_that_finds_no_nodes_is_late_too(tmp_path):
    works = job("a", count=2)
    report = play(tmp_path, scenario(NODES % 1 + "  work:\n" + works, quota(2)), configuration=waiting())
    first, second = report.jobs
    assert (first.started, second.evictions, second.lost) == (0.0, 1, 0.0)
    assert second.started == 100.0, "it asks for nodes again from 70 on"


@pytest.mark.parametrize(("recovery", "evictions", "started"), [(None, 1, 70.0), (20, 2, 70.0)])
def test_a_job_that_lost_its_nodes_has_to_recover_in_time(tmp_path, recovery, evictions, started):
    """The job is displaced at 10, and finds nodes at 70. At 30 it is late, and is queued again at 40."""
    urgent = burst(1, name="u", run="60s", job=URGENT).replace("at: [0]", "at: [10]")
    text = scenario(NODES % 1 + "  work:\n" + job("a") + urgent, HIGH + quota(2))
    report = play(tmp_path, text, configuration=waiting(recovery=recovery))
    a = next(one for one in report.jobs if one.name == "a-0")
    assert (a.evictions, a.ended) == (evictions, started + 100.0)


@pytest.mark.parametrize("kind", ["job", "queue", "flavor"])
def test_an_annotation_sets_the_time_out_of_one_object(tmp_path, kind):
    annotation = "annotations: {muster.dev/wait-for-pods-ready: timeout=15s}"
    template = JOB.replace("kind: Job", f"kind: Job\n      metadata: {{{annotation}}}") if kind == "job" else JOB
    text = scenario("  until: 16s\n  work:\n" + job("a", startup="20s", job=template), quota(1))
    if kind == "queue":
        text = text.replace(
            "kind: ClusterQueue\nmetadata: {name: q", "kind: ClusterQueue\nmetadata: {name: q, " + annotation
        )
    if kind == "flavor":
        text = text.replace("metadata: {name: default", "metadata: {name: default, " + annotation)
    assert annotation in text
    report = play(tmp_path, text)
    assert [(one.at, one.amount) for one in report.changes] == [(0.0, 1000), (15.0, -1000)]


def test_a_simulation_ends_with_its_last_job_and_not_with_a_time_out(tmp_path):
    report = play(tmp_path, scenario("  work:\n" + job("a", run="10s"), quota(1)))
    assert report.summary.seconds == 10.0
