"""What `muster run` submits: a Job of workers that start together, and the headless Service that names them. Pure."""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from muster.api.batch import COMPLETION_INDEX, JOB_NAME_LABEL

# A label value and a DNS label: the longest name that leaves room for `-<index>` in a host name.
NAME_LIMIT = 52

# Ports below the usual ephemeral range (32768) that few services use. All gangs of one machine share its ports, so
# each takes its own.
_FIRST_PORT, _PORTS = 20000, 10000

WEEK_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Gang:
    """A command to run as a gang. Quantities are as in Kubernetes."""

    name: str
    command: Sequence[str]
    workers: int = 1
    namespace: str = "default"
    cpus: str = ""
    memory: str = ""
    gpus: int = 0
    image: str = ""
    priority: str = ""
    working_directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


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
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": gang.name, "namespace": gang.namespace},
        "spec": {
            "completions": gang.workers,
            "parallelism": gang.workers,
            "completionMode": "Indexed",
            # A gang that lost a worker is lost; whoever wants retries says so in a manifest.
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": WEEK_SECONDS,
            "template": {"spec": _pod_spec(gang)},
        },
    }


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
        "command": list(gang.command),
        "env": _environment(gang),
    }
    requests = {"cpu": gang.cpus, "memory": gang.memory}
    resources: dict[str, Any] = {"requests": {name: quantity for name, quantity in requests.items() if quantity}}
    if gang.gpus:
        resources["limits"] = {"nvidia.com/gpu": gang.gpus}
    if any(resources.values()):
        container["resources"] = {part: value for part, value in resources.items() if value}
    if gang.working_directory:
        container["workingDir"] = gang.working_directory
    spec = {"restartPolicy": "Never", "subdomain": gang.name, "containers": [container]}
    return spec | ({"priorityClassName": gang.priority} if gang.priority else {})


def _environment(gang: Gang) -> list[dict[str, Any]]:
    """What torch.distributed and its like look for, then what the user asked for, which wins."""
    index = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}}
    given: dict[str, dict[str, Any]] = {
        "RANK": index,
        "WORLD_SIZE": {"value": str(gang.workers)},
        "LOCAL_RANK": {"value": "0"},
        "MASTER_ADDR": {"value": f"{gang.name}-0.{gang.name}"},
        "MASTER_PORT": {"value": str(_FIRST_PORT + zlib.crc32(gang.name.encode()) % _PORTS)},
        "MUSTER_JOB": {"value": gang.name},
        # Output shows as it is written, and workers on one machine do not each start a thread per core.
        "PYTHONUNBUFFERED": {"value": "1"},
        "OMP_NUM_THREADS": {"value": gang.cpus if gang.cpus.isdigit() and gang.cpus != "0" else "1"},
    }
    given |= {name: {"value": value} for name, value in gang.environment.items()}
    return [{"name": name, **value} for name, value in given.items()]
