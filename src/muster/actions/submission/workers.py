"""Make the pods of a gang's workers and their environment variables. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from muster.actions.submission.batch import script_call
from muster.actions.submission.frameworks import RANKS, first_port, framework_variables, host_name
from muster.actions.submission.gang import Gang, Role
from muster.actions.submission.mpi import agent_call, identity_variable
from muster.api.batch import COMPLETION_INDEX, JOB_NAME_LABEL
from muster.api.jobset.names import JOBSET_NAME, RESTART_ATTEMPT
from muster.api.ours.elastic import WORLD_ANNOTATION
from muster.api.values import quantity
from muster.api.values.expansion import escape
from muster.api.values.shells import wrap_in_shell, wrap_with_arguments
from muster.jobs.job.world import FIRST_SIZE_ANNOTATION
from muster.mpi.launchers import count_threads

# Variables that users may override without a warning.
_FREE = {"MASTER_PORT", "PYTHONUNBUFFERED", "OMP_NUM_THREADS", "JAX_COORDINATOR_ADDRESS", "TF_CONFIG"}

# The file with the current size of an elastic gang, for its workers.
_WORLD_DIRECTORY, _WORLD_FILE = "/etc/muster", "world"

# The mount path of the claim for data that outlives attempts. Process nodes provide a directory per job instead.
_STATE_DIRECTORY = "/var/lib/muster/state"

# The termination grace period of a program on a terminal, in seconds.
_SHELL_SECONDS = 2

# A worker's rank is the first rank of its role plus its index in the role. A shell adds them, because variables in a
# manifest cannot.
_RANKED = "export {names}; "
_RANK = "$((MUSTER_ROLE_FIRST + MUSTER_ROLE_RANK))"

# The program replaces the shell and keeps its process id, so that signals, exit code and input reach the program
# itself. The timer is not a child of the program, and holds none of its files open.
_SIGNALLED = "( (sleep {after}; kill -s {name} $$) </dev/null >/dev/null 2>&1 & ); "
_TIMER = re.compile(r"\(sleep \d+; kill -s [A-Z0-9]+ \$+\)", re.ASCII)


def pod_spec(gang: Gang, role: Role, first_rank: int) -> dict[str, Any]:
    """Return the pod spec of the workers of a role.

    first_rank: the rank of the role's first worker.
    """
    whole = [{"secretRef": {"name": secret.name}} for secret in gang.secrets if not secret.key]
    container: dict[str, Any] = {
        "name": "worker",
        "image": gang.image or "none",
        "command": _make_command(gang, role, first_rank),
        "env": _make_environment(gang, role, first_rank),
        # The termination message contains the worker's last output, which outlives the pod and its log.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if whole:
        container["envFrom"] = whole
    on_terminal = gang.terminal and first_rank == 0
    if gang.stdin and first_rank == 0:
        container |= {"stdin": True, "stdinOnce": True} | ({"tty": True} if on_terminal else {})
    if resources := _make_resources(gang, role):
        container["resources"] = resources
    if gang.working_directory:
        container["workingDir"] = gang.working_directory
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if gang.sweep is not None and gang.time_limit is not None:  # each trial has its own limit
        spec["activeDeadlineSeconds"] = gang.time_limit
    if volumes := _make_volumes(gang):
        spec["volumes"] = [volume for volume, _ in volumes]
        container["volumeMounts"] = [mount for _, mount in volumes]
    if on_terminal:  # an interactive shell ignores SIGTERM
        spec["terminationGracePeriodSeconds"] = _SHELL_SECONDS
    if gang.exclusive:
        spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_exclude_other_jobs(gang)]}
        }
    return spec | ({"priorityClassName": gang.priority} if gang.priority else {})


def _make_resources(gang: Gang, role: Role) -> dict[str, Any]:
    """Return a worker's requests and limits, without unset ones."""
    resources: dict[str, dict[str, Any]] = {
        "requests": {"cpu": role.cpus, "memory": role.memory},
        "limits": {"cpu": role.cpu_limit, "memory": role.memory_limit, gang.gpu_resource: role.gpus},
    }
    present = {part: {name: one for name, one in amounts.items() if one} for part, amounts in resources.items()}
    return {part: amounts for part, amounts in present.items() if amounts}


def _make_command(gang: Gang, role: Role, first_rank: int) -> Sequence[str]:
    """Return the command of a role, wrapped in the shells that prepare it. The outermost shell comes first."""
    plain: Sequence[str] = role.command
    if gang.script is not None:
        plain = wrap_with_arguments(script_call(gang, role, gang.script), plain)
    words = [escape(word) for word in plain] if gang.sweep is None else gang.sweep.command(plain)
    if gang.soft_signal is not None and gang.time_limit is not None:
        after = gang.time_limit - gang.soft_signal.seconds
        words = wrap_in_shell(_SIGNALLED.format(after=after, name=gang.soft_signal.name), words)
    if gang.mpi:  # outside of the timer, whose signal is for the program and would end an agent
        words = wrap_in_shell("", words, become=agent_call(gang, role))
    # A rank is `first_rank` plus the index in the role; only a shell can add them.
    if first_rank > 0 and role.workers > 1 and "RANK" not in gang.environment:
        words = wrap_in_shell(_make_rank_export(gang), words)
    return words


def has_timer(command: Iterable[str]) -> bool:
    """Return whether the command of a worker contains the timer that sends a signal before the time limit."""
    return any(_TIMER.search(word) for word in command)


def _make_rank_export(gang: Gang) -> str:
    """Return the shell line that exports a worker's rank as `RANK` and similar variables.

    Variables that the user sets are left out.
    """
    names = ("RANK", *(name for name in RANKS if name not in gang.environment))
    return _RANKED.format(names=" ".join(f"{name}={_RANK}" for name in names))


def _make_volumes(gang: Gang) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the volumes of a worker with their mounts: for the size of an elastic gang, and for data of the job."""
    volumes: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if gang.elastic is not None:
        file = {"path": _WORLD_FILE, "fieldRef": _make_annotation_reference(WORLD_ANNOTATION)}
        mount = {"name": "muster", "mountPath": _WORLD_DIRECTORY, "readOnly": True}
        volumes.append(({"name": "muster", "downwardAPI": {"items": [file]}}, mount))
    if gang.state:
        claim = {"name": "state", "persistentVolumeClaim": {"claimName": gang.state}}
        volumes.append((claim, {"name": "state", "mountPath": _STATE_DIRECTORY, "subPath": gang.name}))
    return volumes


def _exclude_other_jobs(gang: Gang) -> dict[str, Any]:
    """Return the anti-affinity term that keeps pods of all other jobs off the node."""
    own = JOB_NAME_LABEL if gang.is_job else JOBSET_NAME
    expressions = [
        {"key": JOB_NAME_LABEL, "operator": "Exists"},
        {"key": own, "operator": "NotIn", "values": [gang.name]},
    ]
    selected = {"labelSelector": {"matchExpressions": expressions}, "namespaceSelector": {}}
    return selected | {"topologyKey": "kubernetes.io/hostname"}


def list_overridden(gang: Gang) -> list[str]:
    """Return the names of the user's variables that override variables for a worker's rank and peers, sorted."""
    own = _make_own_variables(gang, gang.parts[0], 0).keys()
    return sorted((own - _FREE) & gang.environment.keys())


def _make_environment(gang: Gang, role: Role, first_rank: int) -> list[dict[str, Any]]:
    """Return the environment of a worker. A variable of the user replaces Muster's variable of the same name.

    first_rank: the rank of the role's first worker.
    """
    secret = {
        one.key: {"valueFrom": {"secretKeyRef": {"name": one.name, "key": one.key}}} for one in gang.secrets if one.key
    }
    user_variables = {name: {"value": escape(value)} for name, value in gang.environment.items()}
    variables = _make_own_variables(gang, role, first_rank) | secret | user_variables
    return [{"name": name, **value} for name, value in variables.items()]


def _make_own_variables(gang: Gang, role: Role, first_rank: int) -> dict[str, dict[str, Any]]:
    """Return Muster's variables by name: the job, threads, and rank and peers for torch.distributed and others.

    first_rank: the rank of the role's first worker.

    A trial of a sweep gets its index instead of a rank.
    """
    variables: dict[str, dict[str, Any]] = {
        "MUSTER_JOB": _refer_to_label(JOB_NAME_LABEL) if gang.schedule else {"value": gang.name},
        # Python does not buffer output, and workers on one machine do not each start a thread per core.
        "PYTHONUNBUFFERED": {"value": "1"},
        "OMP_NUM_THREADS": {"value": str(_count_threads(gang, role))},
    }
    if gang.state:
        variables["MUSTER_STATE"] = {"value": _STATE_DIRECTORY}
    if gang.sweep is not None:  # a trial has no peers
        return gang.sweep.variables(upstream=gang.upstream) | variables
    master = {
        "MASTER_ADDR": {"value": master_address(gang)},
        "MASTER_PORT": {"value": str(first_port(gang))},
    }
    if gang.mpi or gang.script is not None:  # mpirun and srun assign the ranks
        identity = identity_variable(gang) if gang.mpi else {}
        return variables | master | _make_attempt_variable(gang) | identity
    size: dict[str, Any] = {"value": str(gang.size)}
    if gang.elastic is not None:  # the size when the worker starts; the file contains later sizes
        size = {"valueFrom": {"fieldRef": _make_annotation_reference(FIRST_SIZE_ANNOTATION)}}
    index: dict[str, Any] = {"valueFrom": {"fieldRef": _make_annotation_reference(COMPLETION_INDEX)}}
    variables |= {
        "RANK": index if first_rank == 0 else {"value": str(first_rank)},
        "WORLD_SIZE": size,
        "LOCAL_RANK": {"value": "0"},
    } | master
    if gang.elastic is not None:
        variables["MUSTER_WORLD"] = {"value": f"{_WORLD_DIRECTORY}/{_WORLD_FILE}"}
    variables |= _make_attempt_variable(gang)
    if gang.roles:
        variables |= {
            "MUSTER_ROLE": {"value": role.name},
            "MUSTER_ROLE_RANK": index,
            "MUSTER_ROLE_SIZE": {"value": str(role.workers)},
            "MUSTER_ROLE_FIRST": {"value": str(first_rank)},
        }
    return variables | framework_variables(gang, role)


def _count_threads(gang: Gang, role: Role) -> int:
    """Return how many threads each process of the worker should use, according to its CPUs; at least 1."""
    if gang.script is not None:
        return max(quantity.parse_thousandths(role.cpus or "1") // 1000 // gang.script.batch.tasks_per_node, 1)
    if gang.mpi:
        return count_threads(role.cpus, role.gpus)
    return int(role.cpus) if role.cpus.isdigit() and role.cpus != "0" else 1


def _make_attempt_variable(gang: Gang) -> dict[str, dict[str, Any]]:
    if gang.is_job:
        return {}
    return {"MUSTER_ATTEMPT": _refer_to_label(RESTART_ATTEMPT)}


def _refer_to_label(key: str) -> dict[str, Any]:
    """Return the source of an environment variable whose value is a label of the pod."""
    return {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{key}']"}}}


def master_address(gang: Gang) -> str:
    """Return the host name of the worker with rank 0."""
    return host_name(gang, gang.parts[0], 0)


def _make_annotation_reference(key: str) -> dict[str, str]:
    """Return a reference to an annotation of the pod, for the value of an environment variable."""
    return {"fieldPath": f"metadata.annotations['{key}']"}
