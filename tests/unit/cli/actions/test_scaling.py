"""What `muster scale` writes, and says about it."""

import click
import msgspec
import pytest
from click.testing import CliRunner

from muster.api.batch import Job
from muster.cli.actions.scaling import afterwards, objection_to, size
from muster.cli.commands.scale import command


def job(parallelism=2, completions=2, mode="Indexed", elastic=None):
    annotations = {"muster.dev/elastic": elastic} if elastic is not None else {}
    spec = {"parallelism": parallelism, "completions": completions, "completionMode": mode}
    return msgspec.convert({"metadata": {"name": "j", "annotations": annotations}, "spec": spec}, Job)


@pytest.mark.parametrize(
    ("subject", "workers", "patch"),
    [
        (job(), 4, {"parallelism": 4, "completions": 4}),
        (job(parallelism=2, completions=8), 4, {"parallelism": 4}),
        (job(mode="NonIndexed", completions=8), 8, {"parallelism": 8}),
        (job(mode="NonIndexed", completions=None), 9, {"parallelism": 9}),
    ],
    ids=["a gang", "Indexed", "NonIndexed", "a work queue"],
)
def test_the_size_of_a_job(subject, workers, patch):
    assert size(subject, workers) == patch


@pytest.mark.parametrize("subject", [job(mode="NonIndexed"), job(parallelism=1)], ids=["NonIndexed", "Indexed"])
def test_no_more_workers_than_completions(subject):
    with pytest.raises(click.ClickException, match=r"j has 2 completions, and never more workers .* at most 2"):
        size(subject, 3)


@pytest.mark.parametrize(
    ("elastic", "workers", "said"),
    [
        (None, 4, ""),
        ("nonsense", 4, ""),
        ("4:4", 4, ""),
        ("2:8", 2, "j is elastic (2:8): it may be moved again, as room allows"),
        ("2:8", 1, "j is elastic (2:8): below 2 it stays at this size until it is scaled again"),
        (
            "2:8",
            9,
            "j is elastic (2:8): above 8 it does not grow by itself, but may be shrunk where the cluster is short",
        ),
    ],
)
def test_what_becomes_of_the_size_of_an_elastic_job(elastic, workers, said):
    assert afterwards(job(elastic=elastic), workers) == said


@pytest.mark.parametrize("workers", ["100001", "x", "9" * 50])
def test_sizes_that_no_job_has(workers):
    result = CliRunner().invoke(command, ["j", workers])
    assert result.exit_code == 2
    assert "Invalid value for 'WORKERS'" in result.output


def test_no_workers_are_the_end_of_an_indexed_job() -> None:
    assert "stays so; `muster hold` would have paused it" in afterwards(job(), 0)


@pytest.mark.parametrize(
    ("subject", "workers", "objection"),
    [
        (job(), 1, ""),
        (job(), 0, "with 0 workers j is complete, which cannot be taken back (`muster hold j` pauses it)"),
        (job(mode="NonIndexed"), 0, ""),
        (job(elastic="2:8"), 1, "j is elastic (2:8), and 1 is less than its MIN"),
        (job(elastic="2:8"), 2, ""),
        (job(elastic="2:8"), 9, ""),
        (job(elastic="nonsense"), 1, ""),
    ],
)
def test_what_is_hardly_meant(subject, workers, objection):
    assert objection_to(subject, workers) == objection
