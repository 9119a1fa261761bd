"""What scripts say to submitit, in Muster's words."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster import submitit
from muster.actions.submission.caller import find_inherited_environment
from muster.sdk.errors import Error
from muster.submitit import AutoExecutor, FailedJobError, JobEnvironment, helpers


def options(*, can_resume=False, **parameters):
    executor = AutoExecutor("logs")
    executor.update_parameters(**parameters)
    return {name: value for name, value in executor._make_options(can_resume=can_resume).items() if name != "env"}


@pytest.mark.parametrize(
    ("parameters", "asked"),
    [
        ({"timeout_min": 5, "cpus_per_task": 4}, {"time": 300, "cpus": 4}),
        ({"slurm_time": "2:00:00"}, {"time": "2:00:00"}),
        ({"slurm_time": 5}, {"time": 300}),
        ({"nodes": 2, "gpus_per_node": 8, "tasks_per_node": 8}, {"workers": 16, "gpus": 1}),
        ({"nodes": 2, "gpus_per_node": 8}, {"workers": 2, "gpus": 8}),
        ({"mem_gb": 10, "tasks_per_node": 4}, {"workers": 4, "memory": "2560Mi"}),
        ({"slurm_partition": "vision", "slurm_qos": "high"}, {"queue": "vision", "priority": "high"}),
        ({"slurm_cpus_per_task": 2, "local_setup": ["x"], "debug_x": 1}, {"cpus": 2}),
        ({"muster_retries": 2}, {"retries": 2}),
        ({"muster_workers": 3}, {"workers": 3}),
        ({"name": "mine", "timeout_min": None}, {}),
    ],
)
def test_parameters_are_options(parameters, asked):
    assert options(**parameters) == asked


def test_workers_of_muster_are_tasks():
    executor = AutoExecutor("logs", muster_workers=3)
    assert executor._task_count == 3


def test_a_parameter_of_slurm_without_counterpart_is_said():
    with pytest.warns(UserWarning, match="slurm_account has no counterpart"):
        assert options(slurm_account="x") == {}


def test_a_parameter_that_there_is_not_is_refused():
    with pytest.raises(NameError, match="unknown parameter 'gpus'; there is: name, timeout_min, "):
        options(gpus=1)
    with pytest.raises(AssertionError, match="nodes='2': it is of type int"):
        options(nodes="2")


def test_variables_are_passed_on_and_the_folder_with_them():
    executor = AutoExecutor("/logs/%j", muster_env={"A": "b"})
    assert executor._make_options()["env"] == {"SUBMITIT_FOLDER": "/logs/%j", "A": "b"}


@pytest.mark.parametrize(
    ("parameters", "asked"),
    [
        ({"timeout_min": 60}, {"time": 3600, "signal": "SIGUSR2@90", "retries": 3}),
        ({"timeout_min": 60, "slurm_signal_delay_s": 120}, {"time": 3600, "signal": "SIGUSR2@120", "retries": 3}),
        ({"slurm_time": "0:01:00"}, {"time": "0:01:00", "signal": "SIGUSR2@30", "retries": 3}),
        ({"timeout_min": 60, "slurm_max_num_timeout": 0}, {"time": 3600}),
        ({"timeout_min": 60, "muster_retries": 9}, {"time": 3600, "signal": "SIGUSR2@90", "retries": 9}),
        ({"timeout_min": 60, "muster_elastic": "1:2"}, {"time": 3600, "elastic": "1:2"}),
        ({}, {}),
    ],
)
def test_a_function_with_checkpoint_continues_after_its_time(parameters, asked):
    assert options(can_resume=True, **parameters) == asked


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"slurm_time": "soon"}, Error, "time='soon': "),
        ({"timeout_min": 5, "slurm_max_num_timeout": -1}, Error, "retries=-1: it is from 0 to"),
        ({"timeout_min": 5, "slurm_max_num_timeout": "often"}, TypeError, "retries='often': it is a whole number"),
    ],
)
def test_times_without_meaning_are_refused(parameters, error, text):
    with pytest.raises(error, match=text):
        options(can_resume=True, **parameters)


def test_a_task_knows_itself(monkeypatch):
    with pytest.raises(RuntimeError, match="no task"):
        JobEnvironment()
    for name, value in {"MUSTER_JOB": "train", "RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    here = JobEnvironment()
    assert (here.job_id, here.global_rank, here.num_tasks, here.local_rank) == ("train", 1, 2, 0)
    monkeypatch.setenv("MUSTER_INDEX", "0")
    assert JobEnvironment().job_id == "train_0"
    monkeypatch.setenv("SUBMITIT_FOLDER", "/logs")
    assert JobEnvironment().paths.stdout == Path("/logs/train_0_1_log.out")


def test_a_command_is_a_function(capsys):
    assert helpers.CommandFunction(["echo", "a"])("b", c=1) == "a b --c=1"
    assert capsys.readouterr().out == "a b --c=1\n"
    with pytest.raises(FailedJobError, match="sh -c exit 3: exit code 3"):
        helpers.CommandFunction(["sh", "-c", "exit 3"])()


def kinds(parameters):
    """By name, but for those that gather what is left."""
    return [one.kind if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) else name for name, one in parameters.items()]


def test_submitits_own_names_are_here():
    theirs = pytest.importorskip("submitit", reason="it is in the extra [test]")
    for kind, names in {
        "AutoExecutor": ("submit", "map_array", "submit_array", "batch", "update_parameters"),
        "Job": ("result", "results", "exception", "wait", "done", "cancel", "get_info", "stdout", "stderr"),
    }.items():
        for name in names:
            wanted = inspect.signature(getattr(getattr(theirs, kind), name)).parameters
            found = inspect.signature(getattr(getattr(submitit, kind), name)).parameters
            assert kinds(found) == kinds(wanted), name
    assert set(theirs.AutoExecutor._typed_parameters()) == set(submitit._SHARED)


def test_who_asks_for_it_gets_it_by_the_name_of_the_other():
    """As Hydra's launcher imports it, here and on its workers."""
    python = [sys.executable, "-m", "muster.submitit"]
    directory = subprocess.run(python, capture_output=True, check=True, text=True).stdout.strip()
    asks = "import submitit; print(submitit.AutoExecutor.__module__, submitit.helpers is not None)"
    environment = os.environ | {"PYTHONPATH": directory}
    done = subprocess.run([sys.executable, "-c", asks], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout == "muster.submitit True\n"
    assert "PYTHONPATH" in find_inherited_environment(environment)
