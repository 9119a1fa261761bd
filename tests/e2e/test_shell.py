"""A shell through the queue, on a user's terminal."""

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


def test_a_command_of_run_has_our_terminal_and_its_job_stays(up: Muster) -> None:
    script = "until stty size | grep '30 90'; do sleep 0.1; done; read -r word; echo got $word; exit 5"
    with terminal(rows=30, columns=90) as tty:
        inside = tty.start(up.command, "run", "--tty", "--name", "box", "--", "sh", "-c", script, env=up.env())
        tty.reads(b"30 90")
        tty.press(b"it\n")
        tty.reads(b"got it")
        assert inside.wait(timeout=60) == 5
        assert tty.is_as_before()
    assert "got it" in up("logs", "box").stdout
    assert "Failed" in up("ps", "box").stdout


def test_a_taken_name_leaves_the_job_that_has_it_alone(up: Muster) -> None:
    up("run", "--detach", "--name", "job", "--", "sleep", "1000")
    up("run", "--detach", "--name", "jobset", "--role", "a", "--role", "b", "--", "sleep", "1000")
    up("run", "--cron", "@yearly", "--name", "tick", "--", "true")
    for command in (["shell"], ["run", "--tty"]):
        for name, complaint in (("job", b"a job job"), ("jobset", b"a job jobset"), ("tick", b"a Service tick")):
            with terminal(columns=200) as tty:
                refused = tty.start(up.command, *command, "--name", name, "--", "sh", env=up.env())
                tty.reads(b"there is " + complaint + b" already")
                assert refused.wait(timeout=60) == 1
    for name in ("job", "jobset"):
        assert up("cancel", name).stdout == f"{name} cancelled\n"
    assert up("hold", "tick").stdout == "tick held: it starts no jobs until it is released\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--tty needs a terminal as standard input and output"),
        (["--workers", "2"], "--tty and --workers exclude each other: one worker has the terminal, once"),
        (["--detach"], "--tty and --detach exclude each other: one worker has the terminal, once"),
        (["--role", "a"], "--tty and --role exclude each other: one worker has the terminal, once"),
        (["--cron", "0 3 * * *"], "--tty and --cron exclude each other: one worker has the terminal, once"),
        (["--retries", "1"], "--tty and --retries exclude each other: one worker has the terminal, once"),
    ],
)
def test_who_cannot_have_our_terminal(shared_muster: Muster, options: list[str], message: str) -> None:
    done = shared_muster("run", "--tty", *options, "--", "true", check=False)
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
