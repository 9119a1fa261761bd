"""The history of a cluster as a log of jobs."""

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from muster.insight.history.runs import PodRequests, Run, make_row
from muster.simulation.scenario.logs.history import read_history
from muster.simulation.scenario.logs.jobs import LeftOut, LogError, Role, TracedJob

RUN = Run(
    uid="u",
    namespace="lab",
    name="train",
    kind="Job",
    state="Completed",
    submitted=datetime(2026, 1, 1, tzinfo=UTC),
    started=datetime(2026, 1, 1, 0, 1, tzinfo=UTC),
    ended=datetime(2026, 1, 1, 0, 5, tzinfo=UTC),
    owner="ada",
    queue="q",
    workers=3,
    priority=7,
    limit_seconds=600,
    pod_requests=(PodRequests(1, {"cpu": "500m"}), PodRequests(2, {"cpu": "2", "memory": "1Gi"})),
)
ROLES = (Role(1, (("cpu", 500),)), Role(2, (("cpu", 2000), ("memory", 1 << 30))))
JOB = TracedJob(1767225600.0, 240.0, "train", ROLES, 600.0, "lab/q", "ada", 7)


def read(*runs, left_out=None):
    lines = [msgspec.json.encode(make_row(run)).decode() + "\n" for run in runs]
    return list(read_history(lines, left_out or LeftOut()))


def test_a_run_is_a_job():
    assert read(RUN) == [JOB]


def test_a_run_without_a_queue_has_none():
    assert read(replace(RUN, queue=""))[0].queue == ""


@pytest.mark.parametrize(("cpus", "requests"), [(4.5, (("cpu", 1500),)), (None, None)])
def test_of_a_run_of_an_older_version_the_cpus_are_known_at_most(cpus, requests):
    [job] = read(replace(RUN, pod_requests=(), requested_cpus=cpus))
    assert job.roles == (Role(3, requests),)


def test_a_run_that_never_started_is_counted():
    left_out = LeftOut()
    assert read(RUN, replace(RUN, started=None), left_out=left_out) == [JOB]
    assert left_out.jobs == 1


@pytest.mark.parametrize("line", ["{", "[]", '{"name": "x"}', msgspec.json.encode(make_row(RUN)).decode()[:-1]])
def test_a_line_that_is_no_run_is_named(line):
    with pytest.raises(LogError, match="line 3: is no run of `muster history -o jsonl`"):
        list(read_history(["\n", "\n", line], LeftOut()))


@pytest.mark.parametrize(
    "run",
    [
        replace(RUN, priority=2**40),
        replace(RUN, limit_seconds=-1),
        replace(RUN, pod_requests=(PodRequests(1, {"cpu": "-1"}),)),
        replace(RUN, pod_requests=(PodRequests(1, {"memory": "9Ei"}),)),
        replace(RUN, pod_requests=(PodRequests(1, {"memory": "x"}),)),
    ],
)
def test_a_run_whose_values_make_no_sense_is_named(run):
    with pytest.raises(LogError, match="line 1: is no run of `muster history -o jsonl`"):
        read(run)
