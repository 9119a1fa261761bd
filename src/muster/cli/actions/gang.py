"""What `muster run` submits: a Job of workers that start together, and the headless Service that names them. Pure."""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from muster.api.batch import COMPLETION_INDEX, JOB_NAME_LABEL
from muster.api.elastic import ELASTIC_ANNOTATION, WORLD_ANNOTATION, Bounds, World
from muster.api.expansion import escape
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.simulated import RUN_TIME
from muster.jobs.job.world import FIRST_SIZE_ANNOTATION, annotations, birth_annotations

# A label value and a DNS label: the longest name that leaves room for `-<index>` in a host name.
NAME_LIMIT = 52

# Ports below the usual ephemeral range (32768) that few services use. All gangs of one machine share its ports, so
# each takes its own.
_FIRST_PORT, _PORTS = 20000, 10000

# Where the workers of an elastic gang find its world.
_WORLD_DIRECTORY, _WORLD_FILE = "/etc/muster", "world"

WEEK_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Gang:
    """A command to run as a gang, word for word; the same goes for its environment. Quantities are as in Kubernetes.

    queue: its LocalQueue; "" leaves it to the cluster.
    priority: the PriorityClass of its pods. queue_priority: a WorkloadPriorityClass, which counts in queues only.
    elastic: between which sizes it may be moved; None if it stays as it is.
    run_time: how long simulated nodes play that it runs; "" for ever.
    stdin: whether its workers' standard input comes from who attaches to them; else it is empty.
    """

    name: str
    command: Sequence[str]
    workers: int = 1
    namespace: str = "default"
    cpus: str = ""
    memory: str = ""
    gpus: int = 0
    image: str = ""
    queue: str = ""
    priority: str = ""
    queue_priority: str = ""
    working_directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    elastic: Bounds | None = None
    run_time: str = ""
    stdin: bool = False

    @property
    def most_workers(self) -> int:
        """How many there may be at once."""
        return self.elastic.most if self.elastic is not None else self.workers


def not_text(gang: Gang) -> str:
    """Which part of a gang is no UTF-8, as a sentence: a manifest carries nothing else. "" if all of it is."""
    arguments = {f"argument {number} of the command": word for number, word in enumerate(gang.command)}
    variables = {f"the variable {name}": f"{name}={value}" for name, value in gang.environment.items()}
    parts = {"the working directory": gang.working_directory} | arguments | variables
    # Bytes of the command line that are no UTF-8 come as surrogate escapes, which cannot be encoded.
    what = next((what for what, text in parts.items() if not _is_text(text)), "")
    return f"{what} is not UTF-8 ({parts[what]!a}), and a manifest can only carry text" if what else ""


def no_host_name(name: str, workers: int) -> str:
    """What is wrong with a name that a user gave a job, whose workers are hosts `NAME-INDEX`; "" if it will do."""
    room = 63 - len(f"-{workers - 1}")
    if not name or (re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) and len(name) <= room):
        return ""
    return f"{name!r}: at most {room} of a-z, 0-9 and '-', but no '-' at an end: it becomes part of host names"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def name_for(command: Sequence[str], suffix: str) -> str:
    """A job name that says what runs: `train-digits-x7k2p` for `python examples/train_digits.py`."""
    words = [word for word in command if not word.startswith("-")]
    scripts = [word for word in words if PurePath(word).suffix in (".py", ".sh")]
    stem = PurePath((scripts or words or ["run"])[0]).stem
    slug = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[: NAME_LIMIT - len(suffix) - 1].rstrip("-")
    if not slug or slug[0].isdigit():
        slug = f"run-{slug}".rstrip("-")
    return f"{slug}-{suffix}"


def job(gang: Gang) -> dict[str, Any]:
    """The manifest of the Job."""
    metadata: dict[str, Any] = {"name": gang.name, "namespace": gang.namespace}
    labels = {QUEUE_NAME_LABEL: gang.queue, PRIORITY_CLASS_LABEL: gang.queue_priority}
    if given := {label: value for label, value in labels.items() if value}:
        metadata["labels"] = given
    born = {RUN_TIME: gang.run_time} if gang.run_time else {}
    if gang.elastic is not None:
        world = World(size=gang.workers, epoch=1)
        metadata["annotations"] = {ELASTIC_ANNOTATION: str(gang.elastic)} | annotations(world)
        # For a cluster whose Job controller is not ours; ours gives each pod the world that it is born into.
        born |= birth_annotations(world)
    template = {"metadata": {"annotations": born}} if born else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completions": gang.workers,
            "parallelism": gang.workers,
            "completionMode": "Indexed",
            "backoffLimit": _failures_allowed(gang),
            "ttlSecondsAfterFinished": WEEK_SECONDS,
            "template": template | {"spec": _pod_spec(gang)},
        },
    }


def _failures_allowed(gang: Gang) -> int:
    """A gang that lost a worker is lost; a manifest can ask for retries.

    But an elastic program lives through losses, so its workers are replaced, until as many have failed as it began
    with: what fails on all of them fails at once.
    """
    return gang.workers - 1 if gang.elastic is not None else 0


def service(gang: Gang, job_uid: str = "") -> dict[str, Any]:
    """The headless Service whose name completes the workers' host names; it goes when the Job goes."""
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


def _pod_spec(gang: Gang) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "worker",
        "image": gang.image or "none",
        "command": [escape(word) for word in gang.command],
        "env": _environment(gang),
        # What a worker said last is told of a failure, also when its pod and its log are gone.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if gang.stdin:
        container |= {"stdin": True, "stdinOnce": True}
    requests = {"cpu": gang.cpus, "memory": gang.memory}
    resources: dict[str, Any] = {"requests": {name: quantity for name, quantity in requests.items() if quantity}}
    if gang.gpus:
        resources["limits"] = {"nvidia.com/gpu": gang.gpus}
    if any(resources.values()):
        container["resources"] = {part: value for part, value in resources.items() if value}
    if gang.working_directory:
        container["workingDir"] = gang.working_directory
    spec: dict[str, Any] = {"restartPolicy": "Never", "subdomain": gang.name, "containers": [container]}
    if gang.elastic is not None:
        container["volumeMounts"] = [{"name": "muster", "mountPath": _WORLD_DIRECTORY, "readOnly": True}]
        file = {"path": _WORLD_FILE, "fieldRef": _annotation(WORLD_ANNOTATION)}
        spec["volumes"] = [{"name": "muster", "downwardAPI": {"items": [file]}}]
    return spec | ({"priorityClassName": gang.priority} if gang.priority else {})


def _environment(gang: Gang) -> list[dict[str, Any]]:
    """What torch.distributed and its like look for, then what the user asked for, which wins."""
    size: dict[str, Any] = {"value": str(gang.workers)}
    if gang.elastic is not None:  # as it is when the worker starts; the file tells of later ones
        size = {"valueFrom": {"fieldRef": _annotation(FIRST_SIZE_ANNOTATION)}}
    given: dict[str, dict[str, Any]] = {
        "RANK": {"valueFrom": {"fieldRef": _annotation(COMPLETION_INDEX)}},
        "WORLD_SIZE": size,
        "LOCAL_RANK": {"value": "0"},
        "MASTER_ADDR": {"value": f"{gang.name}-0.{gang.name}"},
        "MASTER_PORT": {"value": str(_FIRST_PORT + zlib.crc32(gang.name.encode()) % _PORTS)},
        "MUSTER_JOB": {"value": gang.name},
        # Output shows as it is written, and workers on one machine do not each start a thread per core.
        "PYTHONUNBUFFERED": {"value": "1"},
        "OMP_NUM_THREADS": {"value": gang.cpus if gang.cpus.isdigit() and gang.cpus != "0" else "1"},
    }
    if gang.elastic is not None:
        given["MUSTER_WORLD"] = {"value": f"{_WORLD_DIRECTORY}/{_WORLD_FILE}"}
    given |= {name: {"value": escape(value)} for name, value in gang.environment.items()}
    return [{"name": name, **value} for name, value in given.items()]


def _annotation(key: str) -> dict[str, str]:
    """A reference to an annotation of the pod."""
    return {"fieldPath": f"metadata.annotations['{key}']"}
