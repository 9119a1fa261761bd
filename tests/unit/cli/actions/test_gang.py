"""What `muster run` submits."""

import dataclasses
import os
import subprocess

import msgspec
import pytest

from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.defaults import DEFAULTS
from muster.api.elastic import Bounds, World
from muster.api.jobset import JOB_SET
from muster.api.validation.jobset import validate_create
from muster.cli.actions.gang import Gang, Role, job, jobset, name_for, no_host_name, not_text, service
from muster.cluster.nodes.container.environment import expand
from muster.jobs.job.plan import Creation
from muster.jobs.job.pods import PodTemplate
from muster.jobs.job.world import current, world_of


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "examples/train_digits.py"], "train-digits-x7k2p"),
        (["python", "-u", "train.py", "--lr", "0.1"], "train-x7k2p"),
        (["./sweep.sh"], "sweep-x7k2p"),
        (["true"], "true-x7k2p"),
        (["/usr/bin/env", "X=1", "python", "a b.py"], "a-b-x7k2p"),
        (["7zip"], "run-7zip-x7k2p"),
        (["--"], "run-x7k2p"),
        (["ü"], "run-x7k2p"),
        (["x" * 80], "x" * 34 + "-x7k2p"),
    ],
)
def test_names_say_what_runs(command, name):
    assert name_for(command, "x7k2p", 40) == name


def job_of(gang, role=0):
    """What the spec of the Job of a role is."""
    return job(gang)["spec"] if gang.is_job else jobset(gang)["spec"]["replicatedJobs"][role]["template"]["spec"]


def container_of(gang, role=0):
    [container] = job_of(gang, role)["template"]["spec"]["containers"]
    return container


def environment(gang, role=0):
    return {entry["name"]: entry for entry in container_of(gang, role)["env"]}


def test_a_gang_is_a_jobset_that_is_lost_with_one_worker():
    spec = jobset(Gang("train", ["python", "t.py"], workers=4))["spec"]
    [role] = spec["replicatedJobs"]
    assert (role["name"], role["replicas"]) == ("workers", 1)
    wanted = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 0}
    assert role["template"]["spec"].items() >= wanted.items()
    assert "failurePolicy" not in spec


@pytest.mark.parametrize(
    ("gang", "config"),
    [
        (Gang("x", ["x"]), None),
        (Gang("x", ["x"], start_timeout=9), None),  # one alone waits for nobody
        (Gang("x", ["x"], workers=2), {}),
        (Gang("x", ["x"], workers=2, start_timeout=9), {"timeoutAfterSeconds": 9}),
        (Gang("x", roles=[Role("a", ["x"]), Role("b", ["x"])]), {}),
    ],
)
def test_several_workers_wait_for_each_other(gang, config):
    assert jobset(gang)["spec"].get("groupSchedulingConfig") == config


ROLES = Gang(
    "train",
    roles=[Role("driver", ["d", "$(A)"], cpus="2"), Role("worker", ["w"], 3, gpus=1), Role("eval", ["e"])],
    until="driver",
    stdin=True,
)


def test_roles_have_ranks_one_after_the_other():
    env = [environment(ROLES, role) for role in range(3)]
    assert {one["WORLD_SIZE"]["value"] for one in env} == {"5"}
    assert {one["MASTER_ADDR"]["value"] for one in env} == {"train-driver-0-0.train"}
    assert "job-completion-index" in env[0]["RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert env[2]["RANK"]["value"] == "4"
    places = [(one["MUSTER_ROLE"]["value"], one["MUSTER_ROLE_SIZE"]["value"]) for one in env]
    assert places == [("driver", "1"), ("worker", "3"), ("eval", "1")]
    assert env[1]["MUSTER_ROLE_RANK"] == env[0]["RANK"] | {"name": "MUSTER_ROLE_RANK"}


def test_the_ranks_of_several_that_do_not_come_first_are_added_up_in_a_shell():
    commands = [container_of(ROLES, role)["command"] for role in range(3)]
    assert (commands[0], commands[2]) == (["d", "$$(A)"], ["e"])
    shell = [expand(word, {}) for word in commands[1]]
    given = {"MUSTER_ROLE_FIRST": "1", "MUSTER_ROLE_RANK": "2", "PATH": os.environ["PATH"]}
    asks = [*shell[:4], "sh", "-c", 'echo "$RANK $@"', "sh", "a b", "*"]
    assert shell[4:] == ["w"]
    assert subprocess.run(asks, env=given, capture_output=True, check=True).stdout == b"3 a b *\n"
    own = container_of(dataclasses.replace(ROLES, environment={"RANK": "x"}), 1)
    assert own["command"] == ["w"]


def test_roles_ask_for_what_is_theirs_and_the_end_of_one_may_be_the_end_of_all():
    resources = [container_of(ROLES, role).get("resources") for role in range(3)]
    assert resources == [{"requests": {"cpu": "2"}}, {"limits": {"nvidia.com/gpu": 1}}, None]
    assert [container_of(ROLES, role).get("stdin") for role in range(3)] == [True, None, None]
    policy = jobset(ROLES)["spec"]["successPolicy"]
    assert policy == {"operator": "All", "targetReplicatedJobs": ["driver"]}


def test_without_jobsets_it_is_a_job():
    gang = Gang("train", ["x"], workers=2, plain=True)
    assert environment(gang)["MASTER_ADDR"]["value"] == "train-0.train"
    assert job(gang)["spec"]["template"]["spec"]["subdomain"] == "train"
    assert job(gang)["spec"]["ttlSecondsAfterFinished"] == jobset(gang)["spec"]["ttlSecondsAfterFinished"]


@pytest.mark.parametrize("gang", [ROLES, Gang("t", ["x"], workers=2), Gang("t", ["x"], start_timeout=1)])
def test_the_server_has_nothing_to_say_against_it(gang):
    document = jobset(gang)
    DEFAULTS[JOB_SET.resource](document)
    assert validate_create(JOB_SET.decode(msgspec.json.encode(document))) == []


def test_what_a_worker_said_last_outlives_it():
    assert container_of(Gang("train", ["x"]))["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_simulated_nodes_are_told_for_how_long():
    for gang, run_time in ((Gang("x", ["x"]), None), (Gang("x", ["x"], run_time="90s"), "90s")):
        template = job_of(gang)["template"]
        assert template.get("metadata", {}).get("annotations", {}).get("muster.dev/run-time") == run_time
    elastic = job_of(Gang("x", ["x"], elastic=Bounds(1, 2), run_time="1h"))["template"]["metadata"]
    assert len(elastic["annotations"]) > 1


def test_workers_find_what_torch_looks_for():
    env = environment(Gang("train", ["x"], workers=4))
    assert env["WORLD_SIZE"]["value"] == "4"
    assert env["LOCAL_RANK"]["value"] == "0"
    assert env["MASTER_ADDR"]["value"] == "train-workers-0-0.train"
    assert 20000 <= int(env["MASTER_PORT"]["value"]) < 30000
    assert "job-completion-index" in env["RANK"]["valueFrom"]["fieldRef"]["fieldPath"]


def test_two_gangs_do_not_share_a_port():
    ports = {environment(Gang(f"train-{n}", ["x"]))["MASTER_PORT"]["value"] for n in range(20)}
    assert len(ports) > 15


def test_what_the_user_sets_wins():
    env = environment(Gang("train", ["x"], environment={"MASTER_PORT": "1", "A": "=b"}))
    assert env["MASTER_PORT"] == {"name": "MASTER_PORT", "value": "1"}
    assert env["A"]["value"] == "=b"


def test_command_and_environment_are_what_was_given():
    words = ["echo", "a$$b $(RANK)", "", "-n", "two\nlines"]
    gang = Gang("train", words, environment={"A": "$(RANK) $$ $HOME"}, working_directory="/tmp/$(RANK)$$")
    container = container_of(gang)
    assert [expand(word, {"RANK": "0"}) for word in container["command"]] == words
    assert expand(environment(gang)["A"]["value"], {"RANK": "0"}) == "$(RANK) $$ $HOME"
    assert container["workingDir"] == "/tmp/$(RANK)$$"  # it is not expanded


@pytest.mark.parametrize(
    ("gang", "complaint"),
    [
        (Gang("x", ["echo", "é😀\n\t"], environment={"A": "ü"}, working_directory="/ö"), ""),
        (Gang("x", ["echo", "\udcff"]), r"argument 1 of the command is not UTF-8 ('\udcff')"),
        (Gang("x", ["x"], environment={"A": "b\udcff"}), r"the variable A is not UTF-8 ('A=b\udcff')"),
        (Gang("x", ["x"], working_directory="/\udcff"), r"the working directory is not UTF-8 ('/\udcff')"),
    ],
)
def test_what_no_manifest_can_carry_is_named(gang, complaint):
    assert not_text(gang) == (f"{complaint}, and a manifest can only carry text" if complaint else "")


@pytest.mark.parametrize(
    ("asked", "resources"),
    [
        ({}, None),
        ({"cpus": "2", "memory": "4Gi"}, {"requests": {"cpu": "2", "memory": "4Gi"}}),
        ({"gpus": 1}, {"limits": {"nvidia.com/gpu": 1}}),
    ],
)
def test_resources_are_what_was_asked_for(asked, resources):
    assert container_of(Gang("train", ["x"], **asked)).get("resources") == resources


def test_the_service_belongs_to_the_job():
    manifest = service(Gang("train", ["x"]), "uid-1")
    assert manifest["spec"]["clusterIP"] == "None"
    [owner] = manifest["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "train", "uid-1")


ELASTIC = Gang("train", ["x"], workers=4, elastic=Bounds(2, 6))


def test_an_elastic_gang_may_be_moved_between_its_sizes():
    manifest = job(ELASTIC)
    assert manifest["metadata"]["annotations"] == {
        "muster.dev/elastic": "2:6",
        "muster.dev/world": '{"size":4,"epoch":1}',
    }
    assert (manifest["spec"]["completions"], manifest["spec"]["parallelism"]) == (4, 4)
    assert manifest["spec"]["backoffLimit"] == 3, "it is lost when as many have failed as it began with"
    assert "annotations" not in job(Gang("train", ["x"], plain=True))["metadata"]


def test_elastic_workers_find_their_world():
    env = environment(ELASTIC)
    assert env["MUSTER_WORLD"]["value"] == "/etc/muster/world"
    assert env["WORLD_SIZE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.annotations['muster.dev/world-size']"
    pod = job(ELASTIC)["spec"]["template"]["spec"]
    [mount] = pod["containers"][0]["volumeMounts"]
    [volume] = pod["volumes"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/etc/muster")
    [file] = volume["downwardAPI"]["items"]
    assert (file["path"], file["fieldRef"]["fieldPath"]) == ("world", "metadata.annotations['muster.dev/world']")
    assert "MUSTER_WORLD" not in environment(Gang("train", ["x"]))


def test_the_controllers_have_nothing_to_add_to_a_new_elastic_gang():
    given = JOB.decode(msgspec.json.encode(job(ELASTIC)))
    assert world_of(given.metadata) == current(given) == World(4, 1)
    template = given.spec.template.metadata.annotations
    assert PodTemplate(given).pod(Creation(3)).metadata.annotations == template | {COMPLETION_INDEX: "3"}


@pytest.mark.parametrize(
    ("name", "workers", "good"),
    [
        ("", 1, True),  # it gets one
        ("train", 1, True),
        ("2-b", 1, False),
        ("b-2", 1, True),
        ("a" * 45, 10, True),
        ("a" * 45, 11, False),
        ("Train", 1, False),
        ("my_job", 1, False),
        ("a.b", 1, False),
        ("a-", 1, False),
        ("é", 1, False),
    ],
)
def test_names_of_gangs_are_parts_of_host_names(name, workers, good):
    assert (no_host_name(name, Gang("", ["x"], workers).parts) == "") == good
