"""What each worker of a gang is: its pod, and what it finds in its environment. Pure."""

import zlib
from typing import Any

from muster.actions.gang import Gang, Role
from muster.api.batch import COMPLETION_INDEX, JOB_NAME_LABEL
from muster.api.jobset.names import JOBSET_NAME, RESTART_ATTEMPT
from muster.api.ours.elastic import WORLD_ANNOTATION
from muster.api.values.expansion import escape
from muster.api.values.shells import prepared
from muster.jobs.job.world import FIRST_SIZE_ANNOTATION

# Ports below the usual ephemeral range (32768) that few services use. All gangs of one machine share its ports, so
# each takes its own.
_FIRST_PORT, _PORTS = 20000, 10000

# Variables that may as well be the user's.
_FREE = {"MASTER_PORT", "PYTHONUNBUFFERED", "OMP_NUM_THREADS"}

# Where the workers of an elastic gang find its world.
_WORLD_DIRECTORY, _WORLD_FILE = "/etc/muster", "world"

# Where workers find the claim that their job keeps things on. Process nodes give each job a directory instead.
_STATE_DIRECTORY = "/var/lib/muster/state"

# How long a program on a terminal has from being asked to end to being killed.
_SHELL_SECONDS = 2

# A rank is where its role begins and the index within that: no variable of a manifest can say so.
_RANKED = "export RANK=$((MUSTER_ROLE_FIRST + MUSTER_ROLE_RANK)); "

# The program is in the shell's stead, with its number: the signal, the exit code and the input are its own. What waits
# for the time to come is no child of it, and holds none of its files open.
_SIGNALLED = "( (sleep {after}; kill -s {name} $$) </dev/null >/dev/null 2>&1 & ); "


def pod_spec(gang: Gang, role: Role, first: int) -> dict[str, Any]:
    """Of the workers of a role, whose first has the rank `first`."""
    words = [escape(word) for word in role.command] if gang.sweep is None else gang.sweep.command(role.command)
    if gang.soft_signal is not None and gang.time_limit is not None:
        after = gang.time_limit - gang.soft_signal.seconds
        words = prepared(_SIGNALLED.format(after=after, name=gang.soft_signal.name), words)
    if first and role.workers > 1 and "RANK" not in gang.environment:
        words = prepared(_RANKED, words)
    whole = [{"secretRef": {"name": secret.name}} for secret in gang.secrets if not secret.key]
    container: dict[str, Any] = {
        "name": "worker",
        "image": gang.image or "none",
        "command": words,
        "env": _environment(gang, role, first),
        # What a worker said last is told of a failure, also when its pod and its log are gone.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if whole:
        container["envFrom"] = whole
    if gang.stdin and first == 0:
        container |= {"stdin": True, "stdinOnce": True} | ({"tty": True} if gang.terminal else {})
    requests = {"cpu": role.cpus, "memory": role.memory}
    resources: dict[str, Any] = {"requests": {name: quantity for name, quantity in requests.items() if quantity}}
    if role.gpus:
        resources["limits"] = {gang.gpu_resource: role.gpus}
    if any(resources.values()):
        container["resources"] = {part: value for part, value in resources.items() if value}
    if gang.working_directory:
        container["workingDir"] = gang.working_directory
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if gang.sweep is not None and gang.time_limit is not None:  # each trial has its own
        spec["activeDeadlineSeconds"] = gang.time_limit
    if volumes := _volumes(gang):
        spec["volumes"] = [volume for volume, _ in volumes]
        container["volumeMounts"] = [mount for _, mount in volumes]
    if gang.terminal:  # an interactive shell does not heed that it is to end
        spec["terminationGracePeriodSeconds"] = _SHELL_SECONDS
    if gang.exclusive:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_others(gang)]}}
    return spec | ({"priorityClassName": gang.priority} if gang.priority else {})


def _volumes(gang: Gang) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Volumes, and where they are mounted."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if gang.elastic is not None:
        file = {"path": _WORLD_FILE, "fieldRef": _annotation(WORLD_ANNOTATION)}
        mount = {"name": "muster", "mountPath": _WORLD_DIRECTORY, "readOnly": True}
        found.append(({"name": "muster", "downwardAPI": {"items": [file]}}, mount))
    if gang.state:
        claim = {"name": "state", "persistentVolumeClaim": {"claimName": gang.state}}
        found.append((claim, {"name": "state", "mountPath": _STATE_DIRECTORY, "subPath": gang.name}))
    return found


def _others(gang: Gang) -> dict[str, Any]:
    """The pods of all other jobs, on the node of a pod."""
    own = JOB_NAME_LABEL if gang.is_job else JOBSET_NAME
    expressions = [
        {"key": JOB_NAME_LABEL, "operator": "Exists"},
        {"key": own, "operator": "NotIn", "values": [gang.name]},
    ]
    selected = {"labelSelector": {"matchExpressions": expressions}, "namespaceSelector": {}}
    return selected | {"topologyKey": "kubernetes.io/hostname"}


def overridden(gang: Gang) -> list[str]:
    """Which variables of the user's take the place of those that tell a worker who it is, and where the others are."""
    own = _own(gang, gang.parts[0], 0).keys()
    return sorted((own - _FREE) & gang.environment.keys())


def _environment(gang: Gang, role: Role, first: int) -> list[dict[str, Any]]:
    """What a worker gets, then what the user asked for, which wins."""
    secret = {
        one.key: {"valueFrom": {"secretKeyRef": {"name": one.name, "key": one.key}}} for one in gang.secrets if one.key
    }
    said = {name: {"value": escape(value)} for name, value in gang.environment.items()}
    given = _own(gang, role, first) | secret | said
    return [{"name": name, **value} for name, value in given.items()]


def _own(gang: Gang, role: Role, first: int) -> dict[str, dict[str, Any]]:
    """What torch.distributed and its like look for, by name."""
    given: dict[str, dict[str, Any]] = {
        "MUSTER_JOB": {"value": gang.name},
        # Output shows as it is written, and workers on one machine do not each start a thread per core.
        "PYTHONUNBUFFERED": {"value": "1"},
        "OMP_NUM_THREADS": {"value": role.cpus if role.cpus.isdigit() and role.cpus != "0" else "1"},
    }
    if gang.state:
        given["MUSTER_STATE"] = {"value": _STATE_DIRECTORY}
    if gang.sweep is not None:  # a trial has nothing to meet
        return gang.sweep.variables() | given
    size: dict[str, Any] = {"value": str(gang.size)}
    if gang.elastic is not None:  # as it is when the worker starts; the file tells of later ones
        size = {"valueFrom": {"fieldRef": _annotation(FIRST_SIZE_ANNOTATION)}}
    index: dict[str, Any] = {"valueFrom": {"fieldRef": _annotation(COMPLETION_INDEX)}}
    given |= {
        "RANK": index if first == 0 else {"value": str(first)},
        "WORLD_SIZE": size,
        "LOCAL_RANK": {"value": "0"},
        "MASTER_ADDR": {"value": master_address(gang)},
        "MASTER_PORT": {"value": str(_FIRST_PORT + zlib.crc32(gang.name.encode()) % _PORTS)},
    }
    if gang.elastic is not None:
        given["MUSTER_WORLD"] = {"value": f"{_WORLD_DIRECTORY}/{_WORLD_FILE}"}
    if not gang.is_job:
        given["MUSTER_ATTEMPT"] = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{RESTART_ATTEMPT}']"}}}
    if gang.roles:
        given |= {
            "MUSTER_ROLE": {"value": role.name},
            "MUSTER_ROLE_RANK": index,
            "MUSTER_ROLE_SIZE": {"value": str(role.workers)},
            "MUSTER_ROLE_FIRST": {"value": str(first)},
        }
    return given


def master_address(gang: Gang) -> str:
    """The host name of rank 0."""
    if gang.is_job:
        return f"{gang.name}-0.{gang.name}"
    return f"{gang.name}-{gang.parts[0].name}-0-0.{gang.name}"


def _annotation(key: str) -> dict[str, str]:
    """A reference to an annotation of the pod."""
    return {"fieldPath": f"metadata.annotations['{key}']"}
