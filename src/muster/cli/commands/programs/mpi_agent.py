"""`muster mpi-agent`: the program of each worker if the command of `muster run` is `mpirun`."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from muster.mpi.hosts import Hosts

IDENTITY_VARIABLE = "MUSTER_MPI_IDENTITY"
_RANK_VARIABLE = "JOB_COMPLETION_INDEX"


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--hosts", "pattern", required=True, metavar="NAME", help="Host name of a worker; {} is its rank.")
@click.option("--workers", required=True, metavar="N", type=click.IntRange(min=1), help="How many workers there are.")
@click.option("--slots", default=1, metavar="N", type=click.IntRange(min=1), help="MPI processes of each worker.")
@click.option("--port", required=True, metavar="P", type=click.IntRange(1, 65535), help="Where the agents listen.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- MPIRUN...")
def command(pattern: str, workers: int, slots: int, port: int, command: tuple[str, ...]) -> None:
    """Run MPIRUN on rank 0 of a job; on the other workers, run the processes that MPIRUN starts there.

    Muster itself calls this in the workers of: muster run --workers 8 -- mpirun python a.py
    """
    from muster.mpi.hosts import Hosts

    rank, identity = os.environ.get(_RANK_VARIABLE, ""), os.environ.pop(IDENTITY_VARIABLE, "")
    if not rank.isdecimal() or not identity:
        raise click.UsageError("this runs within a job alone; try: muster run --workers 8 -- mpirun python a.py")
    hosts = Hosts(pattern, workers, slots, port)
    sys.exit(asyncio.run(_serve(hosts, int(rank), identity.encode(), command)))


async def _serve(hosts: "Hosts", rank: int, identity: bytes, command: tuple[str, ...]) -> int:
    """Run `mpirun` on rank 0, or the agent on any other rank; return the exit code."""
    from muster.mpi import launch
    from muster.mpi.agent import Agent
    from muster.mpi.identity import client_context, server_context
    from muster.mpi.network import address_of, interface_of
    from muster.mpi.variables import daemon_variables
    from muster.runtime.realclock import RealClock

    clock = RealClock()
    address = await address_of(hosts.name(rank), clock)
    interface = interface_of(address)
    with tempfile.TemporaryDirectory(prefix="muster-mpi-") as name:
        directory = Path(name)
        launch.write_files(directory, hosts, identity)
        file = directory / "identity.pem"
        if rank == 0:
            variables = launch.make_variables(directory, hosts, interface) | os.environ
            return await launch.Launch(hosts, client_context(file), clock).run(command, variables)
        variables = daemon_variables(interface) | os.environ
        context = server_context(file)
    return await Agent(variables, hosts.name(0), clock).run(address, hosts.port, context)
