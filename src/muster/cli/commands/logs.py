"""`muster logs`: what a job's workers printed, and print."""

import sys
from typing import Any

import click

from muster.cli.completion import names
from muster.cli.examples import examples
from muster.cli.session import Target, connect, run, target_options


@click.command(
    epilog=examples("muster logs train", "muster logs -f train --rank 0"),
)
@click.argument("job", shell_complete=names.jobs)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends; waits for pods that are not there yet.")
@click.option("--rank", metavar="N", default="", help="Only this worker.")
@target_options
def command(job: str, follow: bool, rank: str, **options: Any) -> None:
    """Print the output of the workers of JOB, each line with its worker's rank."""
    sys.exit(run(_logs(Target.of(options), job, rank, follow=follow)))


async def _logs(target: Target, name: str, rank: str, *, follow: bool) -> int:
    from muster.cli.follow import Follower
    from muster.cli.output import say
    from muster.cli.printing import Printer
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random

    show = Printer(ranks=not rank).show
    async with connect(target) as session:
        if follow:
            ending = await Follower(
                session.client, RealClock(), Random(), session.namespace, name, show=show, warn=say, rank=rank
            ).run()
            return ending.code
        return await _print(session, name, rank, show)


async def _print(session: Any, name: str, rank: str, show: Any) -> int:
    """What there is now, worker by worker."""
    from muster.api.batch import JOB
    from muster.api.core import POD
    from muster.cli.follow import JOB_NAME_LABEL, rank_of
    from muster.runtime.transport import Request

    await session.client.get(JOB, name, session.namespace)
    pods = await session.client.list(POD, session.namespace, labels=f"{JOB_NAME_LABEL}={name}")
    for pod in sorted(pods.items, key=lambda pod: (len(rank_of(pod)), rank_of(pod), pod.metadata.name)):
        if rank and rank_of(pod) != rank:
            continue
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            if status.state.running is None and status.state.terminated is None:
                continue
            path = POD.path(session.namespace, pod.metadata.name, "log")
            response = await session.client.raw(Request("GET", path, {"container": status.name}))
            for line in _lines(response.body):
                show(rank_of(pod), line)
    return 0


def _lines(text: bytes) -> list[bytes]:
    """The lines, the last with or without its end; carriage returns, of which progress bars are full, are text."""
    return text.removesuffix(b"\n").split(b"\n") if text else []
