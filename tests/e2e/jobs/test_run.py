"""`muster run`, as a user does it: no cluster before, none afterwards."""

import importlib.util
import re
import signal
import subprocess
import sys

import pytest
import yaml
from tests.e2e.sharing.heldanswers import held_answers


def test_the_readme_command_trains_a_model(muster):
    done = muster("run", "--workers", "4", "--", "python", "examples/train_digits.py", timeout=120)
    verdicts = re.findall(r"^\[(\d)\] accuracy (\S+)  weights (\w+) bit-identical", done.stdout, re.MULTILINE)
    assert sorted(rank for rank, _, _ in verdicts) == list("0123")
    assert len({weights for _, _, weights in verdicts}) == 1
    assert all(float(accuracy) > 0.9 for _, accuracy, _ in verdicts)
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", done.stdout)]
    assert losses[-1] < losses[0] / 2


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.timeout(240)
def test_torch_distributed_starts_with_no_flags(muster):
    done = muster("run", "--workers", "2", "--", "python", "examples/train_torch.py", timeout=200)
    assert done.stdout.count("bit-identical on all workers") == 2


@pytest.mark.parametrize("code", [0, 42])
def test_the_exit_code_is_the_jobs(muster, code):
    assert muster("run", "--", "sh", "-c", f"exit {code}", check=False).returncode == code


def test_one_worker_prints_as_if_it_ran_alone(muster):
    assert muster("run", "--", "sh", "-c", "echo out; echo more").stdout == "out\nmore\n"


def test_a_last_line_without_an_end_is_printed(shared_up):
    assert shared_up("run", "--", "printf", "hi").stdout == "hi"


def test_progress_bars_and_long_lines_are_printed_as_they_are(shared_up):
    script = "import sys; sys.stdout.buffer.write(b'10%\\r20%\\r100% done\\n' + b'x' * 50000 + b'\\nnext\\n')"
    command = [shared_up.command, "run", "--", "python", "-c", script]
    done = subprocess.run(command, env=shared_up.env(), capture_output=True, check=True, timeout=60)
    assert done.stdout == b"10%\r20%\r100% done\n" + b"x" * 50000 + b"\nnext\n"


def test_when_nobody_reads_any_more_it_ends(muster):
    process = muster.start("run", "--", "sh", "-c", "while echo hello; do sleep 0.01; done")
    assert process.stdout.readline() == "hello\n"
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert process.returncode == 141
    assert "Traceback" not in err
    assert "Exception" not in err


def test_workers_know_their_place(shared_up):
    script = 'echo "$RANK of $WORLD_SIZE at $MASTER_ADDR, $LOCAL_RANK, $(hostname)"'
    done = shared_up("run", "--workers", "2", "--name", "place", "--", "sh", "-c", script)
    assert sorted(done.stdout.splitlines()) == [
        "[0] 0 of 2 at place-workers-0-0.place, 0, place-workers-0-0",
        "[1] 1 of 2 at place-workers-0-0.place, 0, place-workers-0-1",
    ]


def test_workers_get_the_environment_they_ask_for_and_no_more(muster):
    muster.environment = {"SECRET": "x", "WANTED": "from the caller"}
    script = 'echo "$A,$WANTED,${SECRET-unset}"'
    done = muster("run", "--env", "A=1=2", "--env", "WANTED", "--", "sh", "-c", script)
    assert done.stdout == "1=2,from the caller,unset\n"


def test_when_one_fails_all_end(shared_up):
    script = 'if [ "$RANK" = 1 ]; then exit 7; fi; sleep 1000'
    assert shared_up("run", "--workers", "3", "--", "sh", "-c", script, check=False).returncode == 7


def test_ctrl_c_ends_the_workers_gracefully(muster):
    script = "trap 'echo ending; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    process = muster.start("run", "--workers", "2", "--", "sh", "-c", script)
    try:
        started = [process.stdout.readline() for _ in range(2)]
        assert sorted(started) == ["[0] started\n", "[1] started\n"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert sorted(out.splitlines()) == ["[0] ending", "[1] ending"]
    assert "cancelling" in err
    assert process.returncode == 130
    assert not muster.processes()


def test_a_second_ctrl_c_leaves_at_once(muster):
    script = "trap : TERM; echo started; while :; do sleep 0.05; done"
    process = muster.start("run", "--workers", "2", "--", "sh", "-c", script)
    try:
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert "again to leave at once" in "".join(process.stderr.readline() for _ in range(2))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=15)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not muster.processes()


def test_nothing_survives_a_killed_run(muster):
    process = muster.start("run", "--workers", "2", "--", "sh", "-c", "echo started; sleep 1000")
    try:
        for _ in range(2):
            process.stdout.readline()
    finally:
        process.kill()
        process.communicate()
    limit = 200
    while muster.processes() and limit:
        limit -= 1
        subprocess.run(["sleep", "0.05"], check=True)
    assert not muster.processes()


def test_dry_run_prints_the_manifest(muster):
    done = muster("run", "--workers", "2", "--name", "x", "--dry-run", "-o", "yaml", "--", "true")
    [document] = yaml.safe_load_all(done.stdout)
    assert document["kind"] == "JobSet"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (["--cpus", "10000"], "no node ever has 10k cpu; the largest has "),
        (["--gpus", "1000"], "no node ever has 1k nvidia.com/gpu; "),
        (["--elastic", "500:1000", "--cpus", "10m"], "its 500 pods with 10m cpu each never fit at once; "),
    ],
)
def test_an_impossible_gang_ends_at_once_and_says_what_it_lacks(muster, asked, reason):
    done = muster("run", "--name", "big", *asked, "--", "true", check=False)
    assert done.returncode == 1
    assert f"big can never start: {reason}" in done.stderr
    assert "waiting" not in done.stderr


def test_an_impossible_gang_waits_in_a_cluster_that_stays_and_all_say_why(muster):
    never = "no node ever has 64 cpu; the largest has 8"
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:2,cpu=8")
    process = muster.start("run", "--name", "big", "--cpus", "64", "--", "true")
    try:
        assert process.stderr.readline() == "the nodes of this cluster are simulated: they run no programs\n"
        line = process.stderr.readline()
        while never not in line:
            assert line, "it ended without a word"
            line = process.stderr.readline()
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    muster("run", "--name", "again", "--cpus", "64", "--detach", "--", "true")
    table = muster("ps").stdout
    while "can never start" not in table:
        table = muster("ps").stdout
    assert f"can never start: {never}" in table
    why = muster("why", "again").stdout
    assert why.startswith(f"again: queued; it can never start: {never}\n")
    assert "starts " not in why


def test_simulated_workers_run_for_as_long_as_they_are_told_to(muster):
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:1")
    assert muster("run", "--run-time", "1ms", "--", "false").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run"], 2, "Missing argument"),
        (["run", "--workers", "0", "--", "true"], 2, "0 is not in the range"),
        (["run", "--detach", "--", "true"], 2, "--detach needs a running cluster"),
        (["run", "--run-time", "long", "--", "true"], 2, "invalid duration"),
        (["run", "--env", "NOT_SET_ANYWHERE", "--", "true"], 2, "NOT_SET_ANYWHERE is not set here"),
        (["run", "--cpus", "lots", "--", "true"], 2, "'lots' is no quantity"),
        (["run", "--name", "No_Name", "--", "true"], 2, "'No_Name'"),
        (["run", "--priority", "nope", "--", "true"], 1, "no WorkloadPriorityClass and no PriorityClass nope"),
        (["nonsense"], 2, "no such command"),
        (["ps"], 1, "no cluster"),
        (["up", "--nodes", "docker"], 2, "not a kind of node"),
    ],
)
def test_bad_input_gets_one_clear_line(muster, arguments, code, message):
    done = muster(*arguments, check=False)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_that_is_not_there(muster):
    done = muster("run", "--", "/no/such/program", check=False)
    assert done.returncode not in (0, None)
    assert "/no/such/program" in done.stderr + done.stdout


def test_python_is_the_callers(shared_up):
    done = shared_up("run", "--", "python", "-c", "import sys; print(sys.prefix)")
    assert done.stdout.strip() == sys.prefix


@pytest.mark.parametrize("presses", [0, 1, 2])
def test_a_submission_without_an_answer_names_the_job_that_may_be_left(shared_up, presses):
    """The user interrupts never, once, or twice; only then the command ends before the connection breaks."""
    with held_answers(shared_up.home) as answers:
        running = shared_up.start("run", "--name", f"lost-{presses}", "--", "sleep", "600")
        assert answers.held.wait(60)
        if presses:
            running.send_signal(signal.SIGINT)
            assert running.stderr.readline() == f"cancelling lost-{presses} (again to leave at once)\n"
        if presses == 2:
            running.send_signal(signal.SIGINT)
        else:
            answers.lost.set()
        _, said = running.communicate(timeout=60)
    where = f"lost-{presses} -n default"
    advice = f"lost-{presses} may have been submitted; inspect it: muster why {where}; end it: muster cancel {where}\n"
    assert said.endswith(advice)
    assert running.returncode == (130 if presses == 2 else 1)
    shared_up("cancel", f"lost-{presses}")
