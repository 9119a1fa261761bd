"""How a worker is told what a script for Slurm runs in."""

import shlex

import msgspec
import pytest
from msgspec import structs

from muster.actions.submission.batch import script_call
from muster.actions.submission.gang import Gang, Role, SlurmScript
from muster.actions.submission.sweep import Sweep
from muster.slurm.allocation import Allocation, Trials
from muster.slurm.batch import ScriptSettings

SCRIPT = SlurmScript(ScriptSettings("train", 2, 4), 77, "muster", "/home/ada")
ROLE = Role("workers", ["bash"], 2, cpus="4", memory="2Gi", gpus=1)
GANG = Gang("train-x", ["bash"], 2, time_limit=600, queue="vision", script=SCRIPT)


def told(gang, role=ROLE):
    words = shlex.split(script_call(gang, role, gang.script))
    return msgspec.json.decode(words[words.index("--allocation") + 1], type=Allocation)


def test_a_worker_is_told_of_its_job():
    assert told(GANG) == Allocation(
        id=77,
        batch=ScriptSettings("train", 2, 4),
        cpus=4,
        hosts="train-x-workers-0-{}.train-x",
        memory=2048,
        gpus=1,
        time_limit=600,
        partition="vision",
        directory="/home/ada",
    )


@pytest.mark.parametrize(
    ("array", "trials"),
    [
        ("0-9", Trials(10, 0, 9, 1)),
        ("0-8:2%2", Trials(5, 0, 8, 2)),
        ("7,1-3", Trials(4, 1, 7, 1)),
    ],
)
def test_a_trial_is_told_of_its_array_and_of_no_other_host(array, trials):
    found = told(structs.replace(GANG, sweep=Sweep.parse(array, ())))
    assert (found.trials, found.hosts) == (trials, "")


@pytest.mark.parametrize(("cpus", "expected"), [("", 1), ("500m", 1), ("2500m", 2)])
def test_a_part_of_a_cpu_is_none_for_a_script(cpus, expected):
    assert told(GANG, Role("workers", ["bash"], 2, cpus=cpus)).cpus == expected


def test_what_a_user_writes_stays_one_word():
    gang = structs.replace(GANG, script=SlurmScript(ScriptSettings("it's $HOME; %j", output='"%x"'), 1, "muster"))
    assert told(gang).batch == ScriptSettings("it's $HOME; %j", output='"%x"')
