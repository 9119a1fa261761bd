"""Scripts with #SBATCH lines on the command line."""

import json
import shlex

import pytest
from click.testing import CliRunner

from muster.cli.commands.submission.run import command
from muster.cli.main import cli

TEXT = """\
#!/bin/bash
#SBATCH --job-name=My_Run
#SBATCH --nodes=2 --ntasks-per-node=2 -c 3
#SBATCH --mem=4G --gres=gpu:2 -t 90 -A lab --mail-type=END
srun train $1
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text(TEXT)
    return tmp_path


def submitted(*arguments):
    """The job that would be submitted, its container, and what was said."""
    done = CliRunner().invoke(command, ["--dry-run", "-o", "json", *arguments])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    document = found["items"][-1] if found["kind"] == "List" else found
    job = document["spec"]
    if "replicatedJobs" in job:
        job = job["replicatedJobs"][0]["template"]["spec"]
    return document["metadata"], job, job["template"]["spec"]["containers"][0], done.stderr


def allocation(container):
    [line] = [word for word in container["command"] if "batch-job" in word]
    words = shlex.split(line)
    return json.loads(words[words.index("--allocation") + 1])


def refused(*arguments):
    done = CliRunner().invoke(cli, ["run", "--dry-run", *arguments], prog_name="muster")
    assert done.exit_code == 2
    assert done.stdout == ""
    return done.stderr.splitlines()[-1]


def test_its_lines_are_what_the_job_asks_for_and_its_text_is_the_command():
    metadata, job, container, said = submitted("job.sh", "x")
    assert metadata["name"].startswith("my-run-")
    assert (job["completions"], job["activeDeadlineSeconds"]) == (2, 5400)
    assert container["resources"] == {
        "requests": {"cpu": "6", "memory": "4096Mi"},
        "limits": {"cpu": "6", "memory": "4096Mi", "nvidia.com/gpu": 2},
    }
    assert container["command"][-5:] == ["/bin/bash", "-c", TEXT, "job.sh", "x"]
    assert (
        said
        == "job.sh: ignored: --account (quota belongs to queues), --mail-type (no --mail-user says where mail goes)\n"
    )


def test_the_worker_is_told_what_the_script_finds(here):
    metadata, _, container, _ = submitted("job.sh")
    found = allocation(container)
    assert 0 < found.pop("id") <= 1 << 28
    assert found == {
        "batch": {"name": "My_Run", "nodes": 2, "tasks": 4},
        "cpus": 6,
        "memory": 4096,
        "gpus": 2,
        "time_limit": 5400,
        "hosts": f"{metadata['name']}-workers-0-{{}}.{metadata['name']}",
        "directory": str(here),
    }


def test_the_script_runs_once_and_its_tasks_get_their_ranks_from_srun():
    _, _, container, _ = submitted("job.sh")
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert any("mpi-agent" in word and "--slots 2" in word for word in container["command"])
    assert "MASTER_ADDR" in told
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & told.keys()
    assert told["OMP_NUM_THREADS"] == "3"


def test_two_runs_of_one_script_are_two_jobs():
    first, second = (submitted("job.sh") for _ in range(2))
    assert first[0]["name"] != second[0]["name"]
    assert allocation(first[2])["id"] != allocation(second[2])["id"]


def test_the_command_line_wins_over_the_lines():
    metadata, job, container, _ = submitted("-w", "3", "-t", "1h", "--name", "n", "--cpus", "8", "job.sh")
    assert (metadata["name"], job["completions"], job["activeDeadlineSeconds"]) == ("n", 3, 3600)
    found = allocation(container)
    assert found["batch"] == {"name": "My_Run", "nodes": 3, "tasks": 6}
    assert (found["cpus"], found["time_limit"]) == (8, 3600)


def test_a_script_with_one_task_needs_no_agents(here):
    (here / "job.sh").write_text("#!/bin/sh\n#SBATCH -t 5\necho\n")
    metadata, job, container, said = submitted("job.sh")
    assert (job["completions"], said) == (1, "")
    assert metadata["name"].startswith("job-")
    assert not any("mpi-agent" in word for word in container["command"])
    assert allocation(container)["batch"] == {"name": "job.sh"}


def test_a_signal_counts_from_the_time_limit_of_the_command_line(here):
    (here / "job.sh").write_text("#!/bin/sh\n#SBATCH --signal=B:USR1@60\necho\n")
    _, job, container, said = submitted("-t", "10m", "job.sh")
    assert (job["activeDeadlineSeconds"], said) == (600, "")
    assert "USR1" in str(container["command"])


def test_an_array_is_a_sweep(here):
    (here / "job.sh").write_text("#!/bin/sh\n#SBATCH --array=0-8:2%2 -c 2\necho\n")
    _, job, container, _ = submitted("job.sh")
    assert (job["completions"], job["parallelism"]) == (5, 2)
    assert allocation(container)["trials"] == {"count": 5, "least": 0, "most": 8, "step": 2}


def test_beside_lines_of_muster_those_of_slurm_are_comments(here):
    (here / "job.sh").write_text("#!/bin/sh\n#SBATCH -N 4 --nonsense\n#MUSTER -w 2\necho\n")
    _, job, container, _ = submitted("job.sh")
    assert job["completions"] == 2
    assert not any("batch-job" in word for word in container["command"])


def test_an_image_needs_muster_too():
    _, _, container, _ = submitted("--image", "python:3.12", "job.sh")
    [line] = [word for word in container["command"] if "batch-job" in word]
    assert line.startswith("command -v muster >/dev/null || ")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("--ntask 3", "Error: job.sh, line 2: Muster does not know --ntask of sbatch; did you mean --ntasks?"),
        (
            "--begin=soon",
            (
                "Error: job.sh, line 2: --begin: 'soon' is no time: now+2hours, 16:00, noon, 2026-01-31 or "
                "2026-01-31T16:00"
            ),
        ),
        ("--mem 4X", "Error: job.sh, line 2: --mem: '4X' is no memory, as 4000 (MB), 512M or 16G"),
        ("-a 5-1", "Error: job.sh, line 2: --array: 5-1: the range ends before it begins; say 1-5"),
        ("-J 'x", "Error: job.sh, line 2: no closing quotation"),
        ("train.py", "Error: job.sh, line 2: 'train.py' is no option; the command is the script itself"),
    ],
)
def test_a_line_that_cannot_be_followed_is_refused_and_nothing_is_made(here, line, complaint):
    (here / "job.sh").write_text(f"#!/bin/sh\n#SBATCH {line}\n")
    assert refused("job.sh") == complaint


def test_a_script_runs_on_no_schedule(here):
    (here / "job.sh").write_text("#!/bin/sh\n#SBATCH -t 5\n")
    expected = "Error: --cron: a script with #SBATCH lines is one job with a number; give --cron its command"
    assert refused("--cron", "0 3 * * *", "job.sh") == expected


@pytest.mark.parametrize("option", [["--elastic", "1:2"], ["--role", "a"]])
def test_nodes_are_a_fixed_number_and_alike(here, option):
    (here / "job.sh").write_text("#!/bin/sh\n#SBATCH -t 5\n")
    expected = f"Error: {option[0]}: a script with #SBATCH lines has a fixed number of nodes, all alike"
    assert refused(*option, "job.sh") == expected
