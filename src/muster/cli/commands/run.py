"""`muster run`: run a command as a gang."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.roles import role, segment, split
from muster.cli.names.types import memory, quantity
from muster.cli.session import Session, Target, connect, has_cluster, run, target_options, unignored

if TYPE_CHECKING:
    from muster.cli.actions.cancelling import Cancelling
    from muster.cli.actions.gang import Gang, Role
    from muster.insight.jobstate import Ending
    from muster.insight.record import JobRecord

# What a worker on this machine gets of the caller's environment without asking: enough to find the same programs.
_INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")

_STDIN = 0

# The only namespace of a cluster of the command's own.
_OWN_NAMESPACE = "default"


class _Run(click.Command):
    """Reads the options before the command; what looks like one of them after it is the command's, which is said."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args, behind_colons = split(args)
        separated = "--" in args
        rest = super().parse_args(ctx, args)
        ctx.params["behind_colons"] = [segment(words) for words in behind_colons]
        ours = {name for parameter in self.params for name in parameter.opts if name.startswith("--")}
        words: tuple[str, ...] = ctx.params.get("arguments") or ()
        for word in () if separated or ctx.resilient_parsing else words:
            if word.partition("=")[0] in ours:
                click.echo(f"{word} is an argument of {words[0]}; options of muster go before it", err=True)
        return rest


@click.command(
    cls=_Run,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog=examples(
        "muster run --workers 4 -- python train.py",
        "muster run -w 8 --gpus 1 --queue vision --detach -- python train.py",
        "muster run --elastic 2:8 -- python train.py",
        "muster run --role driver --role worker:8,gpus=1 -- python train.py",
        "muster run --role head -- ./head.sh : --role worker:4 -- ./worker.sh",
        "muster run --workers 4 --dry-run -- python train.py > train.yaml",
    ),
)
@click.option("-w", "--workers", type=click.IntRange(min=1), help="How many workers (default: 1; with --elastic, MAX).")
@click.option(
    "--role",
    "roles",
    metavar="NAME[:N][,gpus=N]...",
    multiple=True,
    type=role,
    help="A role and how many workers it has, with cpus=, memory= and gpus= of its own; may be repeated. "
    "A role with another command follows a colon.",
)
@click.option("--until", metavar="ROLE", default="", help="The job is done once this role is (default: once all are).")
@click.option(
    "--start-timeout", metavar="TIME", default="", help="Fail if not all workers have started by then, as 90s or 10m."
)
@click.option("--elastic", metavar="MIN:MAX", default="", help="Let the job shrink and grow while it runs.")
@click.option("--cpus", metavar="Q", type=quantity, help="CPUs of each worker, as 2 or 500m.")
@click.option("--memory", metavar="Q", type=memory, help="Memory of each worker, as 4Gi.")
@click.option("--gpus", type=click.IntRange(min=0), default=0, help="GPUs of each worker.")
@click.option(
    "-q",
    "--queue",
    metavar="Q",
    default="",
    help="The LocalQueue to wait in (default: the namespace's).",
    shell_complete=names.local_queues,
)
@click.option("--priority", metavar="P", default="", help="A WorkloadPriorityClass, or else a PriorityClass.")
@click.option("--name", metavar="N", default="", help="Name of the job (default: from the command).")
@click.option("-e", "--env", metavar="K[=V]", multiple=True, help="Environment; without a value, the caller's.")
@click.option("--image", metavar="IMAGE", default="", help="Container image, where nodes have images.")
@click.option(
    "--run-time", metavar="TIME", default="", help="How long simulated nodes play that it runs, as 90s or 1h."
)
@click.option(
    "--stdin/--no-stdin",
    default=None,
    help="Whether rank 0 reads our standard input (default: yes, if that is a pipe or a file).",
)
@click.option("--detach", is_flag=True, help="Submit, say how to follow, and return.")
@click.option("--dry-run", is_flag=True, help="Print what would be submitted, and submit nothing.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Form of --dry-run (default: yaml).")
@target_options
@click.argument("arguments", nargs=-1, required=True, metavar="-- COMMAND...", shell_complete=names.files)
def command(arguments: tuple[str, ...], **options: Any) -> None:
    """Run COMMAND on every worker, all together or not at all, and return its exit code.

    COMMAND begins once all workers have started. Each finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT
    in its environment, and one with a role also MUSTER_ROLE, MUSTER_ROLE_RANK and MUSTER_ROLE_SIZE; in an elastic job,
    the file $MUSTER_WORLD tells it of new sizes. Without a running cluster, one is started for as long as the command
    runs. Ctrl-C ends the job gracefully.
    """
    target = Target.of(options)
    if target.namespace.isdecimal() or (target.namespace == "p" and arguments[0].isdecimal()):  # -n 4, -np 4
        raise click.BadParameter(f"{target.namespace} is a namespace; did you mean --workers?", param_hint="-n")
    if options["output"] and not options["dry_run"]:
        raise click.UsageError("-o is the form of --dry-run; without that there is nothing to print")
    if options["dry_run"]:
        classes = run(_looked_up(options["priority"], target))
        _print(arguments, options | classes, target)
        return
    options["stdin"] = _passes_stdin(options)
    sys.exit(run(_run(arguments, options, target)))


def _passes_stdin(options: dict[str, Any]) -> bool:
    """Whether the job gets our standard input. Raises `click.UsageError` where it is asked for and cannot."""
    from muster.cli.terminal.output import say
    from muster.cli.terminal.stdin import can_come, is_there

    asked = options["stdin"]
    kind = "detached" if options["detach"] else "elastic" if options["elastic"] else ""
    if asked is False or not (asked or can_come(_STDIN)):
        return False
    if kind and asked:
        raise click.UsageError(f"--stdin: nothing reads the standard input of a job that is {kind}")
    if kind and is_there(_STDIN):
        say(f"the standard input is not passed on, as the job is {kind} (--no-stdin)")
    return not kind


async def _run(arguments: Sequence[str], options: dict[str, Any], target: Target) -> int:
    from muster.cli.terminal.output import say

    if has_cluster(target):
        async with connect(target) as session:
            if session.where:  # it may be one that the user has forgotten about
                say(f"cluster: {session.where}")
            return await _submit(session, arguments, options)
    if options["detach"]:
        raise click.UsageError("--detach needs a running cluster; start one with: muster up --detach")
    if target.namespace not in ("", _OWN_NAMESPACE):
        raise click.UsageError(f"no cluster runs, so there is no namespace {target.namespace}")
    async with _own_cluster() as session:
        return await _submit(session, arguments, options)


@asynccontextmanager
async def _own_cluster() -> AsyncIterator[Session]:
    """A cluster in this process, with nothing on disk that outlives it."""
    from muster.cluster.embedded import ephemeral

    async with ephemeral() as running:
        client = running.plane.client(manager="muster-cli")
        yield Session(client, _OWN_NAMESPACE, running.abandon, own=True, tunnels=client.transport)


async def _submit(session: Session, arguments: Sequence[str], options: dict[str, Any]) -> int:
    from muster.cli.names.choices import check_queue, priority_classes
    from muster.insight.reader.queues import is_embedded

    # A Job may name what is not there, and would wait for ever: in no queue, or for pods that may not be made.
    if options["queue"]:
        await check_queue(session.client, session.namespace, options["queue"])
    options = options | await priority_classes(session.client, options["priority"])
    embedded = await is_embedded(session.client)
    gang = _gang(arguments, options, session.namespace, on_this_machine=embedded)
    named, detach = bool(options["name"]), options["detach"]
    return await _interruptible(session, gang, named=named, detach=detach, embedded=embedded)


async def _interruptible(session: Session, gang: "Gang", *, named: bool, detach: bool, embedded: bool) -> int:
    """Submit the gang and stay with it; from the first request on Ctrl-C cancels the job, and again leaves at once."""
    from muster.api.status import ApiError
    from muster.cli.actions.cancelling import Cancelling, cancel
    from muster.cli.actions.submitting import submit
    from muster.cli.terminal.output import say
    from muster.cli.terminal.streams import OutputError

    submitting = asyncio.create_task(submit(session.client, gang, say, named=named and not session.own), name="submit")

    async def end() -> None:
        await asyncio.wait({submitting})  # only the answer says whether there is a job
        if not submitting.cancelled() and submitting.exception() is None:
            await cancel(session.client, gang.name, gang.namespace, delete=session.own)

    def leave() -> None:
        session.leave()
        staying.cancel()

    cancelling = Cancelling(gang.name, end, leave, say)
    staying = asyncio.create_task(_stay(session, gang, submitting, cancelling, detach=detach, embedded=embedded))
    with _told(cancelling.interrupt):
        try:
            ending = await staying
        except asyncio.CancelledError:
            if not cancelling.begun:
                raise
            return cancelling.code
        except ApiError as error:
            if not (cancelling.begun and error.code == 404):
                raise
            return cancelling.code  # it was gone before it could be looked at
        except OutputError:
            if not detach:
                await end()  # as a program ends that writes to a pipe without a reader
            raise
        finally:
            await cancelling.close()
    if cancelling.begun:
        return cancelling.code
    if ending.text:
        say(f"{gang.name}: {ending.text}")
    return ending.code


@contextmanager
def _told(interrupt: Callable[[int], None]) -> Iterator[None]:
    """Hand over the signals that ask this command to end."""
    loop, signals = asyncio.get_running_loop(), unignored()
    for number in signals:
        loop.add_signal_handler(number, interrupt, number)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _stay(
    session: Session,
    gang: "Gang",
    submitting: "asyncio.Task[JobRecord]",
    cancelling: "Cancelling",
    *,
    detach: bool,
    embedded: bool,
) -> "Ending":
    """Say what there is to say of the job, and stay until it ends; a detached one is left unless it is cancelled."""
    from muster.cli.terminal.output import say
    from muster.insight.jobstate import Ending
    from muster.insight.reader.queues import is_simulated

    created = await submitting
    if embedded and not session.own and await is_simulated(session.client):
        say("the nodes of this cluster are simulated: nothing is run")
    asks = any(role.cpus or role.memory or role.gpus for role in gang.parts)
    # To find out takes as long as to submit: one worker that asks for nothing fits into any cluster of our own.
    if session.own and (asks or gang.most_workers > 1) and (hopeless := await _hopeless(session, created)):
        raise click.ClickException(hopeless)  # what a cluster that goes with the command has no room for never starts
    if detach:
        hopeless = await _hopeless(session, created) if asks else ""
        if not cancelling.begun:
            click.echo(gang.name)
            if hopeless:
                say(hopeless)
            name = gang.name
            say(f"follow it:  muster logs -f {name}\nlook at it:  muster ps\nstop it:    muster cancel {name}")
            return Ending(0, "")
    return await _follow(session, gang, created)


async def _hopeless(session: Session, job: "JobRecord") -> str:
    """Why the job can never start, as a sentence; "" if nothing that the user may see proves that."""
    from muster.api.kueue.names import QUEUE_NAME_LABEL
    from muster.insight.never import ask_of, verdict
    from muster.insight.reader.lists import Lists
    from muster.insight.reader.room import survey

    queue = job.metadata.labels.get(QUEUE_NAME_LABEL, "")
    found = verdict(ask_of(job), await survey(Lists(session.client), session.namespace), job.metadata.namespace, queue)
    return f"{job.metadata.name} {found.sentence}" if found.text else ""


async def _follow(session: Session, gang: "Gang", job: "JobRecord") -> "Ending":
    """Show the job's output until it ends."""
    from muster.cli.following.follow import Follower
    from muster.cli.terminal.output import say
    from muster.cli.terminal.printing import Printer
    from muster.cli.terminal.progress import Progress
    from muster.cli.terminal.stdin import Feeding, read
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random

    name, namespace, workers = gang.name, gang.namespace, gang.most_workers
    printer, report = Printer(ranks=workers > 1), Progress(name, workers, say).report
    feeding = Feeding(session.tunnels, RealClock(), partial(read, _STDIN), say)
    follower = Follower(
        session.client, RealClock(), Random(), namespace, name, show=printer.show, warn=say, report=report
    )
    if gang.stdin:
        follower.observe = feeding.observe
    try:
        ending = await follower.run(job)
        await printer.finish()
    finally:
        await feeding.close()
    return ending


async def _looked_up(priority: str, target: Target) -> dict[str, str]:
    """Which kind of class is meant; without a cluster to ask, a PriorityClass, which every cluster knows."""
    from muster.cli.names.choices import priority_classes

    if not priority or not has_cluster(target):
        return {"priority": priority, "queue_priority": ""}
    async with connect(target) as session:
        return await priority_classes(session.client, priority)


def _print(arguments: Sequence[str], options: dict[str, Any], target: Target) -> None:
    from muster.cli.actions.gang import job, jobset, service
    from muster.cli.terminal.output import dump

    gang = _gang(arguments, options, target.namespace or "default", on_this_machine=not options["image"])
    documents = [service(gang), job(gang)] if gang.is_job else [jobset(gang)]
    if options["output"] == "json":
        whole = {"apiVersion": "v1", "kind": "List", "items": documents} if len(documents) > 1 else documents[0]
        click.echo(dump(whole, "json"))
    else:
        click.echo("\n---\n".join(dump(document, "yaml") for document in documents))


def _gang(arguments: Sequence[str], options: dict[str, Any], namespace: str, *, on_this_machine: bool) -> Any:
    from muster.cli.actions.gang import Gang, name_for, no_host_name, not_text, room_for_name
    from muster.runtime.ids import Ids

    if not arguments[0]:
        raise click.UsageError("the command is empty: its first word names the program")
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ} if on_this_machine else {}
    if not on_this_machine and not options["image"]:
        raise click.UsageError("this cluster runs images: say which with --image")
    elastic = _bounds(options["elastic"])
    workers = options["workers"] or (elastic.most if elastic else 1)
    if elastic and not elastic.least <= workers <= elastic.most:
        raise click.BadParameter(f"{workers} is not within --elastic {elastic}", param_hint="--workers")
    gang = Gang(
        name=options["name"],
        command=arguments,
        workers=workers,
        namespace=namespace,
        cpus=options["cpus"] or "",
        memory=options["memory"] or "",
        gpus=options["gpus"],
        roles=_roles(arguments, options),
        until=options["until"],
        start_timeout=_start_timeout(options["start_timeout"], elastic=elastic is not None),
        image=options["image"],
        queue=options["queue"],
        priority=options["priority"],
        queue_priority=options["queue_priority"],
        working_directory=_working_directory() if on_this_machine else "",
        environment=inherited | _environment(options["env"]),
        elastic=elastic,
        run_time=_run_time(options["run_time"]),
        stdin=bool(options["stdin"]),
    )
    if gang.until and gang.until not in [one.name for one in gang.roles]:
        raise click.BadParameter(f"there is no role {gang.until}", param_hint="--until")
    if complaint := no_host_name(gang.name, gang.parts):
        raise click.BadParameter(complaint, param_hint="--name")
    if complaint := not_text(gang):
        raise click.UsageError(complaint)
    return gang if gang.name else replace(gang, name=name_for(arguments, Ids().suffix(), room_for_name(gang.parts)))


def _roles(arguments: Sequence[str], options: dict[str, Any]) -> "tuple[Role, ...]":
    """The roles that were asked for, with what was asked for all of them. Raises `click.UsageError`."""
    from muster.cli.actions.gang import Role
    from muster.cli.names.roles import Segment

    segments = [Segment(tuple(options["roles"]), tuple(arguments)), *options["behind_colons"]]
    found = [
        Role(
            asked.name,
            one.command,
            asked.workers,
            options["cpus"] or "" if asked.cpus is None else asked.cpus,
            options["memory"] or "" if asked.memory is None else asked.memory,
            options["gpus"] if asked.gpus is None else asked.gpus,
        )
        for one in segments
        for asked in one.roles
    ]
    for option in ("workers", "elastic"):
        if found and options[option]:
            raise click.UsageError(f"--{option} and --role cannot be meant together: each role says how many it has")
    if segments[1:] and not segments[0].roles:
        raise click.UsageError("the first command needs a --role as well")
    names = [one.name for one in found]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise click.BadParameter(f"{twice[0]} is given twice", param_hint="--role")
    return tuple(found)


def _start_timeout(text: str, *, elastic: bool) -> int | None:
    """In whole seconds; None if there is none."""
    from muster.api import durations
    from muster.api.durations import DurationError

    if not text:
        return None
    if elastic:
        raise click.UsageError("--start-timeout: the workers of an elastic job do not wait for each other")
    try:
        seconds = durations.parse(text) // durations.SECOND
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint="--start-timeout") from None
    if not 1 <= seconds < 1 << 31:
        raise click.BadParameter(f"{text}: from 1s to 68 years", param_hint="--start-timeout")
    return seconds


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - the caller's own spelling of it
    except FileNotFoundError:
        raise click.ClickException("the working directory is no longer there; the workers would start in it") from None


def _bounds(text: str) -> Any:
    from muster.api.elastic import Bounds

    try:
        return Bounds.parse(text) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--elastic") from None


def _run_time(text: str) -> str:
    from muster.api import durations
    from muster.api.durations import DurationError

    try:
        if text and durations.seconds(text) < 0:
            raise DurationError(f"{text}: a time to run is not below 0")
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint="--run-time") from None
    return text


def _environment(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, given, value = pair.partition("=")
        if not name:
            raise click.BadParameter(f"{pair!r}: expected NAME=VALUE or NAME", param_hint="--env")
        if not given and name not in os.environ:
            raise click.BadParameter(f"{name} is not set here; give it a value: {name}=...", param_hint="--env")
        found[name] = value if given else os.environ[name]
    return found
