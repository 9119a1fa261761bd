"""Run an interactive shell on this terminal as a job: rank 0 has the terminal, other ranks have logs.

The job ends when the terminal closes.
"""

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click
from msgspec import structs
from msgspec.structs import replace

from muster.actions.following.follow import Follower
from muster.actions.jobs.cancelling import cancel
from muster.actions.parsing.quantities import NOTHING
from muster.actions.server.session import Session
from muster.actions.submission.caller import find_inherited_environment, find_working_directory, make_umask_annotations
from muster.actions.submission.gang import Gang, Role, name_for, no_host_name, not_text, room_for_name
from muster.actions.submission.submitting import submit
from muster.api.core import Pod
from muster.api.status import ApiError
from muster.api.values.shells import HANGS_UP, NAME
from muster.cli.actions.running.entering import make_attach_request
from muster.cli.session import list_heeded_signals
from muster.cli.terminal.liveline import LiveLine
from muster.cli.terminal.output import say
from muster.cli.terminal.printing import Printer
from muster.cli.terminal.progress import Progress
from muster.cli.terminal.remote import Ends, hold, raw_terminal, terminal_size
from muster.cli.terminal.stdin import PROTOCOL, read
from muster.insight.record import JobRecord
from muster.runtime.ids import Ids, Random
from muster.runtime.realclock import RealClock
from muster.runtime.refusals import is_refusal
from muster.runtime.tasks import cancel as give_up
from muster.runtime.transport import TransportError

# A client that attaches does not get earlier output, so the shell starts after the client's first line. If no line
# arrives for two minutes, the client is gone. A read from a terminal waits for at most 25.5 seconds, so it is repeated.
_BEGIN = (
    f"stty -echo -icanon min 0 time 240 2>/dev/null; {' || '.join(['read -r _'] * 5)} || "
    "{ echo no client connected to this terminal; exit 1; }; "
    'stty echo icanon min 1 time 0 2>/dev/null; exec "$@"'
)
_FIRST_LINE = b"\n"
# The role name of rank 0 if there are other workers. It is no longer than `workers`, for which job names reserve space.
_FIRST = "first"
# The seconds within which a job ends by itself after its terminal has closed.
_END_SECONDS = 10.0


def make_shell_gang(
    arguments: Sequence[str], options: dict[str, Any], namespace: str, *, on_this_machine: bool
) -> Gang:
    """Return the gang that runs a shell on this terminal. Raises `click.ClickException` if the options are invalid."""
    if not on_this_machine and not options["image"]:
        raise click.UsageError("workers of this cluster need an image: name one with --image")
    program = list(arguments) or [os.environ.get("SHELL") or "sh" if on_this_machine else "sh"]
    cpus, memory = options["cpus"] or NOTHING, options["memory"] or NOTHING
    gang = Gang(
        name=options["name"],
        command=program,
        namespace=namespace,
        cpus=cpus.request,
        memory=memory.request,
        gpus=options["gpus"],
        cpu_limit=cpus.limit,
        memory_limit=memory.limit,
        image=options["image"],
        queue=options["queue"],
        priority=options["priority"],
        queue_priority=options["queue_priority"],
        working_directory=find_working_directory() if on_this_machine else "",
        environment=find_inherited_environment(os.environ) if on_this_machine else {},
        annotations=make_umask_annotations() if on_this_machine else {},
    )
    if complaint := no_host_name(gang.name, gang.parts):
        raise click.BadParameter(complaint, param_hint="--name")
    if complaint := not_text(gang):
        raise click.UsageError(complaint)
    name = gang.name or name_for(["shell"], Ids().suffix(), room_for_name(gang.parts))
    return on_terminal(replace(gang, name=name))


def on_terminal(gang: Gang) -> Gang:
    """Return the gang with rank 0 connected to a terminal; the job then ends when the terminal closes.

    A terminal is a field of the pod template, so rank 0 of several workers gets a role of its own. Raises
    `click.UsageError` if rank 0 cannot have a template of its own.
    """
    if gang.size > 1 and (gang.mpi or gang.script is not None):
        raise click.UsageError("--tty: the processes that mpirun and srun start on several workers have no terminal")
    first, *others = gang.roles or _separate_first(gang)
    if first.workers > 1:
        raise click.UsageError(f"--tty: rank 0 has the terminal, so the first --role has one worker: {first.name}:1")
    begun = structs.replace(first, command=["sh", "-c", _BEGIN, NAME, *first.command])
    return replace(
        gang,
        command=begun.command,
        roles=(begun, *others) if gang.roles or others else (),
        environment={"TERM": os.environ.get("TERM", "dumb"), **gang.environment},
        stdin=True,
        terminal=True,
        annotations={**gang.annotations, HANGS_UP: "true"},
    )


def _separate_first(gang: Gang) -> list[Role]:
    """Return the roles that replace a gang's only role: rank 0 alone, and the other workers if there are any."""
    [whole] = gang.parts
    if whole.workers == 1:
        return [whole]
    return [structs.replace(whole, name=_FIRST, workers=1), structs.replace(whole, workers=whole.workers - 1)]


async def run_shell(session: Session, gang: Gang, *, named: bool, keeps_job: bool = False) -> int:
    """Submit the shell, and connect it to this terminal until it ends; return its exit code.

    A signal that terminates this command also ends the job. Raises `ApiError`, `TransportError`, `UserError`.

    named: whether the user chose the name of the job.
    keeps_job: whether the ended job and its output stay; otherwise the job is deleted.
    """
    main = asyncio.current_task()
    assert main is not None
    submitting = asyncio.create_task(submit(session.client, gang, say, named=named and not session.own), name="submit")
    with _cancel_on_signals(main) as ended_by:
        try:
            return await _stay_inside(session, gang, submitting)
        except asyncio.CancelledError:
            if not ended_by:
                raise
            return 128 + ended_by[0]
        finally:
            await asyncio.wait({submitting})  # after a refusal, a job of this name is not ours to end
            if not submitting.cancelled() and submitting.exception() is None:
                await _end_job(session, gang, delete=not keeps_job)


async def _stay_inside(session: Session, gang: Gang, submitting: "asyncio.Task[JobRecord]") -> int:
    """Follow the job and connect this terminal to rank 0, until the job ends; return the exit code of the job.

    Raises `click.ClickException` if the job runs on after its terminal has closed.
    """
    job = await asyncio.shield(submitting)
    shell_, several = _Shell(session), gang.size > 1
    if several and session.own:
        say("nothing keeps the output of the workers without a terminal; muster up --detach starts a cluster that does")
    with LiveLine() as line:
        follower = Follower(
            session.client,
            RealClock(),
            Random(),
            gang.namespace,
            gang.name,
            warn=line.say,
            report=Progress(gang.name, gang.size, line.say).report,
            observe=shell_.observe,
        )
        following = asyncio.create_task(follower.run(job), name="follow")
        terminal = asyncio.create_task(shell_.run(), name="terminal")
        try:
            await asyncio.wait({following, terminal}, return_when=asyncio.FIRST_COMPLETED)
            if terminal.done():
                terminal.result()
                await asyncio.wait({following}, timeout=_END_SECONDS)
                if several and shell_.ended and not following.done():
                    line.say(f"{gang.name}: rank 0 has ended, and other workers run; Ctrl-C ends them")
                    await asyncio.wait({following})
            if not following.done():
                raise click.ClickException(f"{gang.name}: its terminal is closed, so the job was ended")
            ending = following.result()
        finally:
            await give_up([following, terminal])
    if ending.text and (several or not shell_.joined):
        say(f"{gang.name}: {ending.text}")
    return ending.code


@contextmanager
def _cancel_on_signals(main: "asyncio.Task[Any]") -> Iterator[list[int]]:
    """Cancel `main` at the first termination signal; yield the list to which that signal is then added."""
    loop, signals, received = asyncio.get_running_loop(), list_heeded_signals(), list[int]()

    def end(number: int) -> None:
        if not received:  # only the first signal counts
            received.append(number)
            main.cancel()

    for number in signals:
        loop.add_signal_handler(number, end, number)
    try:
        yield received
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _end_job(session: Session, gang: Gang, *, delete: bool) -> None:
    try:
        await cancel(session.client, gang.name, gang.namespace, delete=delete)
    except (ApiError, TransportError) as error:
        if not is_refusal(error, "NotFound"):
            outcome, option = ("deleted", " --delete") if delete else ("cancelled", "")
            say(f"{gang.name} is not {outcome}: {error}; muster cancel{option} {gang.name}")


@dataclass(slots=True)
class _Shell:
    """The connection between this terminal and the terminal of rank 0.

    joined: whether the connection was made.
    ended: whether the program on the terminal has ended.
    """

    session: Session
    joined: bool = False
    ended: bool = False
    _pod: "asyncio.Future[Pod]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def observe(self, pod: Pod, rank: str) -> None:
        """Record whether the program of rank 0 has ended, and whether its pod runs; `run` waits for the latter.

        Pods of other ranks are ignored.
        """
        if rank != "0":
            return
        self.ended = any(one.state.terminated is not None for one in pod.status.container_statuses)
        runs = any(one.state.running is not None for one in pod.status.container_statuses)
        if runs and not self._pod.done():
            self._pod.set_result(pod)

    async def run(self) -> None:
        """Wait until the shell's pod runs, and copy both terminals to each other until the shell ends.

        If the connection is lost later, the copying ends without an error. Raises `ApiError`, `TransportError` if the
        server refuses.
        """
        pod = await self._pod
        descriptor, resized, printer = sys.stdin.fileno(), asyncio.Event(), Printer(ranks=False)
        first = [_FIRST_LINE]

        async def next_piece() -> bytes:
            return first.pop() if first else await read(descriptor)

        ends = Ends(next_piece, lambda stream, data: printer.show("", stream, data), terminal_size)
        async with self.session.tunnels.converse(make_attach_request(pod), PROTOCOL) as conversation:
            self.joined = True
            with raw_terminal(descriptor, resized.set):
                try:
                    await hold(conversation, ends, resized)
                except TransportError:
                    return  # the follower reports whether and how the job has ended
