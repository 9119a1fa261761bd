"""`muster run`: run a command as a gang."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from muster.actions.session import OWN_NAMESPACE, Session, Target, has_cluster, own_cluster
from muster.cli.actions.scripted import find, take
from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.roles import segment, split
from muster.cli.names.run_options import run_options
from muster.cli.session import connect, run, target_options, unignored

if TYPE_CHECKING:
    from muster.actions.gang import Gang
    from muster.cli.actions.interrupting import Cancelling
    from muster.cli.terminal.liveline import LiveLine
    from muster.insight.jobstate import Ending, Verdict
    from muster.insight.record import JobRecord

_STDIN = 0


class _Run(click.Command):
    """Reads the options before the command; what looks like one of them after it is the command's, which is said."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args, behind_colons = split(args)
        separated = "--" in args
        rest = super().parse_args(ctx, args)
        words: tuple[str, ...] = ctx.params.get("arguments") or ()
        ctx.params["script"] = script = None if ctx.resilient_parsing else find(words)
        if script is not None:
            take(self, ctx, script)
        elif not words and not ctx.resilient_parsing:
            raise click.MissingParameter(ctx=ctx, param=next(one for one in self.params if one.name == "arguments"))
        for parameter in self.params:
            given = ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
            if given and ctx.params[parameter.name] == "" and not ctx.resilient_parsing:
                raise click.BadParameter("it is empty; without a value leave it out", ctx, parameter)
        ctx.params["behind_colons"] = [segment(words) for words in behind_colons]
        ours = {name for parameter in self.params for name in parameter.opts if name.startswith("--")}
        for word in () if separated or script is not None or ctx.resilient_parsing else words:
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
        "muster run --array 0-99%8 -- python trial.py",
        "muster run --grid lr=0.1,0.01 -- python trial.py --lr {lr}",
        "muster run --time 2h --retries 3 job.sh",
        "muster run --workers 4 --dry-run -- python train.py > train.yaml",
    ),
)
@run_options
@target_options
@click.argument("arguments", nargs=-1, metavar="-- COMMAND...", shell_complete=names.files)
def command(arguments: tuple[str, ...], **options: Any) -> None:
    """Run COMMAND on every worker, all together or not at all, and return its exit code.

    COMMAND begins once all workers have started. Each finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT
    in its environment, and one with a role also MUSTER_ROLE, MUSTER_ROLE_RANK and MUSTER_ROLE_SIZE; in an elastic job,
    the file $MUSTER_WORLD tells it of new sizes. Without a running cluster, one is started for as long as the command
    runs. Ctrl-C ends the job gracefully.

    COMMAND may be a script with lines such as #MUSTER --workers 4, or - for one on the standard input.
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
    options |= {"stdin": _passes_stdin(options), "insists": options["stdin"] is True}
    sys.exit(run(_run(arguments, options, target)))


def _passes_stdin(options: dict[str, Any]) -> bool:
    """Whether the job gets our standard input. Raises `click.UsageError` where it is asked for and cannot."""
    from muster.cli.terminal.output import say
    from muster.cli.terminal.stdin import can_come, is_there

    asked = options["stdin"]
    if options["script"] is not None and options["script"].by_input:
        if asked:
            raise click.UsageError("--stdin: what came by the standard input is the script")
        return False
    sweeps = bool(options["array"] or options["grid"])
    kind = "detached" if options["detach"] else "elastic" if options["elastic"] else "a sweep" if sweeps else ""
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
    if target.namespace not in ("", OWN_NAMESPACE):
        raise click.UsageError(f"no cluster runs, so there is no namespace {target.namespace}")
    from muster.runtime.process.garbage import settle

    async with own_cluster() as session:
        settle()
        return await _submit(session, arguments, options)


async def _submit(session: Session, arguments: Sequence[str], options: dict[str, Any]) -> int:
    from muster.actions.choices import check_secrets, priority_classes, queue_to_name
    from muster.api.managed.jobs import DEFAULT_QUEUE
    from muster.insight.reader.clusters import sends_away
    from muster.insight.reader.queues import is_embedded

    # A Job may name what is not there, and would wait for ever: in no queue, or for pods that may not be made.
    embedded = await is_embedded(session.client)
    queue = await queue_to_name(session.client, session.namespace, options["queue"], embedded=embedded)
    options = options | {"queue": queue} | await priority_classes(session.client, options["priority"])
    if options["stdin"] and await sends_away(session.client, session.namespace, options["queue"] or DEFAULT_QUEUE):
        options = options | {"stdin": _comes_along(options)}
    gang = _gang(arguments, options, session.namespace, on_this_machine=embedded)
    await check_secrets(session.client, session.namespace, gang.secrets)
    named, detach = bool(options["name"]), options["detach"]
    return await _interruptible(session, gang, named=named, detach=detach, embedded=embedded)


def _comes_along(options: dict[str, Any]) -> bool:
    """That no input reaches a worker cluster, to who has some. Raises `click.UsageError` if it is insisted on."""
    from muster.cli.terminal.output import say
    from muster.cli.terminal.stdin import is_there

    if options["insists"]:
        raise click.UsageError("--stdin: nothing reads the standard input of a job that runs in another cluster")
    if is_there(_STDIN):
        say("the standard input is not passed on, as the job runs in another cluster (--no-stdin)")
    return False


async def _interruptible(session: Session, gang: "Gang", *, named: bool, detach: bool, embedded: bool) -> int:
    """Submit the gang and stay with it; from the first request on Ctrl-C cancels the job, and again leaves at once."""
    from muster.actions.cancelling import cancel
    from muster.actions.submitting import submit
    from muster.api.status import ApiError
    from muster.cli.actions.interrupting import Cancelling
    from muster.cli.terminal.liveline import LiveLine
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

    line = LiveLine()
    cancelling = Cancelling(gang.name, end, leave, line.say)
    staying = asyncio.create_task(_stay(session, gang, submitting, cancelling, line, detach=detach, embedded=embedded))
    with _told(cancelling.interrupt), line:
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


def _gang(arguments: Sequence[str], options: dict[str, Any], namespace: str, *, on_this_machine: bool) -> "Gang":
    """What is asked for, with a word on what is perhaps not meant. Raises `click.ClickException` if it cannot be."""
    from muster.actions.workers import overridden
    from muster.cli.actions.asked import gang_asked
    from muster.cli.terminal.output import say

    gang = gang_asked(arguments, options, namespace, on_this_machine=on_this_machine)
    if names := overridden(gang):
        say(f"--env {', '.join(names)}: your value takes the place of what muster run gives each worker")
    return gang


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
    line: "LiveLine",
    *,
    detach: bool,
    embedded: bool,
) -> "Ending":
    """Say what there is to say of the job, and stay until it ends; a detached one is left unless it is cancelled."""
    from muster.cli.terminal.output import say
    from muster.insight.jobstate import OPEN, Ending
    from muster.insight.reader.queues import is_simulated

    created = await submitting
    if embedded and not session.own and await is_simulated(session.client):
        say("the nodes of this cluster are simulated: nothing is run")
    asks = any(role.cpus or role.memory or role.gpus for role in gang.parts)
    # To find out takes as long as to submit: one worker that asks for nothing fits into any cluster of our own.
    looks = asks or (session.own and gang.most_workers > 1)
    found = await _foresee(session, created) if looks and (session.own or detach) else OPEN
    said = f"{gang.name} {found.sentence}" if found.sentence else ""
    if session.own and found.text:
        raise click.ClickException(said)  # what a cluster that goes with the command has no room for never starts
    if detach and not cancelling.begun:
        click.echo(gang.name)
        if said:
            say(said)
        name = gang.name
        say(f"follow it:  muster logs -f {name}\nlook at it:  muster ps\nstop it:    muster cancel {name}")
        return Ending(0, "")
    return await _follow(session, gang, created, line)


async def _foresee(session: Session, job: "JobRecord") -> "Verdict":
    from muster.actions.foresight import foresee  # it takes a while to load

    return await foresee(session, job)


async def _follow(session: Session, gang: "Gang", job: "JobRecord", line: "LiveLine") -> "Ending":
    """Show the job's output until it ends."""
    from muster.actions.following.elsewhere import reaching
    from muster.actions.following.follow import Follower
    from muster.cli.terminal.printing import Printer
    from muster.cli.terminal.progress import Progress
    from muster.cli.terminal.stdin import Feeding, read
    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random

    name, namespace, workers = gang.name, gang.namespace, gang.most_workers
    several = workers > 1 or gang.sweep is not None
    printer, progress = Printer(ranks=several, line=line), Progress(name, workers, line.say, line.show)
    feeding = Feeding(session.tunnels, RealClock(), partial(read, _STDIN), line.say)
    follower = Follower(
        session.client,
        RealClock(),
        Random(),
        namespace,
        name,
        show=printer.show,
        warn=line.say,
        report=progress.report,
        count=progress.count,
        reach=reaching(session.client),
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
    from muster.actions.choices import priority_classes

    if not priority or not has_cluster(target):
        return {"priority": priority, "queue_priority": ""}
    async with connect(target) as session:
        return await priority_classes(session.client, priority)


def _print(arguments: Sequence[str], options: dict[str, Any], target: Target) -> None:
    from muster.actions.manifests import job, jobset, service
    from muster.cli.terminal.output import dump

    gang = _gang(arguments, options, target.namespace or "default", on_this_machine=not options["image"])
    names = [] if gang.sweep is not None else [service(gang)]
    documents = [*names, job(gang)] if gang.is_job else [jobset(gang)]
    if options["output"] == "json":
        whole = {"apiVersion": "v1", "kind": "List", "items": documents} if len(documents) > 1 else documents[0]
        click.echo(dump(whole, "json"))
    else:
        click.echo("\n---\n".join(dump(document, "yaml") for document in documents))
