"""What `muster run` submits: a JobSet with a Job for each role, whose workers start together. Pure.

An elastic gang is a Job with a headless Service that names its workers; so is any gang on a cluster without JobSets.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from muster.api.batch import COMPLETION_INDEX, JOB_NAME_LABEL
from muster.api.elastic import ELASTIC_ANNOTATION, GANG_ANNOTATION, WORLD_ANNOTATION, Bounds, World
from muster.api.expansion import escape
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.simulated import RUN_TIME
from muster.jobs.job.world import FIRST_SIZE_ANNOTATION, annotations, birth_annotations
from muster.jobs.jobset.gang import WHOLE

# The role of a gang that has no roles.
WORKERS = "workers"

# Of a pod's name, what its Job puts behind its index.
_SUFFIX = "-abcde"
_MOST_OF_A_NAME = 63

# Ports below the usual ephemeral range (32768) that few services use. All gangs of one machine share its ports, so
# each takes its own.
_FIRST_PORT, _PORTS = 20000, 10000

# Where the workers of an elastic gang find its world.
_WORLD_DIRECTORY, _WORLD_FILE = "/etc/muster", "world"

# A rank is where its role begins and the index within that: no variable of a manifest can say so.
_RANKED = 'export RANK=$((MUSTER_ROLE_FIRST + MUSTER_ROLE_RANK)); exec "$@"'

WEEK_SECONDS = 7 * 24 * 3600


class Role(Struct, frozen=True):
    """Workers that are alike: what each runs and asks for. Quantities are as in Kubernetes."""

    name: str
    command: Sequence[str]
    workers: int = 1
    cpus: str = ""
    memory: str = ""
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Gang:
    """A command to run as a gang, word for word; the same goes for its environment. Quantities are as in Kubernetes.

    roles: what runs instead of the command, if that is not the same for all.
    until: the role whose end is the end of all; "" if all have to end.
    start_timeout: in how many seconds from the first start all have to have started; None for ever.
    queue: its LocalQueue; "" leaves it to the cluster.
    priority: the PriorityClass of its pods. queue_priority: a WorkloadPriorityClass, which counts in queues only.
    elastic: between which sizes it may be moved; None if it stays as it is.
    run_time: how long simulated nodes play that it runs; "" for ever.
    stdin: whether its first worker's standard input comes from who attaches to it; else it is empty.
    plain: it is made without a JobSet.
    """

    name: str
    command: Sequence[str] = ()
    workers: int = 1
    namespace: str = "default"
    cpus: str = ""
    memory: str = ""
    gpus: int = 0
    roles: Sequence[Role] = ()
    until: str = ""
    start_timeout: int | None = None
    image: str = ""
    queue: str = ""
    priority: str = ""
    queue_priority: str = ""
    working_directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    elastic: Bounds | None = None
    run_time: str = ""
    stdin: bool = False
    plain: bool = False

    @property
    def parts(self) -> Sequence[Role]:
        """Its roles, or the one that has no name of its own."""
        return self.roles or (Role(WORKERS, self.command, self.workers, self.cpus, self.memory, self.gpus),)

    @property
    def is_job(self) -> bool:
        """Whether it is a Job by itself."""
        return self.plain or self.elastic is not None

    @property
    def size(self) -> int:
        """How many workers it begins with."""
        return sum(role.workers for role in self.parts)

    @property
    def most_workers(self) -> int:
        """How many there may be at once."""
        return self.elastic.most if self.elastic is not None else self.size


def not_text(gang: Gang) -> str:
    """Which part of a gang is no UTF-8, as a sentence: a manifest carries nothing else. "" if all of it is."""
    commands = [role.command for role in gang.parts]
    arguments = {f"argument {number} of the command": word for words in commands for number, word in enumerate(words)}
    variables = {f"the variable {name}": f"{name}={value}" for name, value in gang.environment.items()}
    parts = {"the working directory": gang.working_directory} | arguments | variables
    # Bytes of the command line that are no UTF-8 come as surrogate escapes, which cannot be encoded.
    what = next((what for what, text in parts.items() if not _is_text(text)), "")
    return f"{what} is not UTF-8 ({parts[what]!a}), and a manifest can only carry text" if what else ""


def room_for_name(roles: Sequence[Role]) -> int:
    """How long the name of a job may be, whose pods are called `NAME-ROLE-0-INDEX-XXXXX`."""
    return _MOST_OF_A_NAME - max(len(f"-{role.name}-0-{role.workers - 1}{_SUFFIX}") for role in roles)


def no_host_name(name: str, roles: Sequence[Role]) -> str:
    """What is wrong with a name that a user gave a job; "" if nothing is."""
    room = room_for_name(roles)
    if not name or (re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name) and len(name) <= room):
        return ""
    return (
        f"{name!r}: at most {max(room, 0)} of a-z, 0-9 and '-', a letter first, and no '-' at the end: "
        "it becomes part of host names"
    )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def name_for(command: Sequence[str], suffix: str, room: int) -> str:
    """A job name that says what runs: `train-digits-x7k2p` for `python examples/train_digits.py`."""
    words = [word for word in command if not word.startswith("-")]
    scripts = [word for word in words if PurePath(word).suffix in (".py", ".sh")]
    stem = PurePath((scripts or words or ["run"])[0]).stem
    slug = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if not slug or slug[0].isdigit():
        slug = f"run-{slug}"
    return f"{slug[: room - len(suffix) - 1].rstrip('-')}-{suffix}"


def jobset(gang: Gang) -> dict[str, Any]:
    """The manifest of the JobSet."""
    spec: dict[str, Any] = {"ttlSecondsAfterFinished": WEEK_SECONDS}
    if gang.size > 1:  # one alone waits for nobody
        timeout = gang.start_timeout
        spec["groupSchedulingConfig"] = {} if timeout is None else {"timeoutAfterSeconds": timeout}
    if gang.until:
        spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [gang.until]}
    first, roles = 0, []
    for role in gang.parts:
        template = {"spec": _job_spec(gang, role, first)}
        roles.append({"name": role.name, "replicas": 1, "template": template})
        first += role.workers
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(gang) | ({"annotations": {GANG_ANNOTATION: WHOLE}} if len(roles) > 1 else {}),
        "spec": spec | {"replicatedJobs": roles},
    }


def job(gang: Gang) -> dict[str, Any]:
    """The manifest of a Job, of a gang without roles."""
    [role] = gang.parts
    metadata = _metadata(gang)
    if gang.elastic is not None:
        world = World(size=gang.workers, epoch=1)
        metadata["annotations"] = {ELASTIC_ANNOTATION: str(gang.elastic)} | annotations(world)
    spec = _job_spec(gang, role, 0)
    spec["template"]["spec"]["subdomain"] = gang.name
    spec["ttlSecondsAfterFinished"] = WEEK_SECONDS
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _metadata(gang: Gang) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": gang.name, "namespace": gang.namespace}
    labels = {QUEUE_NAME_LABEL: gang.queue, PRIORITY_CLASS_LABEL: gang.queue_priority}
    if given := {label: value for label, value in labels.items() if value}:
        metadata["labels"] = given
    return metadata


def _job_spec(gang: Gang, role: Role, first: int) -> dict[str, Any]:
    """That of the Job of a role, whose first worker has the rank `first`."""
    born = {RUN_TIME: gang.run_time} if gang.run_time else {}
    if gang.elastic is not None:
        # For a cluster whose Job controller is not ours; ours gives each pod the world that it is born into.
        born |= birth_annotations(World(size=gang.workers, epoch=1))
    template = {"metadata": {"annotations": born}} if born else {}
    return {
        "completions": role.workers,
        "parallelism": role.workers,
        "completionMode": "Indexed",
        "backoffLimit": _failures_allowed(gang),
        "template": template | {"spec": _pod_spec(gang, role, first)},
    }


def _failures_allowed(gang: Gang) -> int:
    """A gang that lost a worker is lost; a manifest can ask for retries.

    But an elastic program lives through losses, so its workers are replaced, until as many have failed as it began
    with: what fails on all of them fails at once.
    """
    return gang.workers - 1 if gang.elastic is not None else 0


def service(gang: Gang, job_uid: str = "") -> dict[str, Any]:
    """The headless Service whose name completes the host names of a Job's workers; it goes when the Job goes."""
    metadata: dict[str, Any] = {"name": gang.name, "namespace": gang.namespace}
    if job_uid:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": gang.name, "uid": job_uid}
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "selector": {JOB_NAME_LABEL: gang.name},
            "publishNotReadyAddresses": True,
        },
    }


def _pod_spec(gang: Gang, role: Role, first: int) -> dict[str, Any]:
    words = [escape(word) for word in role.command]
    if first and role.workers > 1 and "RANK" not in gang.environment:
        words = ["sh", "-c", escape(_RANKED), "sh", *words]
    container: dict[str, Any] = {
        "name": "worker",
        "image": gang.image or "none",
        "command": words,
        "env": _environment(gang, role, first),
        # What a worker said last is told of a failure, also when its pod and its log are gone.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if gang.stdin and first == 0:
        container |= {"stdin": True, "stdinOnce": True}
    requests = {"cpu": role.cpus, "memory": role.memory}
    resources: dict[str, Any] = {"requests": {name: quantity for name, quantity in requests.items() if quantity}}
    if role.gpus:
        resources["limits"] = {"nvidia.com/gpu": role.gpus}
    if any(resources.values()):
        container["resources"] = {part: value for part, value in resources.items() if value}
    if gang.working_directory:
        container["workingDir"] = gang.working_directory
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if gang.elastic is not None:
        container["volumeMounts"] = [{"name": "muster", "mountPath": _WORLD_DIRECTORY, "readOnly": True}]
        file = {"path": _WORLD_FILE, "fieldRef": _annotation(WORLD_ANNOTATION)}
        spec["volumes"] = [{"name": "muster", "downwardAPI": {"items": [file]}}]
    return spec | ({"priorityClassName": gang.priority} if gang.priority else {})


def _environment(gang: Gang, role: Role, first: int) -> list[dict[str, Any]]:
    """What torch.distributed and its like look for, then what the user asked for, which wins."""
    size: dict[str, Any] = {"value": str(gang.size)}
    if gang.elastic is not None:  # as it is when the worker starts; the file tells of later ones
        size = {"valueFrom": {"fieldRef": _annotation(FIRST_SIZE_ANNOTATION)}}
    index: dict[str, Any] = {"valueFrom": {"fieldRef": _annotation(COMPLETION_INDEX)}}
    given: dict[str, dict[str, Any]] = {
        "RANK": index if first == 0 else {"value": str(first)},
        "WORLD_SIZE": size,
        "LOCAL_RANK": {"value": "0"},
        "MASTER_ADDR": {"value": master_address(gang)},
        "MASTER_PORT": {"value": str(_FIRST_PORT + zlib.crc32(gang.name.encode()) % _PORTS)},
        "MUSTER_JOB": {"value": gang.name},
        # Output shows as it is written, and workers on one machine do not each start a thread per core.
        "PYTHONUNBUFFERED": {"value": "1"},
        "OMP_NUM_THREADS": {"value": role.cpus if role.cpus.isdigit() and role.cpus != "0" else "1"},
    }
    if gang.elastic is not None:
        given["MUSTER_WORLD"] = {"value": f"{_WORLD_DIRECTORY}/{_WORLD_FILE}"}
    if gang.roles:
        given |= {
            "MUSTER_ROLE": {"value": role.name},
            "MUSTER_ROLE_RANK": index,
            "MUSTER_ROLE_SIZE": {"value": str(role.workers)},
            "MUSTER_ROLE_FIRST": {"value": str(first)},
        }
    given |= {name: {"value": escape(value)} for name, value in gang.environment.items()}
    return [{"name": name, **value} for name, value in given.items()]


def master_address(gang: Gang) -> str:
    """The host name of rank 0."""
    if gang.is_job:
        return f"{gang.name}-0.{gang.name}"
    return f"{gang.name}-{gang.parts[0].name}-0-0.{gang.name}"


def _annotation(key: str) -> dict[str, str]:
    """A reference to an annotation of the pod."""
    return {"fieldPath": f"metadata.annotations['{key}']"}
