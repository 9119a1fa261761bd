"""What a batch script finds: Slurm's variables, and names of files."""

import pytest

from muster.slurm.allocation import (
    Allocation,
    Trials,
    count_repeats,
    file_name,
    make_variables,
    pattern_values,
    read_repeats,
)
from muster.slurm.batch import ScriptSettings

TWO = Allocation(
    id=77,
    batch=ScriptSettings("My run", nodes=2, tasks=7, gpus_per_task=1),
    cpus=8,
    hosts="t-workers-0-{}.t",
    memory=4096,
    gpus=4,
    time_limit=600,
    partition="vision",
    directory="/home/ada",
)
ARRAY = Allocation(id=77, batch=ScriptSettings("sweep"), cpus=2, trials=Trials(5, 0, 8, 2))


def told(allocation, **environment):
    return make_variables(allocation, environment, "pod", 1000, 1_000_000)


def test_a_script_finds_its_job_its_nodes_and_its_tasks():
    expected = {
        "SLURM_JOB_ID": "77",
        "SLURM_JOBID": "77",
        "SLURM_JOB_NAME": "My run",
        "SLURM_JOB_PARTITION": "vision",
        "SLURM_JOB_NODELIST": "t-workers-0-0.t,t-workers-0-1.t",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NTASKS": "7",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_TASKS_PER_NODE": "4,3",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_CPUS_ON_NODE": "8",
        "SLURM_JOB_CPUS_PER_NODE": "8(x2)",
        "SLURM_MEM_PER_NODE": "4096",
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_JOB_GPUS": "4,5,6,7",
        "SLURM_GPUS_PER_TASK": "1",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_SUBMIT_DIR": "/home/ada",
        "SLURM_JOB_START_TIME": "1000000",
        "SLURM_JOB_END_TIME": "1000600",
        "SLURM_JOB_USER": "ada",
        "SLURM_JOB_UID": "1000",
        "SLURMD_NODENAME": "t-workers-0-0.t",
    }
    assert told(TWO, USER="ada", CUDA_VISIBLE_DEVICES="4,5,6,7").items() >= expected.items()


def test_a_script_finds_nothing_that_its_job_does_not_have():
    absent = {"MEM_PER_NODE", "GPUS_ON_NODE", "JOB_GPUS", "GPUS_PER_TASK", "JOB_END_TIME", "RESTART_COUNT"}
    found = told(Allocation(id=1, batch=ScriptSettings(), cpus=1), MUSTER_ATTEMPT="0")
    assert not {f"SLURM_{name}" for name in absent} & found.keys()
    assert not [name for name in found if name.startswith("SLURM_ARRAY")]


def test_a_task_of_an_array_has_a_number_of_its_own():
    found = told(ARRAY, MUSTER_INDEX="6", JOB_COMPLETION_INDEX="0")
    expected = {
        "SLURM_JOB_ID": "84",
        "SLURM_ARRAY_JOB_ID": "77",
        "SLURM_ARRAY_TASK_ID": "6",
        "SLURM_ARRAY_TASK_COUNT": "5",
        "SLURM_ARRAY_TASK_MIN": "0",
        "SLURM_ARRAY_TASK_MAX": "8",
        "SLURM_ARRAY_TASK_STEP": "2",
        "SLURM_JOB_NODELIST": "pod",
    }
    assert found.items() >= expected.items()


def test_a_script_that_starts_again_is_told_so():
    assert told(TWO, MUSTER_ATTEMPT="2")["SLURM_RESTART_COUNT"] == "2"


def test_launchers_of_mpi_do_not_look_for_slurm():
    assert told(TWO)["OMPI_MCA_plm"] == told(TWO)["PRTE_MCA_ras"] == "^slurm"


@pytest.mark.parametrize(("numbers", "text"), [([4], "4"), ([4, 4], "4(x2)"), ([4, 4, 3], "4(x2),3"), ([1, 2], "1,2")])
def test_numbers_of_nodes_are_written_with_their_repeats(numbers, text):
    assert count_repeats(numbers) == text
    assert read_repeats(text) == numbers


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("out.txt", "out.txt"),
        ("logs/%x_%j.out", "logs/sweep_84.out"),
        ("%A_%a.out", "77_6.out"),
        ("%A_%4a.out", "77_0006.out"),
        ("%u-%N-%t-%n", "ada-pod-0-0"),
        ("%%j %q %", "%j %q %"),
        ("%99a", "0000000006"),
        ("\\%j", "%j"),
        ("", ""),
    ],
)
def test_a_pattern_is_filled(pattern, name):
    found = told(ARRAY, MUSTER_INDEX="6", JOB_COMPLETION_INDEX="0", USER="ada")
    assert file_name(pattern, pattern_values(found)) == name


def test_what_is_no_array_has_slurms_number_for_that():
    values = pattern_values(told(TWO))
    assert (file_name("%A_%a", values), values["s"]) == ("77_4294967294", "batch")
