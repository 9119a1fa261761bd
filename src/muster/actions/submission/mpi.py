"""Make the parts of a manifest for MPI jobs. Pure.

The parts are the call of the agent, and the Secret with which the workers authenticate each other.
"""

import base64
import shlex
import zlib
from typing import Any

from muster.actions.submission.frameworks import host_pattern
from muster.actions.submission.gang import Gang, Role
from muster.actions.submission.inworkers import call_muster
from muster.api.core import Secret
from muster.api.ours.elastic import MPI_IDENTITY_VARIABLE
from muster.mpi.launchers import count_slots

# The only key of the Secret.
_KEY = "identity.pem"

# Ports below the ports of `MASTER_PORT`, where a program may listen on all addresses.
_FIRST_PORT, _PORTS = 14000, 6000

_MISSING = "workers that mpirun or srun reaches need the command muster in the image"


def agent_call(gang: Gang, role: Role) -> str:
    """Return the shell line with which a worker calls the MPI agent. The command follows as arguments of the shell."""
    pattern = shlex.quote(host_pattern(gang, role))
    port = _FIRST_PORT + zlib.crc32(gang.name.encode()) % _PORTS
    processes = count_slots(role.cpus, role.gpus) if gang.script is None else gang.script.batch.tasks_per_node
    numbers = f"--workers {role.workers} --slots {processes} --port {port}"
    return call_muster(gang.mpi, f"mpi-agent --hosts {pattern} {numbers}", _MISSING)


def identity_variable(gang: Gang) -> dict[str, dict[str, Any]]:
    """Return the container's variable with the identity of an MPI job, by name. Its value comes from the Secret."""
    return {MPI_IDENTITY_VARIABLE: {"valueFrom": {"secretKeyRef": {"name": secret_name(gang), "key": _KEY}}}}


def secret_name(gang: Gang) -> str:
    """Return the name of the Secret that contains the identity of an MPI job."""
    return f"{gang.name}-mpi"


def has_identity(secret: Secret) -> bool:
    """Return whether a Secret looks like the identity of an MPI job: it has exactly that key."""
    return set(secret.data) == {_KEY}


def make_secret(gang: Gang, identity: bytes) -> dict[str, Any]:
    """Return the manifest of the Secret that contains the identity of an MPI job."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(gang), "namespace": gang.namespace},
        "type": "Opaque",
        "data": {_KEY: base64.b64encode(identity).decode()},
    }
