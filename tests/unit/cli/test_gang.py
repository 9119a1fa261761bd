"""What `muster run` submits."""

import pytest

from muster.cli.gang import Gang, job, name_for, service


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
        (["x" * 80], "x" * 46 + "-x7k2p"),
    ],
)
def test_names_say_what_runs(command, name):
    assert name_for(command, "x7k2p") == name


def environment(gang):
    [container] = job(gang)["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry for entry in container["env"]}


def test_a_gang_is_an_indexed_job_that_is_lost_with_one_worker():
    spec = job(Gang("train", ["python", "t.py"], workers=4))["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"], spec["backoffLimit"]) == (
        4,
        4,
        "Indexed",
        0,
    )
    assert spec["template"]["spec"]["subdomain"] == "train"


def test_workers_find_what_torch_looks_for():
    env = environment(Gang("train", ["x"], workers=4))
    assert env["WORLD_SIZE"]["value"] == "4"
    assert env["LOCAL_RANK"]["value"] == "0"
    assert env["MASTER_ADDR"]["value"] == "train-0.train"
    assert 20000 <= int(env["MASTER_PORT"]["value"]) < 30000
    assert "job-completion-index" in env["RANK"]["valueFrom"]["fieldRef"]["fieldPath"]


def test_two_gangs_do_not_share_a_port():
    ports = {environment(Gang(f"train-{n}", ["x"]))["MASTER_PORT"]["value"] for n in range(20)}
    assert len(ports) > 15


def test_what_the_user_sets_wins():
    env = environment(Gang("train", ["x"], environment={"MASTER_PORT": "1", "A": "=b"}))
    assert env["MASTER_PORT"] == {"name": "MASTER_PORT", "value": "1"}
    assert env["A"]["value"] == "=b"


@pytest.mark.parametrize(
    ("asked", "resources"),
    [
        ({}, None),
        ({"cpus": "2", "memory": "4Gi"}, {"requests": {"cpu": "2", "memory": "4Gi"}}),
        ({"gpus": 1}, {"limits": {"nvidia.com/gpu": 1}}),
    ],
)
def test_resources_are_what_was_asked_for(asked, resources):
    [container] = job(Gang("train", ["x"], **asked))["spec"]["template"]["spec"]["containers"]
    assert container.get("resources") == resources


def test_the_service_belongs_to_the_job():
    manifest = service(Gang("train", ["x"]), "uid-1")
    assert manifest["spec"]["clusterIP"] == "None"
    [owner] = manifest["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "train", "uid-1")
