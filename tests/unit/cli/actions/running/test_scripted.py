"""Job scripts on the command line."""

import json
import os

import pytest
from click.testing import CliRunner

from muster.cli.commands.submission.run import command
from muster.cli.main import cli


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(text, name="job.sh"):
    with open(name, "w") as file:
        file.write(text)


def submitted(*arguments):
    done = CliRunner().invoke(command, ["--dry-run", "-o", "json", *arguments])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    job = found["spec"]["replicatedJobs"][0]["template"]["spec"]
    container = job["template"]["spec"]["containers"][0]
    return found, job, container


def refused(*arguments):
    done = CliRunner().invoke(cli, ["run", "--dry-run", *arguments], prog_name="muster")
    assert done.exit_code == 2
    return done.stderr.splitlines()[-1]


TEXT = "#!/bin/bash\n#MUSTER --workers 4 --time 2h -e A=1 -e B=1\n#MUSTER --label a=b --exclusive\ntrain $1\n"


def test_its_lines_are_options_and_its_text_is_the_command():
    script(TEXT)
    found, job, container = submitted("job.sh", "x", "--workers", "9")
    assert (job["completions"], job["activeDeadlineSeconds"]) == (4, 7200)
    assert container["command"] == ["/bin/bash", "-c", TEXT, "job.sh", "x", "--workers", "9"]
    assert found["metadata"]["labels"] == {"a": "b"}
    assert found["metadata"]["name"].startswith("job-")
    assert "podAntiAffinity" in job["template"]["spec"]["affinity"]


def test_the_command_line_wins_over_the_lines():
    script(TEXT)
    found, job, container = submitted("-w", "2", "-t", "1h", "-e", "B=2", "--name", "n", "--", "job.sh")
    assert (job["completions"], job["activeDeadlineSeconds"], found["metadata"]["name"]) == (2, 3600, "n")
    said = {one["name"]: one.get("value") for one in container["env"]}
    assert (said["A"], said["B"]) == ("1", "2")


def test_roles_of_the_command_line_take_the_place_of_those_of_the_lines():
    script("#MUSTER --role a --role b\n")
    found, _, _ = submitted("--role", "c", "job.sh")
    assert [role["name"] for role in found["spec"]["replicatedJobs"]] == ["c"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("--ntasks 3", "Error: job.sh, line 2: no such option: --ntasks; did you mean --workers?"),
        (
            "--workers x",
            "Error: job.sh, line 2: Invalid value for '-w' / '--workers': 'x' is not a valid integer range.",
        ),
        ("--time 90", "Error: job.sh, line 2: Invalid value for '-t' / '--time': 90 of what? Say 90s, 90m or 90h"),
        ("--workers", "Error: job.sh, line 2: Option '--workers' requires an argument."),
        ("-w 2 train.py", "Error: job.sh, line 2: 'train.py' is no option; the command is the script itself"),
        ("--help", "Error: job.sh, line 2: no such option: --help"),
        ("--name 'x", "Error: job.sh, line 2: no closing quotation"),
    ],
)
def test_a_line_that_says_nothing_is_named(line, complaint):
    script(f"#!/bin/sh\n#MUSTER {line}\n")
    assert refused("job.sh") == complaint


def test_a_file_without_lines_is_a_command_if_it_can_be_one(here, monkeypatch):
    (here / "sub").mkdir()
    script("#!/bin/sh\necho\n", "sub/job.sh")
    script("#!/bin/sh\necho\n")
    for word in ("job.sh", "./job.sh", "sub/job.sh", str(here / "job.sh")):
        assert submitted(word)[2]["command"] == ["/bin/sh", "-c", "#!/bin/sh\necho\n", "job.sh"], word
    (here / "job.sh").chmod(0o700)
    monkeypatch.setenv("PATH", str(here))
    for word in ("job.sh", "./job.sh", str(here / "job.sh")):
        assert submitted(word)[2]["command"] == [word]


@pytest.mark.parametrize("word", ["job", "sub", "x" * 5000, "a\0b"])
def test_what_is_no_script_stays_a_command(here, word):
    (here / "job").write_bytes(b"\x7fELF" + b"\xff" * 1000)
    (here / "sub").mkdir()
    assert submitted(word)[2]["command"] == [word]


@pytest.mark.parametrize(("name", "how"), [("a b.py", "python 'a b.py'"), ("job.sh", "sh job.sh")])
def test_of_a_file_that_nothing_here_would_find_it_is_said_how_it_is_run(here, monkeypatch, name, how):
    """And no more: an image may have a program of that name."""
    script("echo\n", name)

    def said(word):
        done = CliRunner().invoke(command, ["--dry-run", word])
        assert done.exit_code == 0
        return done.stderr

    hint = f"{name}: no program of that name is on PATH here; if the file is meant: {how}, or begin it with #!\n"
    assert said(name) == hint
    how = how.replace(name, f"./{name}")
    assert said(f"./{name}") == f"./{name}: you may not execute the file here; run it by {how}, or begin it with #!\n"
    (here / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(here))
    assert (said(name), said(f"./{name}")) == ("", "")


def test_nothing_waits_for_a_pipe_of_that_name(here):
    os.mkfifo(here / "pipe")
    assert submitted("./pipe")[2]["command"] == ["./pipe"]


def test_later_edits_of_the_file_do_not_matter(here):
    script(TEXT)
    before = submitted("job.sh")[2]["command"]
    (here / "job.sh").write_text("other")
    assert TEXT in before


def test_python_has_its_arguments(here):
    script("#!/usr/bin/env python\n#MUSTER -w 2\nprint()\n", "t.py")
    assert submitted("t.py", "a")[2]["command"][:3] == ["/usr/bin/env", "python", "-c"]


@pytest.mark.parametrize("program", ["Rscript", "tcsh", "awk -f"])
def test_the_lines_of_sbatch_are_comments_in_a_script_that_no_job_can_carry(here, program):
    script(f"#!/usr/bin/env -S {program}\n#SBATCH -n 4\n")
    (here / "job.sh").chmod(0o700)
    _, job, container = submitted("./job.sh", "x")
    assert (job["completions"], container["command"]) == (1, ["./job.sh", "x"])


def test_that_the_lines_of_sbatch_are_comments_is_said(here):
    script("#!/usr/bin/Rscript\n#SBATCH -n 4\n")
    (here / "job.sh").chmod(0o700)
    done = CliRunner().invoke(command, ["--dry-run", "./job.sh"])
    assert "job.sh: its #SBATCH lines are comments here: a job cannot carry the text of a script for Rscript" in (
        done.stderr
    )
