"""A job of one worker that is a shell on our terminal, and goes with it."""

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import click

from muster.actions.caller import inherited, working_directory
from muster.actions.cancelling import cancel
from muster.actions.following.follow import Follower
from muster.actions.gang import Gang, name_for, no_host_name, not_text, room_for_name
from muster.actions.session import Session
from muster.actions.submitting import submit
from muster.api.core import Pod
from muster.api.status import ApiError
from muster.api.values.shells import HANGS_UP, NAME
from muster.cli.actions.entering import joining
from muster.cli.session import unignored
from muster.cli.terminal.liveline import LiveLine
from muster.cli.terminal.output import say
from muster.cli.terminal.printing import Printer
from muster.cli.terminal.progress import Progress
from muster.cli.terminal.remote import Ends, hold, raw_terminal, terminal_size
from muster.cli.terminal.stdin import PROTOCOL, read
from muster.runtime.clock import RealClock
from muster.runtime.ids import Ids, Random
from muster.runtime.refusals import is_refusal
from muster.runtime.tasks import cancel as give_up
from muster.runtime.transport import TransportError

# What is printed before a terminal is joined is not seen there: so the shell begins with the first line that comes. If
# none does for two minutes, its client has gone before it came; a terminal waits for less than half of one at once.
_BEGIN = (
    f"stty -echo -icanon min 0 time 240 2>/dev/null; {' || '.join(['read -r _'] * 5)} || "
    "{ echo nobody came to this terminal; exit 1; }; "
    'stty echo icanon min 1 time 0 2>/dev/null; exec "$@"'
)
_FIRST_LINE = b"\n"
# After its terminal has gone, a job ends within this time, or is ended.
_END_SECONDS = 10.0


def shell(arguments: Sequence[str], options: dict[str, Any], namespace: str, *, on_this_machine: bool) -> Gang:
    """The gang of one. Raises `click.ClickException` if it cannot be."""
    if not on_this_machine and not options["image"]:
        raise click.UsageError("this cluster runs images: say which with --image")
    program = list(arguments) or [os.environ.get("SHELL") or "sh" if on_this_machine else "sh"]
    terminal = {"TERM": os.environ.get("TERM", "dumb")}
    gang = Gang(
        name=options["name"],
        command=["sh", "-c", _BEGIN, NAME, *program],
        namespace=namespace,
        cpus=options["cpus"] or "",
        memory=options["memory"] or "",
        gpus=options["gpus"],
        image=options["image"],
        queue=options["queue"],
        priority=options["priority"],
        queue_priority=options["queue_priority"],
        working_directory=working_directory() if on_this_machine else "",
        environment=(inherited(os.environ) if on_this_machine else {}) | terminal,
        stdin=True,
        terminal=True,
        annotations={HANGS_UP: "true"},
    )
    if complaint := no_host_name(gang.name, gang.parts):
        raise click.BadParameter(complaint, param_hint="--name")
    if complaint := not_text(gang):
        raise click.UsageError(complaint)
    if gang.name:
        return gang
    return replace(gang, name=name_for(["shell"], Ids().suffix(), room_for_name(gang.parts)))


async def stay(session: Session, gang: Gang, *, named: bool) -> int:
    """Submit it, and be in it until it ends; the exit code. Whatever ends this, the job goes, too."""
    main = asyncio.current_task()
    assert main is not None
    with _ending(main) as ended_by:
        try:
            return await _inside(session, gang, named=named)
        except asyncio.CancelledError:
            if not ended_by:
                raise
            return 128 + ended_by[0]
        finally:
            await _remove(session, gang)


async def _inside(session: Session, gang: Gang, *, named: bool) -> int:
    job = await submit(session.client, gang, say, named=named and not session.own)
    shell_ = _Shell(session)
    with LiveLine() as line:
        follower = Follower(
            session.client,
            RealClock(),
            Random(),
            gang.namespace,
            gang.name,
            warn=line.say,
            report=Progress(gang.name, 1, line.say).report,
            observe=shell_.observe,
        )
        following = asyncio.create_task(follower.run(job), name="follow")
        terminal = asyncio.create_task(shell_.run(), name="terminal")
        try:
            await asyncio.wait({following, terminal}, return_when=asyncio.FIRST_COMPLETED)
            if terminal.done():
                terminal.result()
                await asyncio.wait({following}, timeout=_END_SECONDS)
            if not following.done():
                raise click.ClickException(f"{gang.name}: its terminal has gone, and it is ended")
            ending = following.result()
        finally:
            await give_up([following, terminal])
    if ending.text and not shell_.joined:
        say(f"{gang.name}: {ending.text}")
    return ending.code


@contextmanager
def _ending(main: "asyncio.Task[Any]") -> Iterator[list[int]]:
    """The signals that ask this command to end cancel it; which did, is told."""
    loop, signals, told = asyncio.get_running_loop(), unignored(), list[int]()

    def end(number: int) -> None:
        if not told:  # what is left to be done is done once
            told.append(number)
            main.cancel()

    for number in signals:
        loop.add_signal_handler(number, end, number)
    try:
        yield told
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _remove(session: Session, gang: Gang) -> None:
    try:
        await cancel(session.client, gang.name, gang.namespace, delete=True)
    except (ApiError, TransportError) as error:
        if not is_refusal(error, "NotFound"):
            say(f"{gang.name} is not deleted: {error}; muster cancel --delete {gang.name}")


@dataclass(slots=True)
class _Shell:
    """Our terminal, joined to that of a pod once it runs."""

    session: Session
    joined: bool = False
    _pod: "asyncio.Future[Pod]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def observe(self, pod: Pod, _rank: str) -> None:
        """A pod of the job is like that now."""
        runs = any(one.state.running is not None for one in pod.status.container_statuses)
        if runs and not self._pod.done():
            self._pod.set_result(pod)

    async def run(self) -> None:
        """Until it ends. Raises `ApiError`, `TransportError` if it cannot be joined."""
        pod = await self._pod
        descriptor, resized, printer = sys.stdin.fileno(), asyncio.Event(), Printer(ranks=False)
        first = [_FIRST_LINE]

        async def next_piece() -> bytes:
            return first.pop() if first else await read(descriptor)

        ends = Ends(next_piece, lambda stream, data: printer.show("", stream, data), terminal_size)
        async with self.session.tunnels.converse(joining(pod), PROTOCOL) as conversation:
            self.joined = True
            with raw_terminal(descriptor, resized.set):
                try:
                    await hold(conversation, ends, resized)
                except TransportError:
                    return  # whether the job has ended, and how, is heard of elsewhere
