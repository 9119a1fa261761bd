"""How the tasks of a step run on the script's own node."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from muster.slurm.allocation import Allocation
from muster.slurm.allocation import make_variables as slurm_variables
from muster.slurm.batch import ScriptSettings
from muster.slurm.programs import PROGRAMS
from muster.slurm.srun import StepRun, find_alarm
from muster.slurm.steps import plan_step


@pytest.fixture
def srun(tmp_path):
    """Start srun in a job with four tasks on one node."""
    allocation = Allocation(id=7, batch=ScriptSettings("train", tasks=4), cpus=4)
    environment = slurm_variables(allocation, os.environ, "pod", 0, 0) | os.environ

    def start(*words, **variables):
        return subprocess.Popen(
            [PROGRAMS / "srun", *words],
            env=environment | {"MUSTER_PYTHON": sys.executable} | variables,
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def ended(process, told=""):
    output, errors = process.communicate(told, timeout=60)
    return process.returncode, sorted(output.splitlines()), errors


def test_each_task_runs_once(srun):
    words = ["sh", "-c", "echo $SLURM_PROCID of $SLURM_NTASKS"]
    assert ended(srun(*words)) == (0, [f"{rank} of 4" for rank in range(4)], "")
    assert ended(srun("-l", *words))[1] == [f"{rank}: {rank} of 4" for rank in range(4)]


@pytest.mark.parametrize("program", ["srun", "scontrol"])
def test_modules_of_the_script_do_not_replace_those_of_muster(program, srun, tmp_path):
    (tmp_path / "enum.py").write_text("raise SystemExit(9)\n")
    variables = os.environ | {"MUSTER_PYTHON": sys.executable, "PYTHONPATH": str(tmp_path)}
    if program == "srun":
        assert ended(srun("-n1", "printenv", "PYTHONPATH", PYTHONPATH=str(tmp_path)))[:2] == (0, [str(tmp_path)])
    else:
        words = [PROGRAMS / program, "show", "hostnames", "n0"]
        assert subprocess.run(words, env=variables, capture_output=True, text=True, check=True).stdout == "n0\n"


def test_the_first_task_reads_the_input(srun):
    assert ended(srun("-l", "cat"), "a\nb")[1] == ["0: a", "0: b"]


def test_the_greatest_exit_code_is_that_of_the_step(srun):
    code, _, errors = ended(srun("sh", "-c", "exit $SLURM_PROCID"))
    assert code == 3
    assert "srun: task 3 on pod ended with exit code 3\n" in errors
    assert ended(srun("-n1", "sh", "-c", "kill -9 $$"))[0] == 137
    assert ended(srun("-n1", "no-such-program"))[0] == 127


def test_a_task_that_fails_ends_the_others_if_so_asked(srun):
    code, _, _ = ended(srun("-K", "sh", "-c", "[ $SLURM_PROCID = 1 ] && exit 3; exec sleep 1000"))
    assert code == 128 + signal.SIGTERM


@pytest.mark.parametrize(("option", "code"), [("-K1", 128 + signal.SIGTERM), ("-K0", 3)])
def test_the_letter_of_an_option_may_have_its_value_behind_it(srun, option, code):
    assert ended(srun(option, "sh", "-c", "[ $SLURM_PROCID = 1 ] && exit 3; exec sleep 2"))[0] == code


def test_a_signal_ends_tasks_that_have_not_begun():
    allocation = Allocation(id=7, batch=ScriptSettings("train", tasks=4), cpus=4)
    environment = slurm_variables(allocation, os.environ, "pod", 0, 0) | os.environ
    step = plan_step(["sleep", "1000"], environment, {}, "/", 1, [0])
    assert asyncio.run(StepRun(step).run((0.0, signal.SIGTERM))) == 128 + signal.SIGTERM


def test_words_may_be_longer_than_a_single_argument(srun):
    words = ["x" * 50_000] * 4
    assert ended(srun("-n1", "sh", "-c", "echo $#", "sh", *words))[1] == ["4"]


def test_a_file_that_is_not_there_is_not_said_to_be_mpirun(srun):
    code, _, errors = ended(srun("--exact", "-n1", "true", MUSTER_STEPS="/no/ledger"))
    assert (code, errors) == (255, "srun: [Errno 2] No such file or directory: '/no/ledger'\n")


def test_signals_reach_all_tasks(srun):
    words = ["sh", "-c", "trap 'echo saved; exit 0' USR1; echo here; while :; do sleep 0.1; done"]
    process = srun(*words)
    for _ in range(4):
        assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGUSR1)
    assert ended(process)[:2] == (0, ["saved"] * 4)


def test_output_goes_to_files(srun, tmp_path):
    assert ended(srun("-o", "%t.out", "sh", "-c", "echo $SLURM_PROCID; echo e >&2"))[:2] == (0, [])
    assert (tmp_path / "3.out").read_text().split() in (["3", "e"], ["e", "3"])
    assert ended(srun("-n1", "-o", "none/x", "true"))[0] == 255


def test_a_program_that_a_task_leaves_behind_does_not_hold_the_step(srun):
    assert ended(srun("-n1", "sh", "-c", "sleep 1000 & echo here"))[:2] == (0, ["here"])


def test_programs_of_mpi_need_mpirun(srun, tmp_path, monkeypatch):
    expected: tuple[int, list[str], str] = (127, [], "srun: --mpi needs mpirun, which is not on the PATH\n")
    assert ended(srun("--mpi=pmix", "./a", PATH=str(tmp_path))) == expected
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho $*\n")
    (tmp_path / "mpirun").chmod(0o755)
    assert ended(srun("--mpi=pmix", "./a", PATH=str(tmp_path))) == (0, ["-np 4 ./a"], "")


def test_bad_usage_is_said(srun):
    assert ended(srun("-n", "9", "true")) == (2, [], "srun: the tasks of a node need 9 CPUs, and the job has 4 there\n")


@pytest.mark.parametrize(
    ("told", "end", "alarm"),
    [
        ("USR1@60", "1000", (840.0, signal.SIGUSR1)),
        ("USR1@60", "", None),
        ("", "1000", None),
        ("USR1@950", "1000", None),
    ],
)
def test_tasks_get_a_signal_before_the_limit(told, end, alarm):
    assert find_alarm({"MUSTER_STEP_SIGNAL": told, "SLURM_JOB_END_TIME": end}, 100.0) == alarm
