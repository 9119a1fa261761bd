"""Which tasks srun starts, where, and what each of them finds."""

import re
import shlex
import subprocess

import pytest

from muster.slurm.allocation import Allocation, make_variables
from muster.slurm.batch import ScriptSettings
from muster.slurm.options import OptionError
from muster.slurm.steps import StepDemand, find_demand, find_launcher, plan_step, task_files, task_text

BEFORE = {"USER": "ada", "PATH": "/usr/bin:/bin", "HOSTNAME": "n0", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}


def job(nodes=2, tasks=4, cpus=4, **more):
    allocation = Allocation(id=7, batch=ScriptSettings("train", nodes, tasks, **more), cpus=cpus, hosts="n{}")
    return make_variables(allocation, {}, "pod", 0, 0) | BEFORE | {"A": "1"}


def step(line, environment=None):
    return plan(shlex.split(line), environment or job(), "/work")


def plan(words, environment, directory):
    """The step on the first of its nodes."""
    demand = find_demand(words, environment)
    return plan_step(words, environment, BEFORE, str(directory), 12, demand.nodes[: len(demand.counts)])


def layout(line, environment=None):
    """Each task as RANK@HOST.LOCAL."""
    return " ".join(
        f"{task.rank}@{task.host}.{task.variables['SLURM_LOCALID']}" for task in step(line, environment).tasks
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hostname", "0@n0.0 1@n0.1 2@n1.0 3@n1.1"),
        ("-n 2 hostname", "0@n0.0 1@n1.0"),
        ("-n 1 hostname", "0@n0.0"),
        ("-n 3 hostname", "0@n0.0 1@n0.1 2@n1.0"),
        ("-N 1 hostname", "0@n0.0 1@n0.1"),
        ("-N 1 -n 1 -w n1 hostname", "0@n1.0"),
        ("--nodelist=n1 hostname", "0@n1.0 1@n1.1"),
        ("--ntasks-per-node=1 hostname", "0@n0.0 1@n1.0"),
        ("-N 2 -n 8 hostname", "0@n0.0 1@n0.1 2@n0.2 3@n0.3 4@n1.0 5@n1.1 6@n1.2 7@n1.3"),
    ],
)
def test_tasks_are_laid_out_over_the_nodes(line, expected):
    assert layout(line) == expected


def test_nodes_with_fewer_tasks_keep_them():
    assert layout("hostname", job(tasks=3)) == "0@n0.0 1@n0.1 2@n1.0"


def test_a_task_knows_its_place():
    [*_, last] = step("-n 3 -c 2 hostname").tasks
    expected = {
        "SLURM_PROCID": "2",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "1",
        "SLURM_NTASKS": "3",
        "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_STEP_NODELIST": "n0,n1",
        "SLURM_STEP_TASKS_PER_NODE": "2,1",
        "SLURM_STEP_ID": "12",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_GTIDS": "2",
        "SLURMD_NODENAME": "n1",
    }
    assert last.variables.items() >= expected.items()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "no command stands behind the options"),
        ("-n 2", "no command stands behind the options"),
        ("-n 9 x", "the tasks of a node need 5 CPUs, and the job has 4 there"),
        ("-c 8 -n 1 x", "the tasks of a node need 8 CPUs, and the job has 4 there"),
        ("-N 3 x", "--nodes: 3 nodes are more than the 2 that there are"),
        ("-w n7 x", "--nodelist: n7 is no node of this job, which has n0, n1"),
        ("-n no x", "--ntasks: 'no' is no number of at least 1"),
        ("--pty bash", "--pty: look into a running job with: muster exec JOB -- bash"),
        ("--ntask 2 x", "Muster does not know --ntask of srun; did you mean --ntasks?"),
        ("-x n0 x", "--exclude: name the nodes of the step with --nodelist"),
    ],
)
def test_what_no_step_can_be_is_refused(line, complaint):
    with pytest.raises(OptionError) as refused:
        step(line)
    assert str(refused.value) == complaint


@pytest.mark.parametrize(
    ("line", "visible", "complaint"),
    [
        ("--exact -n1 --gpus-per-task=1 x", "0,1,2,3", "steps that wait for their CPUs share the first of 4 GPUs; "),
        ("--exact -n1 --gpus-per-task=1 x", "2", ""),
        ("--exact -n1 --gpus-per-task=4 x", "", ""),
        ("--exact -n1 x", "0,1,2,3", ""),
        ("-n4 --gpus-per-task=4 x", "0,1,2,3", "the tasks of a node need 8 GPUs, and the step sees 4 there"),
        ("--gres=gpu:1 x", "0,1,2,3", "--gres: a step sees all GPUs of its nodes, which are 4; "),
        ("--gpus-per-node=1 x", "", "--gpus-per-node: a step sees all GPUs of its nodes, which are 4; "),
        ("--gpus=4 x", "0,1,2,3", "--gpus: a step sees all GPUs of its nodes, which are 8; "),
        ("--gres=tpu x", "0,1,2,3", "--gres: 'tpu': of generic resources, Muster knows only gpu"),
        ("--gpus=8 --gres=gpu:4 --gpus-per-node=4 x", "0,1,2,3", ""),
    ],
)
def test_steps_do_not_share_gpus_without_a_word(line, visible, complaint):
    environment = job() | {"SLURM_GPUS_ON_NODE": "4", "CUDA_VISIBLE_DEVICES": visible}
    if not complaint:
        assert step(line, environment)
        return
    with pytest.raises(OptionError) as refused:
        step(line, environment)
    assert str(refused.value).startswith(complaint)


def test_outside_of_a_job_there_are_no_steps():
    with pytest.raises(OptionError, match=r"^there is no job: srun starts tasks in a script with #SBATCH lines"):
        step("hostname", {"PATH": "/bin"})


def test_more_tasks_than_cpus_run_where_that_is_said():
    assert len(step("-O -n 9 x").tasks) == 9


def run(found, task, *, here):
    """What the text of a task does in a shell of another worker, or of the script's own."""
    environment = found.environment if here else {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "4,5,6,7"}
    words = ["sh", "-c", task_text(found, task, here=here), "srun", *(found.command if here else ())]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("here", [True, False])
def test_a_task_finds_the_environment_and_the_directory_of_srun_and_its_words(here, tmp_path):
    words = ["-N2", "sh", "-c", 'echo "$A $SLURM_PROCID $SLURM_JOB_NAME $1"; pwd', "x", "it's $HOME"]
    found = plan(words, job(), tmp_path)
    assert run(found, found.tasks[2], here=here) == f"1 2 train it's $HOME\n{tmp_path}\n"


def test_each_task_sees_its_own_gpus_of_its_node(tmp_path):
    words = ["--gpus-per-task=2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
    found = plan(words, job(), tmp_path)
    assert [run(found, task, here=False) for task in found.tasks] == ["4,5\n", "6,7\n"] * 2
    assert [run(found, task, here=True) for task in found.tasks[:2]] == ["0,1\n", "2,3\n"]


def test_what_belongs_to_one_worker_is_not_told_to_another():
    found = step("hostname")
    text = task_text(found, found.tasks[2], here=False)
    assert "CUDA_VISIBLE_DEVICES" not in text
    assert "HOSTNAME" not in text
    assert "export A=1; " in text


@pytest.mark.parametrize(
    ("export", "names"),
    [("ALL,B=2", {"A", "B", "USER"}), ("NONE", {"USER"}), ("A", {"A", "USER"}), ("B=2", {"B", "USER"})],
)
def test_a_step_may_be_told_what_to_export(export, names):
    found = step(f"--export={export} hostname").environment
    assert {"A", "B", "USER"} & found.keys() == names
    assert "SLURM_JOB_ID" in found


def test_files_are_named_by_task():
    found = step("-o %x-%t.out -e %j.err hostname")
    assert [task_files(found, task) for task in found.tasks[:2]] == [("train-0.out", "7.err"), ("train-1.out", "7.err")]
    assert task_files(step("-o all hostname"), found.tasks[0]) == ("", "")
    assert task_files(step("-o none hostname"), found.tasks[0]) == ("/dev/null", "/dev/null")


@pytest.mark.parametrize("here", [True, False])
def test_a_program_may_have_an_equals_sign_in_its_path(here, tmp_path):
    program = tmp_path / "lr=1" / "train"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho ran $1\n")
    program.chmod(0o755)
    found = plan([str(program), "x"], job(), tmp_path)
    assert run(found, found.tasks[0], here=here) == "ran x\n"


def test_functions_of_bash_reach_the_tasks_of_other_nodes(tmp_path):
    found = plan(["bash", "-c", "greet"], job() | {"BASH_FUNC_greet%%": "() {  echo hello\n}", "UID": "7"}, tmp_path)
    assert run(found, found.tasks[2], here=False) == "hello\n"


def test_a_task_starts_although_its_environment_has_the_read_only_variables_of_bash(tmp_path):
    said = subprocess.run(["bash", "-c", "readonly -p"], capture_output=True, text=True, check=True).stdout
    fixed = re.findall(r"^declare -\w+ (\w+)=", said, re.MULTILINE)
    assert "BASH_VERSINFO" in fixed
    found = plan(["echo", "ran"], job() | dict.fromkeys(fixed, "7"), tmp_path)
    # /bin/sh of some distributions is bash in this mode, in which the first failed `export` ends the script.
    words = ["bash", "--posix", "-c", task_text(found, found.tasks[2], here=False)]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stdout == "ran\n"


@pytest.mark.parametrize("here", [True, False])
def test_each_task_reads_the_file_that_its_input_names(here, tmp_path):
    (tmp_path / "in 1").write_text("one\n")
    found = plan(["-i", "in %t", "cat"], job(), tmp_path)
    assert run(found, found.tasks[1], here=here) == "one\n"
    assert run(plan(["-i", "none", "cat"], job(), tmp_path), found.tasks[0], here=here) == ""


@pytest.mark.parametrize(
    ("line", "demand"),
    [
        ("hostname", StepDemand([0, 1], [2, 2], 0, waits=False)),
        ("--exact -n 1 -c 2 hostname", StepDemand([0, 1], [1], 2, waits=True)),
        ("--exclusive -n 2 -N 1 hostname", StepDemand([0], [2], 0, waits=True)),
        ("--exclusive -O -n 9 hostname", StepDemand([0, 1], [5, 4], 0, waits=False)),
    ],
)
def test_a_step_demands_nodes_and_cpus(line, demand):
    assert find_demand(shlex.split(line), job()) == demand


def test_a_step_runs_on_the_nodes_that_have_room():
    words = ["--exact", "-n1", "hostname"]
    [task] = plan_step(words, job(), BEFORE, "/work", 12, [1]).tasks
    assert (task.node, task.host, task.variables["SLURM_STEP_NODELIST"]) == (1, "n1", "n1")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--mpi=pmix ./a -n 7", "mpirun -np 4 ./a -n 7"),
        ("--mpi=pmi2 -n 2 -N 2 ./a", "mpirun -np 2 ./a"),
        ("--mpi=none ./a", ""),
        ("./a", ""),
    ],
)
def test_programs_of_mpi_are_started_by_mpirun(line, words):
    assert shlex.join(find_launcher(shlex.split(line), job())) == words


@pytest.mark.parametrize("line", ["--mpi=pmix -N 1 ./a", "--mpi=pmix -w n1 ./a"])
def test_mpirun_takes_all_nodes(line):
    with pytest.raises(OptionError, match=r"^--mpi=pmix: mpirun takes all nodes of the job; leave out --nodes and"):
        find_launcher(shlex.split(line), job())
