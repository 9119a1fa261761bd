"""What programs of other frameworks find in the environment of a worker."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from muster.actions.submission.gang import Gang, Role
from muster.actions.submission.workers import list_overridden, pod_spec
from muster.api.ours.elastic import Bounds
from muster.cluster.nodes.container.environment import expand

ROLES = Gang("t", roles=[Role("chief", ["c"]), Role("worker", ["w"], 2), Role("evaluator", ["e"]), Role("ps", ["p"])])
TORCHRUN = ("GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME")


def container(gang, role=0):
    first = sum(one.workers for one in gang.parts[:role])
    [one] = pod_spec(gang, gang.parts[role], first)["containers"]
    return one


def environment(gang, index, role=0, size=None):
    """What a worker's process finds: fields of its pod are filled in, and references expanded in their order."""
    found = {}
    for entry in container(gang, role)["env"]:
        if "valueFrom" in entry:
            path = entry["valueFrom"]["fieldRef"]["fieldPath"]
            found[entry["name"]] = str(size if "world-size" in path else index)
        else:
            found[entry["name"]] = expand(entry["value"], found)
    return found


def test_a_worker_is_a_group_of_one_as_torchrun_says_it():
    found = environment(Gang("t", ["x"], workers=4), 2)
    assert [found[name] for name in TORCHRUN] == ["2", "4", "1", "2", "4", "workers"]


def test_a_worker_is_a_node_to_lightning():
    """`LightningEnvironment.node_rank` reads NODE_RANK; all workers were node 0 without it."""
    assert [environment(Gang("t", ["x"], workers=2), index)["NODE_RANK"] for index in range(2)] == ["0", "1"]


def test_deepspeed_finds_what_its_launcher_would_say():
    """Its writer of checkpoints ends with a KeyError without CROSS_RANK and CROSS_SIZE."""
    found = environment(Gang("t", ["x"], workers=2), 1)
    assert [found[name] for name in ("CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE")] == ["1", "2", "1"]


def test_jax_finds_its_coordinator_where_torch_finds_rank_0():
    found = environment(Gang("t", ["x"], workers=2), 1)
    assert found["JAX_COORDINATOR_ADDRESS"] == f"t-workers-0-0.t:{found['MASTER_PORT']}"
    moved = environment(Gang("t", ["x"], workers=2, environment={"MASTER_PORT": "9"}), 1)
    assert moved["JAX_COORDINATOR_ADDRESS"] == "t-workers-0-0.t:9"


def test_ranks_within_a_role_and_over_all_are_told_apart():
    found = environment(ROLES, 1, role=1)
    assert [found[name] for name in ("ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "GROUP_WORLD_SIZE")] == [
        "1",
        "2",
        "worker",
        "5",
    ]


@pytest.mark.parametrize(("asked", "said"), [({}, "2 2 2 2"), ({"NODE_RANK": "0"}, "2 0 2 2")])
def test_a_shell_says_each_rank_that_no_variable_can_add_up(asked, said):
    gang = Gang("t", roles=ROLES.roles, environment=asked)
    words = [expand(word, {}) for word in container(gang, 1)["command"]]
    shows = [*words[:4], "sh", "-c", "echo $RANK $NODE_RANK $GROUP_RANK $CROSS_RANK"]
    given = environment(gang, 1, role=1) | {"PATH": os.environ["PATH"]}
    assert subprocess.run(shows, env=given, capture_output=True, check=True, text=True).stdout == f"{said}\n"


def test_a_rank_of_the_user_counts_for_all_that_follow_from_it():
    found = environment(Gang("t", ["x"], workers=2, environment={"RANK": "7"}), 0)
    assert [found[name] for name in ("RANK", "NODE_RANK", "GROUP_RANK", "ROLE_RANK")] == ["7"] * 4


def test_an_elastic_worker_finds_the_size_that_it_starts_with():
    found = environment(Gang("t", ["x"], workers=2, elastic=Bounds(1, 4)), 0, size=3)
    assert [found[name] for name in ("WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE")] == ["3"] * 3


def test_tensorflow_finds_all_workers_each_with_a_port_of_its_own():
    found = environment(Gang("t", ["x"], workers=2), 1)
    port = int(found["MASTER_PORT"])
    assert json.loads(found["TF_CONFIG"]) == {
        "cluster": {"worker": [f"t-workers-0-0.t:{port}", f"t-workers-0-1.t:{port + 1}"]},
        "task": {"type": "worker", "index": 1},
    }
    plain = json.loads(environment(Gang("t", ["x"], workers=2, plain=True), 1)["TF_CONFIG"])
    assert plain["cluster"]["worker"][1] == f"t-1.t:{port + 1}"


def test_roles_that_are_called_as_tensorflow_calls_them_are_its_tasks():
    port = int(environment(ROLES, 0)["MASTER_PORT"])
    cluster = {
        "chief": [f"t-chief-0-0.t:{port}"],
        "worker": [f"t-worker-0-0.t:{port + 1}", f"t-worker-0-1.t:{port + 2}"],
        "ps": [f"t-ps-0-0.t:{port + 4}"],
    }
    for role, index in ((0, 0), (1, 1), (2, 0), (3, 0)):
        said = json.loads(environment(ROLES, index, role)["TF_CONFIG"])
        assert said == {"cluster": cluster, "task": {"type": ROLES.roles[role].name, "index": index}}


@pytest.mark.parametrize(
    "gang",
    [
        Gang("t", ["x"]),  # one alone has no cluster
        Gang("t", ["x"], workers=101),  # each pod would list all of them
        Gang("t", ["x"], workers=2, elastic=Bounds(1, 2)),  # the list would be out of date
        Gang("t", roles=[Role("driver", ["x"]), Role("worker", ["x"], 2)]),  # TensorFlow knows no drivers
    ],
)
def test_tensorflow_is_told_nothing_that_it_could_not_use(gang):
    assert "TF_CONFIG" not in environment(gang, 0)


def test_what_frameworks_look_for_may_be_the_users_and_ranks_not_in_silence():
    given = {"TF_CONFIG": "{}", "JAX_COORDINATOR_ADDRESS": "a:1", "NODE_RANK": "0"}
    gang = Gang("t", ["x"], workers=2, environment=given)
    assert list_overridden(gang) == ["NODE_RANK"]
    assert environment(gang, 1).items() >= given.items()


def test_the_page_on_the_environment_names_each_of_them():
    text = (Path(__file__).parents[4] / "docs" / "environment.md").read_text()
    found = environment(Gang("t", ["x"], workers=2), 0)
    assert [name for name in found if f"`{name}`" not in text] == []
