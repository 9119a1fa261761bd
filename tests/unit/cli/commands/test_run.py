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
        (["--memory", "4GB"], "'--memory': '4GB' is no quantity, as 8, 500m or 32Gi"),
        (["--memory", "4"], "'--memory': 4 is less than a megabyte; say it with a unit, as 512Mi or 4Gi"),
        (["--memory", "500m"], "'--memory': 500m is less than a megabyte"),
        (["-n", "4"], "-n: 4 is a namespace; did you mean --workers?"),
        (["-np", "4"], "-n: p is a namespace; did you mean --workers?"),
        (["--cpus", "2cores"], "'--cpus': '2cores' is no quantity"),
        (["--cpus", "-1"], "'--cpus': -1 is below 0"),
        (["--name", "My_Job"], "--name: 'My_Job': at most 61 of a-z, 0-9 and '-'"),
    ],
)
def test_what_cannot_be(options, message):
    done = dry_run(*options)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "4", "--", "true"], "4 is a namespace; did you mean --workers?"),
        (["-o", "json", "--", "true"], "-o is the form of --dry-run; without that there is nothing to print"),
        (["-n", "team", "--", "true"], "no cluster runs, so there is no namespace team"),
        (["--detach", "--", "true"], "--detach needs a running cluster; start one with: muster up --detach"),
        (["--workers", "4"], "Missing argument"),
    ],
)
def test_what_would_be_obeyed_into_something_else_is_refused(arguments, message, monkeypatch, tmp_path):
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["echo", "--workers", "4", "--lr=1"], "--workers is an argument of echo; options of muster go before it\n"),
        (["--", "echo", "--workers", "4"], ""),
        (["echo", "--lr", "1", "-n"], ""),
    ],
)
def test_options_after_the_command_are_its_own_which_is_said(arguments, said):
    done = CliRunner().invoke(command, ["--dry-run", "-o", "json", *arguments])
    assert done.stderr == said
    job = json.loads(done.stdout)["items"][1]
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == [word for word in arguments if word != "--"]


def test_a_working_directory_that_is_gone_is_said(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = CliRunner().invoke(command, ["--dry-run", "--", "true"])
    assert done.exit_code == 1
    assert "the working directory is no longer there" in done.stderr
