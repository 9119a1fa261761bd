"""Make the environment variables for frameworks other than torch, and the addresses of workers. Pure.

A worker is one process on its own host. It therefore counts as a group of torchrun and as a node of Lightning.
Variables refer to earlier variables, so a user who overrides `RANK` or `MASTER_PORT` overrides it in all of them.
"""

import json
import zlib
from typing import Any

from muster.actions.submission.gang import Gang, Role

# Ports below the usual ephemeral range (32768) that few services use. Gangs on one machine share its ports, so each
# gang uses a different port.
_FIRST_PORT, _PORTS = 20000, 10000

# The task types of TensorFlow. An evaluator is not a member of TensorFlow's cluster.
_TASKS = {"chief", "worker", "ps", "evaluator"}
_OUTSIDE = "evaluator"
_MOST_TASKS = 100  # TF_CONFIG lists all workers in each pod; with more workers it would fill the store

# The variables that a shell sets again once it has computed the rank of a worker.
RANKS = ("NODE_RANK", "GROUP_RANK", "CROSS_RANK")


def framework_variables(gang: Gang, role: Role) -> dict[str, dict[str, Any]]:
    """Return the variables, by name, that torchrun, Lightning, DeepSpeed, JAX and TensorFlow set or read.

    The values refer to `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT` and `MUSTER_ROLE_RANK`, which must precede
    them in the environment.
    """
    rank = _choose_rank_variable(gang)
    values = dict.fromkeys(RANKS, "$(RANK)") | {
        "GROUP_WORLD_SIZE": "$(WORLD_SIZE)",
        "CROSS_SIZE": "$(WORLD_SIZE)",
        "LOCAL_WORLD_SIZE": "1",
        "LOCAL_SIZE": "1",
        "ROLE_NAME": role.name,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": str(role.workers) if gang.roles else "$(WORLD_SIZE)",
        "JAX_COORDINATOR_ADDRESS": "$(MASTER_ADDR):$(MASTER_PORT)",
    }
    if cluster := _make_tensorflow_cluster(gang):
        values["TF_CONFIG"] = (
            f'{{"cluster":{json.dumps(cluster)},"task":{{"type":"{_choose_task_type(gang, role)}","index":{rank}}}}}'
        )
    return {name: {"value": value} for name, value in values.items()}


def first_port(gang: Gang) -> int:
    """Return the port of the worker with rank 0, derived from the gang's name."""
    return _FIRST_PORT + zlib.crc32(gang.name.encode()) % _PORTS


def host_name(gang: Gang, role: Role, index: int) -> str:
    """Return the host name of a worker, for the value of an environment variable of its pod.

    index: the worker's index in its role.

    For a gang with a schedule, the name contains `$(MUSTER_JOB)`, which Kubernetes expands.
    """
    if gang.is_job:
        job = "$(MUSTER_JOB)" if gang.schedule else gang.name  # each start creates another Job
        return f"{job}-{index}.{gang.name}"
    return f"{gang.name}-{role.name}-0-{index}.{gang.name}"


def host_pattern(gang: Gang, role: Role) -> str:
    """Return a pattern for the host names of a role's workers, with {} in place of the worker's index."""
    return host_name(gang, role, 0).replace("-0.", "-{}.")


def _choose_rank_variable(gang: Gang) -> str:
    return "$(MUSTER_ROLE_RANK)" if gang.roles else "$(RANK)"


def _choose_task_type(gang: Gang, role: Role) -> str:
    return role.name if gang.roles else "worker"


def _make_tensorflow_cluster(gang: Gang) -> dict[str, list[str]]:
    """Return the worker addresses by TensorFlow task type, for TF_CONFIG.

    Empty for a single worker, too many workers, an elastic gang, or a role that is no task type of TensorFlow.
    TensorFlow's servers bind their port on all addresses, and workers may share a machine, so each worker has another
    port.
    """
    names = {_choose_task_type(gang, role) for role in gang.parts}
    if not 1 < gang.size <= _MOST_TASKS or gang.elastic is not None or not names <= _TASKS:
        return {}
    cluster: dict[str, list[str]] = {}
    port = first_port(gang)
    for role in gang.parts:
        addresses = [f"{host_name(gang, role, index)}:{port + index}" for index in range(role.workers)]
        port += role.workers
        if (task := _choose_task_type(gang, role)) != _OUTSIDE:
            cluster[task] = addresses
    return cluster
