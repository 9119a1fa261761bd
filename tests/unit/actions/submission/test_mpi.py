"""What the manifest of a job of MPI says."""

import shlex

import pytest

from muster.actions.submission.gang import Gang, Role, SoftSignal
from muster.actions.submission.manifests import make_job, make_jobset
from muster.actions.submission.mpi import make_secret
from muster.api.values.shells import find_typed_command

SUM = Gang("sum", ["mpirun", "python", "a.py"], workers=8, cpus="2", mpi="muster")


def container(gang):
    spec = make_job(gang)["spec"] if gang.is_job else make_jobset(gang)["spec"]["replicatedJobs"][0]["template"]["spec"]
    [found] = spec["template"]["spec"]["containers"]
    return found


def environment(gang):
    return {entry["name"]: entry.get("value") for entry in container(gang)["env"]}


@pytest.mark.parametrize(
    ("plain", "pattern"), [(False, "sum-workers-0-{}.sum"), (True, "sum-{}.sum")], ids=["jobset", "job"]
)
def test_workers_call_the_agent_which_knows_the_hosts(plain, pattern):
    gang = Gang("sum", SUM.command, workers=8, cpus="2", mpi="muster", plain=plain)
    shell, flag, lines, _, *command = container(gang)["command"]
    assert (shell, flag, command) == ("sh", "-c", SUM.command)
    words = shlex.split(lines.rpartition("; exec ")[2])
    assert words[:8] == ["muster", "mpi-agent", "--hosts", pattern, "--workers", "8", "--slots", "2"]
    assert words[-2:] == ["--", "$@"]


def test_the_signal_before_the_limit_comes_to_the_command_and_not_to_the_agents():
    gang = Gang("sum", SUM.command, workers=8, mpi="muster", time_limit=60, soft_signal=SoftSignal("TERM", 10))
    _, _, agent, _, *command = container(gang)["command"]
    assert "mpi-agent" in agent
    assert "sleep" not in agent
    assert "sleep 50; kill -s TERM" in command[2]
    assert list(find_typed_command(command)) == SUM.command


def test_what_users_are_shown_is_their_own_command():
    assert list(find_typed_command(container(SUM)["command"])) == SUM.command


def test_processes_of_mpi_are_not_told_the_ranks_of_workers():
    told = environment(SUM)
    assert told["MASTER_ADDR"] == "sum-workers-0-0.sum"
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "TF_CONFIG"} & told.keys()


def test_each_process_has_threads_for_its_share_of_the_cpus():
    assert environment(SUM)["OMP_NUM_THREADS"] == "1"
    assert environment(Gang("sum", SUM.command, workers=8, cpus="8", gpus=2, mpi="muster"))["OMP_NUM_THREADS"] == "4"


def test_the_identity_is_in_a_secret_and_not_in_the_job():
    made = make_secret(SUM, b"PEM")
    assert made["data"] == {"identity.pem": "UEVN"}
    [variable] = [
        entry for entry in container(SUM)["env"] if "valueFrom" in entry and "secretKeyRef" in entry["valueFrom"]
    ]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": made["metadata"]["name"], "key": "identity.pem"}


def test_no_other_gang_has_any_of_it():
    plain = Gang("sum", SUM.command, workers=8)
    assert container(plain)["command"] == SUM.command
    roles = Gang("sum", roles=[Role("a", SUM.command)])
    assert "MUSTER_MPI_IDENTITY" not in environment(plain) | environment(roles)
