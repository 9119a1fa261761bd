"""What the options of `muster run` make of the manifest."""

import json

import pytest
from click.testing import CliRunner

from muster.cli.commands.run import command


def dry_run(*options):
    return CliRunner().invoke(command, ["--dry-run", "-o", "json", *options, "--", "true"])


def template(jobset, role=0):
    return jobset["spec"]["replicatedJobs"][role]["template"]


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
    found = json.loads(dry_run(*options).stdout)
    job = found["items"][1] if bounds else {"metadata": {}, **found["spec"]["replicatedJobs"][0]["template"]}
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (size, size)
    assert job["metadata"].get("annotations", {}).get("muster.dev/elastic") == bounds


def test_the_queue_is_a_label_and_without_a_cluster_a_priority_is_that_of_pods(monkeypatch, tmp_path):
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    found = json.loads(dry_run("--queue", "team", "--priority", "high").stdout)
    assert found["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team"}
    assert template(found)["spec"]["template"]["spec"]["priorityClassName"] == "high"
    assert "labels" not in json.loads(dry_run().stdout)["metadata"]


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
        (["--name", "My_Job"], "--name: 'My_Job': at most 45 of a-z, 0-9 and '-'"),
        (["--role", "a", "--role", "a:2"], "--role: a is given twice"),
        (
            ["--role", "A"],
            "'A' is no name of a role: at most 20 of a-z, 0-9 and '-', a letter first, in NAME[:N]",
        ),
        (["--role", "a:0"], "'0' in 'a:0' is no number of at least 1"),
        (["--role", "a:x"], "'x' in 'a:x' is no number of at least 1"),
        (["--role", "a,gpu=1"], "'gpu=1' in 'a,gpu=1': expected NAME[:N]"),
        (["--role", "a,gpus=-1"], "'-1' in 'a,gpus=-1' is no number of at least 0"),
        (["--role", "a,gpus=1,gpus=2"], "'gpus=2' in"),
        (["--role", "a,memory=4"], "4 is less than a megabyte"),
        (["--role", "a", "--workers", "2"], "--workers and --role cannot be meant together"),
        (["--role", "a", "--elastic", "1:2"], "--elastic and --role cannot be meant together"),
        (["--role", "a", "--until", "b"], "--until: there is no role b"),
        (["--until", "workers"], "--until: there is no role workers"),
        (["--start-timeout", "soon"], "--start-timeout: time: invalid duration"),
        (["--start-timeout", "100ms"], "--start-timeout: 100ms: from 1s"),
        (["--start-timeout", "9s", "--elastic", "1:2"], "the workers of an elastic job do not wait for each other"),
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
    [container] = template(json.loads(done.stdout))["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [word for word in arguments if word != "--"]


def roles(*arguments):
    done = CliRunner().invoke(command, ["--dry-run", "-o", "json", *arguments])
    if done.exit_code:
        return done.stderr.splitlines()[-1]
    found = json.loads(done.stdout)
    return {
        role["name"]: (
            role["template"]["spec"]["completions"],
            role["template"]["spec"]["template"]["spec"]["containers"][0]["command"][-1],
        )
        for role in found["spec"]["replicatedJobs"]
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--role a --role b:3 -- x", {"a": (1, "x"), "b": (3, "x")}),
        ("--role a -- x : --role b:2 -- y", {"a": (1, "x"), "b": (2, "y")}),
        ("--role a x : --role=b y : --role c -- z", {"a": (1, "x"), "b": (1, "y"), "c": (1, "z")}),
        ("--role a -- x : --role b --role c:4 -- y", {"a": (1, "x"), "b": (1, "y"), "c": (4, "y")}),
        # A colon that no role follows is a word like any other.
        ("--role a -- x :", {"a": (1, ":")}),
        ("-- x : --rolex", {"workers": (1, "--rolex")}),
        ("-- x : --role b -- y", "Error: the first command needs a --role as well"),
        ("--role a -- x : --role", "Error: --role wants NAME[:N][,cpus=Q][,memory=Q][,gpus=N]"),
        ("--role a -- x : --role b", "Error: role b has no command"),
        ("--role a -- x : --role b --", "Error: role b has no command"),
        (
            "--role a -- x : --role b --name n -- y",
            "Error: --name: behind a colon there is only --role; other options go before the first",
        ),
    ],
)
def test_roles_and_their_commands(line, expected):
    assert roles(*line.split()) == expected


def test_what_is_asked_for_all_roles_holds_where_one_says_nothing_else():
    done = dry_run("--cpus", "2", "--gpus", "1", "--role", "a,gpus=0", "--role", "b,cpus=500m,memory=1Gi")
    found = json.loads(done.stdout)
    asked = [template(found, role)["spec"]["template"]["spec"]["containers"][0]["resources"] for role in range(2)]
    assert asked == [
        {"requests": {"cpu": "2"}},
        {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": 1}},
    ]


def test_a_working_directory_that_is_gone_is_said(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = CliRunner().invoke(command, ["--dry-run", "--", "true"])
    assert done.exit_code == 1
    assert "the working directory is no longer there" in done.stderr
