"""A shell through the queue, on a user's terminal."""

from pathlib import Path

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.terminals import terminal

pytestmark = pytest.mark.timeout(120)


def gone(up: Muster) -> None:
    """The job is deleted, and goes."""
    while up("ps").stdout:
        pass


def test_it_has_our_terminal_and_ends_with_it(up: Muster) -> None:
    shell = [up.command, "shell", "--cpus", "1", "--name", "box"]
    env = up.env() | {"SHELL": "/bin/sh"}
    with terminal(rows=30, columns=90) as tty:
        inside = tty.start(*shell, env=env)
        tty.reads(b"box: running")
        tty.press(b"stty size; echo by $MUSTER_JOB\n")
        tty.reads(b"30 90\r\nby box")
        tty.resize(40, 120)
        tty.press(b"until stty size | grep 120; do sleep 0.1; done\n")
        tty.reads(b"40 120")
        # A shell that is just starting a program can miss the key.
        tty.press(b"sh -c 'echo $((6 * 7)); exec sleep 600'\n")
        tty.reads(b"42")
        tty.press(b"\3")  # it ends that, and not us
        tty.press(b"exit 5\n")
        assert inside.wait(timeout=60) == 5
        assert tty.is_as_before()
    gone(up)
    with terminal() as tty:
        inside = tty.start(*shell, env=env)
        tty.reads(b"box: running")
        tty.press(b"echo $((6 * 7))\n")
        tty.reads(b"42")
    assert inside.wait(timeout=60) == 129
    gone(up)


def test_a_command_of_run_has_our_terminal_and_its_job_stays(shared_up: Muster) -> None:
    script = "until stty size | grep '30 90'; do sleep 0.1; done; read -r word; echo got $word; exit 5"
    with terminal(rows=30, columns=90) as tty:
        inside = tty.start(
            shared_up.command, "run", "--tty", "--name", "box", "--", "sh", "-c", script, env=shared_up.env()
        )
        tty.reads(b"30 90")
        tty.press(b"it\n")
        tty.reads(b"got it")
        assert inside.wait(timeout=60) == 5
        assert tty.is_as_before()
    assert "got it" in shared_up("logs", "box").stdout
    assert "Failed" in shared_up("ps", "box").stdout


SEVERAL = """
import os, signal, sys, time

if os.environ["RANK"] != "0":
    print("terminal" if sys.stdout.isatty() else "log", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
    while not os.path.exists("enough"):
        time.sleep(0.1)
    sys.exit(int(os.environ["RANK"]) // 2)
try:
    print("rank 0 on", tuple(os.get_terminal_size()), flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("caught; ending with", input("code? "), flush=True)
"""


def test_rank_0_of_several_workers_has_our_terminal(shared_up: Muster, tmp_path: Path) -> None:
    (tmp_path / "several.py").write_text(SEVERAL)
    options = ["--tty", "--name", "three", "--workers", "3", "--workdir", str(tmp_path)]
    with terminal(rows=30, columns=90) as tty:
        inside = tty.start(shared_up.command, "run", *options, "--", "python", "several.py", env=shared_up.env())
        tty.reads(b"rank 0 on (90, 30)")
        tty.press(b"\3")
        tty.reads(b"code? ")
        tty.press(b"0\n")
        tty.reads(b"caught; ending with 0")
        tty.reads(b"rank 0 has ended, and other workers run")
        assert tty.is_as_before()
        (tmp_path / "enough").touch()
        screen = tty.reads(b"rank 2 (workers) ended with exit code 1")
        assert inside.wait(timeout=60) == 1
    assert b"log 1" not in screen, "the output of other workers goes to the log"
    assert shared_up("logs", "three", "--rank", "1,2").stdout == "[workers 1] log 1 of 3\n[workers 2] log 2 of 3\n"


def test_a_role_of_one_worker_has_our_terminal(shared_up: Muster) -> None:
    roles = ["--role", "driver", "--role", "worker:2", "--until", "driver"]
    with terminal() as tty:
        command = ["sh", "-c", "test $RANK != 0 && sleep 600; read word; echo $MUSTER_ROLE got $word"]
        inside = tty.start(shared_up.command, "run", "--tty", *roles, "--", *command, env=shared_up.env())
        tty.press(b"it\n")
        tty.reads(b"driver got it")
        assert inside.wait(timeout=60) == 0


def test_a_taken_name_leaves_the_job_that_has_it_alone(shared_up: Muster) -> None:
    shared_up("run", "--detach", "--name", "job", "--", "sleep", "1000")
    shared_up("run", "--detach", "--name", "jobset", "--role", "a", "--role", "b", "--", "sleep", "1000")
    shared_up("run", "--cron", "@yearly", "--name", "tick", "--", "true")
    for command in (["shell"], ["run", "--tty"]):
        for name, complaint in (("job", b"a job job"), ("jobset", b"a job jobset"), ("tick", b"a Service tick")):
            with terminal(columns=200) as tty:
                refused = tty.start(shared_up.command, *command, "--name", name, "--", "sh", env=shared_up.env())
                tty.reads(b"there is " + complaint + b" already")
                assert refused.wait(timeout=60) == 1
    for name in ("job", "jobset"):
        assert shared_up("cancel", name).stdout == f"{name} cancelled\n"
    assert shared_up("hold", "tick").stdout == "tick held: it starts no jobs until it is released\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--tty needs a terminal as standard input and output"),
        (["--detach"], "--tty and --detach exclude each other: rank 0 has the terminal, once"),
        (["--cron", "0 3 * * *"], "--tty and --cron exclude each other: rank 0 has the terminal, once"),
        (["--dry-run", "--role", "a:2"], "--tty: rank 0 has the terminal, so the first --role has one worker: a:1"),
        (
            ["--dry-run", "--workers", "2", "--", "mpirun"],
            "--tty: the processes that mpirun and srun start on several workers have no terminal",
        ),
        (["--retries", "1"], "--tty and --retries exclude each other: rank 0 has the terminal, once"),
    ],
)
def test_who_cannot_have_our_terminal(shared_muster: Muster, options: list[str], message: str) -> None:
    command = [] if "--" in options else ["--", "true"]
    done = shared_muster("run", "--tty", *options, *command, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"Error: {message}")


def test_a_client_that_is_killed_leaves_nothing_held(muster: Muster) -> None:
    muster("up", "--detach", "--port", "0", "--nodes", "process,gpus=4:fake")
    shell = [muster.command, "shell", "--gpus", "4", "--name"]
    env = muster.env() | {"SHELL": "/bin/sh"}
    with terminal() as tty:
        inside = tty.start(*shell, "box", env=env)
        tty.reads(b"box: running")
        tty.press(b"echo $((6 * 7)); sleep 600\n")
        tty.reads(b"42")
        inside.kill()
        inside.wait(timeout=60)
    with terminal() as tty:
        after = tty.start(*shell, "after", env=env)
        tty.reads(b"after: running")
        tty.press(b"exit\n")
        assert after.wait(timeout=60) == 0
    assert "ended by SIGHUP" in muster("ps").stdout


def test_before_it_has_begun_it_is_given_up(up: Muster) -> None:
    with terminal() as tty:
        waiting = tty.start(up.command, "shell", "--cpus", "640", env=up.env())
        tty.reads(b"can never start")
        tty.press(b"\3")
        assert waiting.wait(timeout=60) == 130
    gone(up)
    refused = up("shell", check=False)
    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (
        2,
        "Error: a shell needs a terminal; in a script: muster run",
    )
