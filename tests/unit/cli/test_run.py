"""What the options of `muster run` make of the manifest."""

import json

import pytest
from click.testing import CliRunner

from muster.cli.commands.run import command


def dry_run(*options):
    return CliRunner().invoke(command, ["--dry-run", "-o", "json", *options, "--", "true"])


@pytest.mark.parametrize(
    ("options", "size", "bounds"),
    [
        ([], 1, None),
        (["--workers", "3"], 3, None),
        (["--elastic", "2:6"], 6, "2:6"),
        (["--elastic", "2:6", "--workers", "2"], 2, "2:6"),
        (["--elastic", "4:4"], 4, "4:4"),
    ],
)
def test_an_elastic_job_begins_at_its_greatest_size_unless_told(options, size, bounds):
    _, job = json.loads(dry_run(*options).stdout)["items"]
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (size, size)
    assert job["metadata"].get("annotations", {}).get("muster.dev/elastic") == bounds


def test_the_queue_is_a_label_and_without_a_cluster_a_priority_is_that_of_pods(monkeypatch, tmp_path):
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    _, job = json.loads(dry_run("--queue", "team", "--priority", "high").stdout)["items"]
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"}
    assert job["spec"]["template"]["spec"]["priorityClassName"] == "high"
    assert "labels" not in json.loads(dry_run().stdout)["items"][1]["metadata"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--elastic", "4"], "--elastic: '4' is not MIN:MAX, such as 2:8"),
        (["--elastic", "6:2"], "--elastic: '6:2': MIN must be at least 1 and at most MAX"),
        (["--elastic", "0:2"], "MIN must be at least 1"),
        (["--elastic", "2:6", "--workers", "7"], "--workers: 7 is not within --elastic 2:6"),
        (["--elastic", "2:6", "--workers", "1"], "--workers: 1 is not within --elastic 2:6"),
    ],
)
def test_sizes_that_cannot_be(options, message):
    done = dry_run(*options)
    assert done.exit_code == 2
    assert message in done.stderr
