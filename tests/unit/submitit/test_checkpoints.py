"""A call is interrupted, and continues where it was: each attempt is a process of its own."""

import signal
import subprocess
import sys
import textwrap

import pytest

from muster.submitit.checkpoints import DelayedSubmission, find_checkpoint_path

PROGRAM = """
import os, signal, sys
from muster.submitit.checkpoints import Checkpointable, DelayedSubmission, Resumable

class Training(Checkpointable):
    steps = 0

    def __call__(self, name):
        first = self.steps
        while self.steps < 6:
            self.steps += 1
            if self.steps == 3 and first == 0:
                print("interrupted", flush=True)
                os.kill(os.getpid(), signal.{signal})
        return name, first, self.steps

{change}
print(Resumable(Training())("train"))
"""


@pytest.fixture
def attempt(tmp_path):
    """Run one attempt of the call; return its exit code and what it printed."""

    def run(change="", number="SIGTERM", **environment):
        program = PROGRAM.format(signal=number, change=textwrap.dedent(change))
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"MUSTER_STATE": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("number", ["SIGTERM", "SIGUSR2"])
def test_a_call_continues_with_the_state_of_its_function(attempt, tmp_path, number):
    assert attempt(number=number) == (128 + signal.Signals[number], "interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["submitit-0.pkl"]
    assert attempt() == (0, "('train', 3, 6)\n")


def test_other_ranks_save_nothing_and_continue_with_what_the_first_one_saved(attempt):
    assert attempt(RANK="1") == (143, "interrupted\n")
    assert attempt(RANK="1") == (143, "interrupted\n")
    attempt(RANK="0")
    assert attempt(RANK="1") == (0, "('train', 3, 6)\n")


def test_before_the_time_limit_other_ranks_go_on_while_the_first_one_saves(attempt):
    assert attempt(number="SIGUSR2", RANK="1") == (0, "interrupted\n('train', 0, 6)\n")


def test_checkpoint_chooses_what_is_called_next(attempt):
    assert attempt("Training.checkpoint = lambda self, name: DelayedSubmission(pow, self.steps, 2)")[0] == 143
    assert attempt() == (0, "9\n")


def test_a_checkpoint_that_fails_is_told_and_the_call_begins_again(attempt):
    change = "Training.checkpoint = lambda self, name: 1 / 0"
    code, said = attempt(change)
    assert code == 143
    assert said.endswith("ZeroDivisionError: division by zero\n")
    assert attempt(change)[0] == 143


def test_without_a_state_directory_the_loss_is_told(attempt):
    lost = "the checkpoint is lost: this machine has no MUSTER_STATE\n"
    assert attempt(MUSTER_STATE="") == (143, f"interrupted\n{lost}")


def test_trials_have_files_of_their_own(tmp_path):
    assert find_checkpoint_path({"MUSTER_STATE": "/state", "MUSTER_INDEX": "7"}).name == "submitit-7.pkl"


def test_a_submission_is_made_once():
    calls = []
    submission = DelayedSubmission(lambda *args, **kwargs: calls.append((args, kwargs)), 1, a=2)
    assert not submission.done()
    submission.result()
    submission.result()
    assert (submission.done(), calls) == (True, [((1,), {"a": 2})])
