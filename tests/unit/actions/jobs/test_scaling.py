"""What `muster scale` writes, and says about it."""

import msgspec
import pytest
from click.testing import CliRunner

from muster.actions.errors import UserError
from muster.actions.jobs.scaling import explain_later_sizes, list_size_fields, make_size_fields, objection_to, part_of
from muster.api.batch import Job
from muster.api.jobset import JobSet
from muster.cli.commands.changes.scale import command
from muster.insight.record import record_of


def job(parallelism=2, completions=2, mode="Indexed", elastic=None, array=None, env=(), queued=None):
    given = {"muster.dev/elastic": elastic, "muster.dev/array": array, "kueue.x-k8s.io/elastic-job": queued}
    annotations = {name: value for name, value in given.items() if value is not None}
    spec = {"parallelism": parallelism, "completions": completions, "completionMode": mode, "template": template(env)}
    found = msgspec.convert({"metadata": {"name": "j", "annotations": annotations}, "spec": spec}, Job)
    return part_of(record_of(found))


def template(env):
    return {"spec": {"containers": [{"name": "c", "env": list(env)}]}}


FIXED = {"name": "WORLD_SIZE", "value": "2"}
READ = {"name": "WORLD_SIZE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['muster.dev/world-size']"}}}
OF_MPI = {"name": "MUSTER_MPI_IDENTITY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


@pytest.mark.parametrize(
    ("subject", "workers", "patch"),
    [
        (job(), 4, {"parallelism": 4, "completions": 4}),
        (job(parallelism=2, completions=8), 4, {"parallelism": 4}),
        (job(mode="NonIndexed", completions=8), 8, {"parallelism": 8}),
        (job(mode="NonIndexed", completions=None), 9, {"parallelism": 9}),
        (job(parallelism=8, completions=8, array="0-7"), 4, {"parallelism": 4}),
    ],
    ids=["a gang", "Indexed", "NonIndexed", "a work queue", "a sweep"],
)
def test_the_size_of_a_job(subject, workers, patch):
    assert make_size_fields(subject, workers) == patch


@pytest.mark.parametrize("subject", [job(mode="NonIndexed"), job(parallelism=1)], ids=["NonIndexed", "Indexed"])
def test_no_more_workers_than_completions(subject):
    with pytest.raises(UserError, match=r"j has 2 completions, and never more workers .* at most 2"):
        make_size_fields(subject, 3)


@pytest.mark.parametrize(
    ("elastic", "workers", "said"),
    [
        (None, 4, ""),
        ("nonsense", 4, ""),
        ("4:4", 4, ""),
        ("2:8", 2, "j is elastic (2:8): Muster may change its size again, as quota and nodes allow"),
        ("2:8", 1, "j is elastic (2:8): below 2 it stays at this size until it is scaled again"),
        (
            "2:8",
            9,
            "j is elastic (2:8): above 8 it does not grow by itself, but may shrink when another job needs its room",
        ),
    ],
)
def test_what_becomes_of_the_size_of_an_elastic_job(elastic, workers, said):
    assert explain_later_sizes(job(elastic=elastic), workers) == said


@pytest.mark.parametrize("workers", ["100001", "x", "9" * 50])
def test_sizes_that_no_job_has(workers):
    result = CliRunner().invoke(command, ["j", workers])
    assert result.exit_code == 2
    assert "Invalid value for 'WORKERS'" in result.output


def test_a_negative_size_is_no_option() -> None:
    result = CliRunner().invoke(command, ["j", "-1"])
    assert result.exit_code == 2
    assert "Error: -1 workers: a job has 0 workers or more" in result.output


def test_no_workers_are_the_end_of_an_indexed_job() -> None:
    assert "stays so; `muster hold` would have paused it" in explain_later_sizes(job(), 0)


@pytest.mark.parametrize(
    ("subject", "workers", "objection"),
    [
        (job(), 1, ""),
        (job(), 0, "with 0 workers j is complete, which cannot be taken back (`muster hold j` pauses it)"),
        (job(mode="NonIndexed"), 0, ""),
        (job(elastic="2:8"), 1, "j is elastic (2:8), and 1 is less than its MIN"),
        (job(elastic="2:8"), 2, ""),
        (
            job(elastic="2:8"),
            9,
            "j is elastic (2:8), and 9 is more than its MAX: Muster ends what is above 8 where the cluster is short",
        ),
        (job(elastic="2:2"), 9, ""),
        (job(elastic="nonsense"), 1, ""),
        (job(env=[READ]), 3, ""),
        (job(env=[FIXED], elastic="2:8"), 3, ""),
        (job(env=[FIXED]), 2, ""),
    ],
)
def test_what_is_hardly_meant(subject, workers, objection):
    assert objection_to(subject, workers) == objection


def test_a_gang_whose_workers_have_a_fixed_size_is_not_scaled():
    set_of_jobs = jobset(env=[FIXED], d=(1, 1), w=(1, 2))
    for subject in (job(env=[FIXED], queued="true"), job(env=[OF_MPI]), part_of(set_of_jobs, "w")):
        for workers in (1, 3):
            assert objection_to(subject, workers) == (
                "j is not elastic: its workers have fixed ranks and a fixed WORLD_SIZE, which another size would make "
                "wrong; submit it again with --elastic MIN:MAX or another --workers"
            )


def jobset(env=(), **roles):
    """Of each role: how many Jobs, of how many workers."""
    jobs = [
        {
            "name": name,
            "replicas": jobs,
            "template": {
                "spec": {
                    "parallelism": each,
                    "completions": each,
                    "completionMode": "Indexed",
                    "template": template(env),
                }
            },
        }
        for name, (jobs, each) in roles.items()
    ]
    return record_of(msgspec.convert({"metadata": {"name": "j"}, "spec": {"replicatedJobs": jobs}}, JobSet))


@pytest.mark.parametrize(
    ("roles", "role", "workers", "written"),
    [
        ({"w": (1, 2)}, "", 6, {"0/template/spec/parallelism": 6, "0/template/spec/completions": 6}),
        ({"d": (1, 1), "w": (1, 2)}, "w", 3, {"1/template/spec/parallelism": 3, "1/template/spec/completions": 3}),
        ({"w": (2, 4)}, "w", 12, {"0/replicas": 3}),
        ({"w": (2, 4)}, "w", 0, {"0/replicas": 0}),
        ({"w": (0, 4)}, "w", 8, {"0/replicas": 2}),
    ],
)
def test_the_size_of_a_role(roles, role, workers, written):
    found = list_size_fields(part_of(jobset(**roles), role), workers)
    assert found == {f"/spec/replicatedJobs/{path}": value for path, value in written.items()}


@pytest.mark.parametrize(
    ("job", "role", "complaint"),
    [
        (jobset(d=(1, 1), w=(1, 2)), "", "j has several roles; say which with --role: d, w"),
        (jobset(d=(1, 1), w=(1, 2)), "x", "j has no role x: d, w"),
        (record_of(Job()), "w", " has no roles"),
    ],
)
def test_which_role_is_meant(job, role, complaint):
    with pytest.raises(UserError, match=complaint):
        part_of(job, role)


@pytest.mark.parametrize(("jobs", "each"), [(2, 4), (0, 4), (2, 0)])
def test_a_role_of_several_jobs_grows_by_whole_jobs(jobs, each):
    with pytest.raises(UserError, match=f"j has Jobs of {each} workers each: say a multiple of that"):
        list_size_fields(part_of(jobset(w=(jobs, each))), 6)


def test_a_role_of_one_job_keeps_a_worker() -> None:
    with pytest.raises(UserError, match="j keeps at least 1 worker; `muster hold j` pauses it"):
        list_size_fields(part_of(jobset(w=(1, 4))), 0)


def test_a_role_without_workers_may_get_some_again() -> None:
    assert explain_later_sizes(part_of(jobset(w=(2, 4))), 0) == ""
