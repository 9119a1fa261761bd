"""The replacement of ssh for `mpirun`: a program with the arguments `DIRECTORY [OPTIONS] HOST COMMAND...`.

DIRECTORY is the job's directory, as `launch.write_files` fills it. The program asks the agent of the worker HOST to run
COMMAND, prints the output, and exits with COMMAND's exit code. For the host of rank 0 the program executes COMMAND
itself. COMMAND has no standard input, because the daemons of MPI read none. `mpirun` starts this program once per
worker, so it imports only the standard library, which is fast.
"""

import json
import os
import shlex
import socket
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

# The file with the original environment of a script's worker, for daemons and tasks that need the script's changes.
ENVIRONMENT = "environment.json"
# Options of ssh that have a value in the next word.
_WITH_VALUE = frozenset({"-i", "-l", "-o", "-p"})
_HEADER = 5  # the number of bytes: a channel and four bytes of length, as in `frames`
_ENDED = 0
_LOST = 255  # the exit code of ssh if it cannot connect


def parse(words: list[str]) -> tuple[str, str]:
    """Split the arguments of ssh into the host, and the command as one line for the shell. Raises `ValueError`."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _WITH_VALUE else 1
    if at + 1 >= len(words):
        raise ValueError("expected [OPTIONS] HOST COMMAND...")
    return words[at], " ".join(words[at + 1 :])


def find_rank(host: str, names: list[str]) -> int:
    """Return the rank of a host. Some launchers shorten the name at the first dot. Raises `ValueError`."""
    if host in names:
        return names.index(host)
    labels = [name.partition(".")[0] for name in names]
    if host in labels:
        return labels.index(host)
    raise ValueError(f"{host} is no worker of this job")


def export(environment: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Return shell commands that export the variables that the user's script set before it called `mpirun`.

    environment: the current environment.
    before: the environment in which the script started. Variables that are equal in both are not exported, because the
    other worker has its own.
    """
    changed = {name: value for name, value in environment.items() if before.get(name) != value}
    return "".join(f"export {name}={shlex.quote(value)}; " for name, value in changed.items() if name.isidentifier())


def read_environment(directory: Path) -> Mapping[str, str]:
    """Read the environment in which this worker's script started; return the current one if the file does not exist."""
    try:
        environment: dict[str, str] = json.loads((directory / ENVIRONMENT).read_text())
    except FileNotFoundError:
        return os.environ
    return environment


def connect(directory: Path, address: tuple[str, int]) -> ssl.SSLSocket:
    """Connect over TLS to the agent at this address, which must present the job's certificate.

    directory: the directory with the certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    identity = directory / "identity.pem"
    context.load_cert_chain(identity)
    context.load_verify_locations(identity)
    return context.wrap_socket(socket.create_connection(address))


def run(connection: ssl.SSLSocket, request: dict[str, Any]) -> int:
    """Send the agent a request, and print the command's output to stdout and stderr; return the command's exit code.

    Raises `ConnectionError` if the agent disconnects before the command exits.
    """
    connection.sendall(json.dumps(request).encode() + b"\n")
    stream = connection.makefile("rb")
    while header := stream.read(_HEADER):
        data = stream.read(int.from_bytes(header[1:], "big"))
        if header[0] == _ENDED:
            return int(data)
        while data:
            data = data[os.write(header[0], data) :]
    raise ConnectionError("the worker has gone")


def main(words: list[str]) -> NoReturn:
    """Run the command on the host, both from the program's arguments; exit with the command's exit code."""
    directory = Path(words[0])
    job = json.loads((directory / "job.json").read_text())
    try:
        host, command = parse(words[1:])
        rank = find_rank(host, job["names"])
        if rank == 0:
            os.execv("/bin/sh", ["sh", "-c", command])  # noqa: S606
        command = export(os.environ, read_environment(directory)) + command
        sys.exit(run(connect(directory, (job["names"][rank], job["port"])), {"command": command}))
    except (OSError, ValueError) as error:
        print(f"muster: {words[1:2] and ' '.join(words[1:])[:200]}: {error}", file=sys.stderr)
        sys.exit(_LOST)


if __name__ == "__main__":
    main(sys.argv[1:])
