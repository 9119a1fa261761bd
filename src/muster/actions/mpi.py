"""Makes the parts of a manifest that MPI needs. Pure.

These are the call of the agent, and the Secret by which the workers identify each other.
"""

import base64
import shlex
import zlib
from typing import Any

from muster.actions.frameworks import host_name
from muster.actions.gang import Gang, Role
from muster.api.core import Secret
from muster.api.ours.elastic import MPI_IDENTITY_VARIABLE
from muster.mpi.launchers import slots

# The key of the Secret.
_KEY = "identity.pem"

# Ports below those of `MASTER_PORT`, on which a program may listen at all addresses.
_FIRST_PORT, _PORTS = 14000, 6000

# In an image without Muster a shell would say only that a command is not found.
_MISSING = "mpirun over several workers needs the command muster in the image"
_CALL = 'command -v {program} >/dev/null || {{ echo "{missing}" >&2; exit 127; }}; exec {agent} -- "$@"'


def agent_call(gang: Gang, role: Role) -> str:
    """Return the shell line that calls the agent with the shell's arguments as the command."""
    pattern = host_name(gang, role, 0).replace("-0.", "-{}.")
    port = _FIRST_PORT + zlib.crc32(gang.name.encode()) % _PORTS
    numbers = f"--workers {role.workers} --slots {slots(role.cpus, role.gpus)} --port {port}"
    agent = f"{gang.mpi} mpi-agent --hosts {shlex.quote(pattern)} {numbers}"
    program = shlex.quote(shlex.split(gang.mpi)[0])
    return _CALL.format(program=program, missing=_MISSING, agent=agent)


def identity_variable(gang: Gang) -> dict[str, dict[str, Any]]:
    """Return the variable that holds the identity of the job, as an entry of a container's environment."""
    return {MPI_IDENTITY_VARIABLE: {"valueFrom": {"secretKeyRef": {"name": secret_name(gang), "key": _KEY}}}}


def secret_name(gang: Gang) -> str:
    """Return the name of the Secret that holds the identity of the job."""
    return f"{gang.name}-mpi"


def has_identity(found: Secret) -> bool:
    """Return whether this Secret was made for a job of MPI."""
    return set(found.data) == {_KEY}


def secret(gang: Gang, identity: bytes) -> dict[str, Any]:
    """Return the manifest of the Secret that holds the identity of the job."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(gang), "namespace": gang.namespace},
        "type": "Opaque",
        "data": {_KEY: base64.b64encode(identity).decode()},
    }
