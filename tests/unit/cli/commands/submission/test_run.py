"""What the options of `muster run` make of the manifest."""

import json

import pytest
from click.testing import CliRunner

from muster.cli.commands.submission.run import command

OVER = "your value replaces the one that muster run gives each worker"


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


@pytest.mark.parametrize(
    ("options", "resources"),
    [
        ([], {"requests": {"cpu": "1"}}),
        (["--cpus", "2"], {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}),
        (["--cpus", "0"], {"requests": {"cpu": "0"}}),
        (["--gpus", "1"], {"limits": {"nvidia.com/gpu": 1}}),
    ],
)
def test_a_trial_has_a_processor_unless_it_asks_for_something_else(options, resources):
    found = json.loads(dry_run("--array", "0-3", *options).stdout)
    assert found["kind"] == "Job"  # and no Service
    [container] = found["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == resources


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
        (["--memory", "4GB"], "'--memory': '4GB' is no quantity; write it as 512Mi or 32Gi"),
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
        (["--role", "a,gpus=-1"], "'-1' is no number of GPUs"),
        (["--role", "a,gpus=1,gpus=2"], "'gpus=2' in"),
        (["--role", "a,memory=4"], "4 is less than a megabyte"),
        (["--role", "a", "--workers", "2"], "--workers and --role exclude each other"),
        (["--role", "a", "--elastic", "1:2"], "--elastic and --role exclude each other"),
        (["--role", "a", "--until", "b"], "--until: there is no role b"),
        (["--until", "workers"], "--until: there is no role workers"),
        (["--start-timeout", "soon"], "--start-timeout: time: invalid duration"),
        (["--start-timeout", "100ms"], "--start-timeout: 100ms: it is from 1s to 68 years"),
        (["--start-timeout", "600000h"], "--start-timeout: 600000h: it is from 1s to 68 years"),
        (["--start-timeout", "9999999h"], "it is from 1s to 68 years, as 90s or 10m"),
        (["--name", ""], "'--name': it is empty; without a value leave it out"),
        (["--queue="], "'--queue': it is empty"),
        (["--time", "90"], "'--time': 90 of what? Say 90s, 90m or 90h"),
        (["--signal", "USR1@60"], "--signal: a signal needs a time limit: add --time"),
        (["-t", "1h", "--signal", "USR1", "--elastic", "1:2"], "workers of an elastic job start at different times"),
        (["--retries", "-1"], "'--retries': -1 is not in the range"),
        (["--label", "a"], "--label: 'a': expected KEY=VALUE"),
        (["--label", "=b"], "--label: '=b': expected KEY=VALUE"),
        (["--label", "a=b c"], "--label: 'a=b c': a valid label must be"),
        (["--label", "kueue.x-k8s.io/queue-name=q"], "kueue.x-k8s.io/queue-name is set by --queue: use that option"),
        (["--annotation", "a b=c"], "--annotation: 'a b': "),
        (["--annotation", "a=" + "x" * (256 << 10)], "the annotations have more than 262144 bytes"),
        (["--secret", "A B"], "--secret: 'A B': expected NAME or NAME=KEY; "),
        (["--secret", "a="], "--secret: 'a=': expected NAME or NAME=KEY; "),
        (["--env-file", "/nowhere/.env"], "--env-file: /nowhere/.env: No such file or directory"),
        (["--env-file", "/"], "--env-file: /: Is a directory"),
        (["--image", "x", "--workdir", "y"], "--workdir: y: in an image the directory must begin with /"),
        (["--array", "5-1"], "--array: 5-1: the range ends before it begins; say 1-5"),
        (["--array", "0-3", "--grid", "lr=1,2"], "--array: 3 is beyond the grid, whose 2 combinations are 0-1"),
        (["--grid", "lr"], "--grid: 'lr' is not NAME=VALUE,VALUE..., as lr=0.1,0.01"),
        (["--grid", "lr=1", "--env", "lr=2"], "lr is given by --grid and by --env: leave one out"),
        (["--array", "0-3", "--workers", "2"], "--workers and --array exclude each other"),
        (["--grid", "a=1", "--role", "a"], "--role and --grid exclude each other"),
        (["--array", "0-3", "--start-timeout", "9s"], "--start-timeout and --array exclude each other"),
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
        (["-o", "json", "--", "true"], "-o needs --dry-run: without it there is nothing to print"),
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-e", "A=1", "-e", "PYTHONPATH=/x", "-e", "OMP_NUM_THREADS=2", "-e", "MASTER_PORT=1234"], ""),
        (["-e", "RANK=7", "-e", "WORLD_SIZE=9"], f"--env RANK, WORLD_SIZE: {OVER}\n"),
        (["-e", "MUSTER_ROLE=a"], ""),
        (["-e", "MUSTER_ROLE=a", "--role", "a", "--role", "b"], f"--env MUSTER_ROLE: {OVER}\n"),
        (["-e", "MUSTER_WORLD=a", "--elastic", "1:2"], f"--env MUSTER_WORLD: {OVER}\n"),
    ],
)
def test_a_variable_that_tells_a_worker_who_it_is_is_not_replaced_in_silence(options, said):
    done = dry_run(*options)
    assert (done.exit_code, done.stderr) == (0, said)


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


BEHIND = "Error: behind a colon comes --role NAME -- COMMAND; for a word of the command, write it within sh -c '...'"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--role a --role b:3 -- x", {"a": (1, "x"), "b": (3, "x")}),
        ("--role a -- x : --role b:2 -- y", {"a": (1, "x"), "b": (2, "y")}),
        ("--role a x : --role=b y : --role c -- z", {"a": (1, "x"), "b": (1, "y"), "c": (1, "z")}),
        ("--role a -- x : --role b --role c:4 -- y", {"a": (1, "x"), "b": (1, "y"), "c": (4, "y")}),
        # Without roles a colon is a word like any other.
        ("-- x :", {"workers": (1, ":")}),
        ("-- x : --rolex", {"workers": (1, "--rolex")}),
        ("--role a : x", BEHIND),
        ("-- : x", BEHIND),
        ("--role a -- x : y", BEHIND),
        ("--role a -- x : -- y", BEHIND),
        ("--role a -- x :", BEHIND),
        ("--role a -- x : --role b -- y : z", BEHIND),
        ("-- x : --role b -- y", "Error: the first command needs a --role as well"),
        ("--role a -- x : --role", "Error: --role wants NAME[:N][,cpus=Q][,memory=Q][,gpus=N]"),
        ("--role a -- x : --role b", "Error: role b has no command"),
        ("--role a -- x : --role b --", "Error: role b has no command"),
        (
            "--role a -- x : --role b --name n -- y",
            "Error: --name: only --role may follow a colon; move other options before the first colon",
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
        {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
        {
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 1},
        },
    ]


def test_a_working_directory_that_is_gone_is_said(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = CliRunner().invoke(command, ["--dry-run", "--", "true"])
    assert done.exit_code == 1
    assert "the working directory is no longer there" in done.stderr


def container(*options):
    found = json.loads(dry_run(*options).stdout)
    return template(found)["spec"]["template"]["spec"]["containers"][0]


def test_variables_come_from_files_and_options_win(tmp_path):
    (tmp_path / "a").write_text("A=1\nB='two'\n")
    (tmp_path / "b").write_text("B=3\nC=4\n")
    found = container("--env-file", f"{tmp_path}/a", "--env-file", f"{tmp_path}/b", "--env", "C=5")
    said = {one["name"]: one.get("value") for one in found["env"]}
    assert (said["A"], said["B"], said["C"]) == ("1", "3", "5")


@pytest.mark.parametrize(
    ("given", "where"), [("/x/y", "/x/y"), ("sub", "{}/sub"), ("../x", "{0.parent}/x"), (".", "{}")]
)
def test_the_working_directory_may_be_another(given, where, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert container("--workdir", given)["workingDir"] == where.format(tmp_path)


def mpi_run(*options, command_words=("mpirun", "python", "a.py")):
    return CliRunner().invoke(command, ["--dry-run", "-o", "json", *options, "--", *command_words])


@pytest.mark.parametrize(
    ("options", "words", "launches"),
    [
        (["--workers", "8"], ["mpirun", "python", "a.py"], True),
        (["--workers", "8"], ["/opt/bin/mpiexec.hydra", "a.out"], True),
        (["--workers", "8", "--no-mpi"], ["mpirun", "python", "a.py"], False),
        (["--workers", "8"], ["python", "a.py"], False),
        (["--workers", "8", "--mpi"], ["./job.sh"], True),
        ([], ["mpirun", "python", "a.py"], False),
        (["--role", "a:2"], ["mpirun", "python", "a.py"], False),
        (["--array", "0-3"], ["mpirun", "python", "a.py"], False),
    ],
)
def test_mpirun_over_several_workers_runs_on_rank_0_alone(options, words, launches):
    found = json.loads(mpi_run(*options, command_words=words).stdout)
    documents = found.get("items", [found])
    assert [one["kind"] for one in documents] == ["Secret", "JobSet"] if launches else documents[0]["kind"] != "Secret"
    assert ("mpi-agent" in json.dumps(documents[-1])) is launches


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ["--elastic", "2:4"],
            "--elastic: mpirun needs a fixed number of workers (--no-mpi: each worker runs the command)",
        ),
        (["--mpi", "--elastic", "2:4"], "--mpi and --elastic exclude each other"),
        (["--mpi", "--array", "0-3"], "--mpi and --array exclude each other"),
        (["--mpi", "--role", "a:2"], "--mpi and --role exclude each other"),
    ],
)
def test_what_mpirun_cannot_start_over_is_refused(options, complaint):
    done = mpi_run(*options)
    assert done.exit_code == 2
    assert complaint in " ".join(done.stderr.replace("│", " ").split())
