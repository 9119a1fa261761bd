"""Time limits, signals before them, retries of the whole gang, and what outlives its attempts."""

import json
import os
import re
import signal
import time

import pytest

pytestmark = pytest.mark.timeout(300)


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.5)


def test_a_job_that_runs_into_its_time_limit_says_so(shared_up):
    done = shared_up("run", "--name", "long", "--workers", "2", "--time", "3s", "--", "sleep", "1000", check=False)
    assert done.returncode == 124
    assert "long: failed: it ran into its time limit of 3s" in done.stderr
    assert shared_up("wait", "long", check=False).returncode == 124
    assert "it ran into its time limit of 3s" in shared_up("ps").stdout


def test_time_that_ran_out_is_not_tried_again(shared_up):
    done = shared_up(
        "run", "--time", "2s", "--retries", "5", "--", "sh", "-c", "echo $MUSTER_ATTEMPT; sleep 1000", check=False
    )
    assert (done.returncode, done.stdout) == (124, "0\n")


def test_every_worker_gets_the_signal_and_its_own_exit_code_stays(shared_up):
    script = "trap 'echo saved; exit 0' USR1; while :; do sleep 0.1; done"
    done = shared_up("run", "--workers", "2", "--time", "60s", "--signal", "USR1@58", "--", "sh", "-c", script)
    assert sorted(done.stdout.splitlines()) == ["[0] saved", "[1] saved"]


def test_a_failed_rank_starts_all_of_them_anew(shared_up, tmp_path):
    # Rank 1 fails once both have begun; rank 0 would run for ever if it were not started anew as well.
    script = f"""
    echo attempt $MUSTER_ATTEMPT
    touch {tmp_path}/$RANK-$MUSTER_ATTEMPT
    while [ ! -e {tmp_path}/0-$MUSTER_ATTEMPT ] || [ ! -e {tmp_path}/1-$MUSTER_ATTEMPT ]; do sleep 0.1; done
    [ $MUSTER_ATTEMPT = 2 ] && exit 0
    [ $RANK = 1 ] && exit 3
    sleep 1000
    """
    done = shared_up("run", "--workers", "2", "--retries", "2", "--", "sh", "-c", script)
    assert sorted(done.stdout.splitlines()) == sorted(f"[{rank}] attempt {n}" for rank in (0, 1) for n in (0, 1, 2))
    assert "it was restarted 2 times" in done.stderr


def test_when_all_retries_are_used_up_the_last_failure_counts(shared_up):
    done = shared_up("run", "--retries", "1", "--", "sh", "-c", "exit $((5 + MUSTER_ATTEMPT))", check=False)
    assert done.returncode == 6
    assert "it had been restarted once" in done.stderr


def test_a_worker_that_is_killed_goes_on_from_what_it_had_kept(up):
    script = "echo x >> $MUSTER_STATE/steps; wc -l < $MUSTER_STATE/steps; [ $MUSTER_ATTEMPT = 1 ] || kill -9 $$"
    done = up("run", "--name", "train", "--retries", "1", "--", "sh", "-c", script)
    assert done.stdout.split() == ["1", "2"]
    [kept] = (up.home / "state").iterdir()
    assert (kept / "steps").read_text() == "x\nx\n"
    # It outlives the server as well, and goes with the job, also if that goes while no node looks.
    os.kill(int(up("status").stdout.split("process ")[1].split()[0].rstrip(",")), signal.SIGKILL)
    up("up", "--detach", "--port", "0")
    assert (kept / "steps").exists()
    up("cancel", "--delete", "train")
    until(lambda: not list((up.home / "state").iterdir()))


def test_a_job_that_is_preempted_or_held_finds_what_it_kept(shared_up, tmp_path):
    script = f"echo x >> $MUSTER_STATE/n; cp $MUSTER_STATE/n {tmp_path}/n; sleep 1000"
    shared_up("run", "-d", "--name", "train", "--", "sh", "-c", script)
    seen = tmp_path / "n"
    until(lambda: seen.exists() and seen.read_text() == "x\n")
    shared_up("hold", "train")
    shared_up("release", "train")
    until(lambda: seen.read_text() == "x\nx\n")


def test_secrets_that_are_not_there_are_named_before_anything_is_submitted(up):
    done = up("run", "--secret", "wandb=KEY", "--", "true", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no Secret wandb in namespace default; make it with: kubectl create secret" in done.stderr
    assert up("ps").stdout == ""


def test_secrets_files_of_variables_and_another_directory(shared_up, tmp_path):
    (tmp_path / "secret.json").write_text(
        '{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"KEY": "k", "OTHER": "o"}}'
    )
    shared_up("apply", "-f", str(tmp_path / "secret.json"))
    (tmp_path / ".env").write_text("A='1 2'\n")
    show = 'echo "$A $KEY $OTHER"; pwd'
    options = ["--env-file", str(tmp_path / ".env"), "--workdir", str(tmp_path)]
    one = shared_up("run", "--secret", "s=KEY", *options, "--", "sh", "-c", show).stdout
    assert one == f"1 2 k \n{tmp_path}\n"
    both = shared_up("run", "--secret", "s", *options, "--", "sh", "-c", show).stdout
    assert both == f"1 2 k o\n{tmp_path}\n"
    assert "it has: KEY, OTHER" in shared_up("run", "--secret", "s=X", "--", "true", check=False).stderr


def test_a_directory_that_is_not_there_is_said(muster):
    done = muster("run", "--workdir", "/nowhere", "--", "true", check=False)
    assert done.returncode != 0
    assert "/nowhere" in done.stderr


def test_no_other_job_runs_beside_one_that_is_exclusive(up):
    up("run", "-d", "--name", "alone", "--exclusive", "--workers", "2", "--", "sleep", "1000")
    until(lambda: "Running" in up("ps", "alone").stdout)
    up("run", "-d", "--name", "other", "--", "true")
    until(lambda: "anti-affinity" in up("ps", "other").stdout)
    up("cancel", "alone")
    assert up("wait", "other").returncode == 0


SCRIPT = """#!/bin/bash
#MUSTER --workers 2 --time 10m   # as sbatch has them
#MUSTER --retries 1 --env GREETING=hello
echo "$GREETING $1 from $(basename "$0"), $MUSTER_ATTEMPT"
exit $((MUSTER_ATTEMPT == 0))
"""


def test_a_script_is_a_job_with_the_options_of_its_lines(shared_up, tmp_path):
    (tmp_path / "job.sh").write_text(SCRIPT)
    done = shared_up("run", "--env", "GREETING=bye", str(tmp_path / "job.sh"), "you")
    assert "[0] bye you from job.sh, 1" in done.stdout
    assert "[1] bye you from job.sh, 1" in done.stdout


@pytest.mark.parametrize("words", [[], ["-"]])
def test_a_script_comes_by_the_standard_input(shared_up, words):
    done = shared_up("run", "-w", "1", *words, input=SCRIPT)
    assert "hello  from script, 1\n" in done.stdout


def test_a_script_that_is_submitted_runs_as_it_was(shared_up, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(f"#MUSTER --name spooled\nuntil [ -e {tmp_path}/go ]; do sleep 0.1; done\necho as it was\n")
    shared_up("run", "-d", str(script))
    script.write_text("echo changed\n")
    (tmp_path / "go").touch()
    shared_up("wait", "spooled")
    assert shared_up("logs", "spooled").stdout == "as it was\n"


def test_without_a_command_and_without_input_it_says_what_is_missing(muster):
    done = muster("run", "-w", "2", check=False)
    assert done.returncode == 2
    assert "Missing argument" in done.stderr
    assert "the script on the standard input is empty" in muster("run", "-", check=False).stderr


def test_the_example_goes_on_where_it_was_when_it_is_killed(up):
    steps = {"STEPS": "6", "STEP_SECONDS": "0.4"}
    given = [word for pair in steps.items() for word in ("--env", "=".join(pair))]
    up("run", "-d", "--name", "resume", "-w", "2", "--retries", "3", *given, "--", "python", "examples/resume.py")
    until(lambda: [*up.home.glob("state/*")])
    [kept] = up.home.glob("state/*")
    ranks = [kept / f"rank-{rank}.json" for rank in range(2)]
    until(lambda: all(file.exists() and json.loads(file.read_text())["step"] >= 2 for file in ranks))
    worker = next(pid for pid, words in up.processes().items() if words.startswith("python examples/resume.py"))
    os.kill(worker, signal.SIGKILL)
    assert up("wait", "resume").returncode == 0
    printed = up("logs", "resume").stdout
    assert printed.count("kept 6 of 6 steps, weight 0.9844") == 2
    begun = [int(step) for step in re.findall(r"attempt 1 begins at step (\d+)", printed)]
    assert len(begun) == 2
    assert min(begun) >= 2


def test_the_example_ends_well_before_its_time_is_up(shared_up):
    done = shared_up(
        "run", "-t", "60s", "--signal", "USR1@57", "--env", "STEPS=1000", "--", "python", "examples/resume.py"
    )
    assert re.search(r"kept \d+ of 1000 steps", done.stdout)
