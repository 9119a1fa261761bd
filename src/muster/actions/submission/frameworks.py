"""Make the variables that frameworks other than torch read, and the addresses of workers. Pure.

A worker is one process on a host of its own. So it is torchrun's group and Lightning's node as well. Values refer to
the variables before them, so a caller who replaces `RANK` or `MASTER_PORT` replaces it in all of them.
"""

import json
import zlib
from typing import Any

from muster.actions.submission.gang import Gang, Role

# Ports below the usual ephemeral range (32768) that few services use. Gangs on one machine share its ports, so each
# gang takes other ports.
_FIRST_PORT, _PORTS = 20000, 10000

# The task types of TensorFlow. An evaluator is not a member of TensorFlow's cluster.
_TASKS = {"chief", "worker", "ps", "evaluator"}
_OUTSIDE = "evaluator"
_MOST_TASKS = 100  # TF_CONFIG lists all workers in each pod; with more workers it would fill the store

# The variables that a shell sets again after computing the rank of a worker.
RANKS = ("NODE_RANK", "GROUP_RANK", "CROSS_RANK")


def framework_variables(gang: Gang, role: Role) -> dict[str, dict[str, Any]]:
    """Return by name the variables that torchrun, Lightning, DeepSpeed, JAX and TensorFlow set or read.

    Each value refers to `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT` or `MUSTER_ROLE_RANK`, so these must come
    first in the environment.
    """
    rank = _rank_in_role(gang)
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
            f'{{"cluster":{json.dumps(cluster)},"task":{{"type":"{_task_type(gang, role)}","index":{rank}}}}}'
        )
    return {name: {"value": value} for name, value in values.items()}


def first_port(gang: Gang) -> int:
    """Return the port of rank 0, which is derived from the gang's name."""
    return _FIRST_PORT + zlib.crc32(gang.name.encode()) % _PORTS


def host_name(gang: Gang, role: Role, index: int) -> str:
    """Return the host name of a worker, by its index in its role, as a value of a pod's variable.

    The name in a scheduled gang contains `$(MUSTER_JOB)`, which only Kubernetes expands.
    """
    if gang.is_job:
        job = "$(MUSTER_JOB)" if gang.schedule else gang.name  # each start has a Job of its own
        return f"{job}-{index}.{gang.name}"
    return f"{gang.name}-{role.name}-0-{index}.{gang.name}"


def host_pattern(gang: Gang, role: Role) -> str:
    """Return a pattern of the host names of a role's workers, with {} in place of the worker's index."""
    return host_name(gang, role, 0).replace("-0.", "-{}.")


def _rank_in_role(gang: Gang) -> str:
    return "$(MUSTER_ROLE_RANK)" if gang.roles else "$(RANK)"


def _task_type(gang: Gang, role: Role) -> str:
    return role.name if gang.roles else "worker"


def _make_tensorflow_cluster(gang: Gang) -> dict[str, list[str]]:
    """Return the addresses of the tasks by their type; empty if TensorFlow has no type for a worker.

    Servers of TensorFlow bind their port on all addresses, and workers may share a machine, so each has its own port.
    """
    names = {_task_type(gang, role) for role in gang.parts}
    if not 1 < gang.size <= _MOST_TASKS or gang.elastic is not None or not names <= _TASKS:
        return {}
    cluster: dict[str, list[str]] = {}
    port = first_port(gang)
    for role in gang.parts:
        addresses = [f"{host_name(gang, role, index)}:{port + index}" for index in range(role.workers)]
        port += role.workers
        if (task := _task_type(gang, role)) != _OUTSIDE:
            cluster[task] = addresses
    return cluster
