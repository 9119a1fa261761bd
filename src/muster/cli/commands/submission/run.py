"""`muster run`: run a command as a gang."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from muster.actions.server.session import OWN_NAMESPACE, Session, Target, has_cluster, own_cluster
from muster.cli.actions.running.scripted import find, take
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.roles import parse_segment, split
from muster.cli.names.run_options import run_options
from muster.cli.session import connect, list_heeded_signals, run, target_options

if TYPE_CHECKING:
    from muster.actions.submission.gang import Gang
    from muster.cli.actions.running.interrupting import Cancelling
    from muster.cli.terminal.liveline import LiveLine
    from muster.insight.jobs.state import Ending
    from muster.insight.record import JobRecord

_STDIN = 0
# For a sweep of at most this many concurrent trials, the quota of its queue is not read.
_FEW_TRIALS = 20


class _Run(click.Command):
    """The command `run`. It warns if one of its own options follows the user's command, which then gets that option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args, behind_colons = split(args)
        separated = "--" in args
        rest = super().parse_args(ctx, args)
        words: tuple[str, ...] = ctx.params.get("arguments") or ()
        ctx.params["batch"] = None
        ctx.params["script"] = script = None if ctx.resilient_parsing else find(words)
        if script is not None:
            take(self, ctx, script)
        elif not words and not ctx.resilient_parsing:
            raise click.MissingParameter(ctx=ctx, param=next(one for one in self.params if one.name == "arguments"))
        for parameter in self.params:
            given = ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
            if given and ctx.params[parameter.name] == "" and not ctx.resilient_parsing:
                raise click.BadParameter("it is empty; without a value leave it out", ctx, parameter)
        ctx.params["behind_colons"] = [parse_segment(words) for words in behind_colons]
        ours = {name for parameter in self.params for name in parameter.opts if name.startswith("--")}
        for word in () if separated or script is not None or ctx.resilient_parsing else words:
            if word.partition("=")[0] in ours:
                click.echo(f"{word} is an argument of {words[0]}; options of muster go before it", err=True)
        return rest


@click.command(
    cls=_Run,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog=format_examples(
        "muster run --workers 4 -- python train.py",
        "muster run -w 8 --gpus 1 --queue vision --detach -- python train.py",
        "muster run --elastic 2:8 -- python train.py",
        "muster run --role driver --role worker:8,gpus=1 -- python train.py",
        "muster run --role head -- ./head.sh : --role worker:4 -- ./worker.sh",
        "muster run --array 0-99%8 -- python trial.py",
        "muster run --grid lr=0.1,0.01 -- python trial.py --lr {lr}",
        "muster run --cron '0 3 * * *' --name nightly -- python train.py",
        "muster run --begin 18:00 --time 12h -- python train.py",
        "muster run --after prepare,fetch:any -- python train.py",
        "muster run --time 2h --retries 3 job.sh",
        "muster run --workers 8 -- mpirun python a.py",
        "muster run --workers 4 --gpus 1 --tty -- python -m pdb train.py",
        "muster run --workers 4 --dry-run -- python train.py > train.yaml",
    ),
)
@run_options
@target_options
@click.argument("arguments", nargs=-1, metavar="-- COMMAND...", shell_complete=names.complete_files)
def command(arguments: tuple[str, ...], **options: Any) -> None:
    """Run COMMAND in each worker of a job. All workers start together, or none starts.

    The command prints the output of the workers, and returns the exit code of the job. If no cluster runs, Muster
    starts a cluster for this command and stops it at the end. Ctrl-C ends the job gracefully.

    Each worker has the environment variables RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. A worker with a
    role also has MUSTER_ROLE, MUSTER_ROLE_RANK and MUSTER_ROLE_SIZE. In an elastic job, the file $MUSTER_WORLD contains
    the current size.

    If COMMAND is mpirun, only rank 0 runs it, and mpirun starts processes on all workers.

    COMMAND may be a script with options in lines such as #MUSTER --workers 4, or - for a script on the standard input.
    A script with lines such as #SBATCH --ntasks=4 runs once, as with sbatch, and srun in the script starts the tasks.
    """
    target = Target.of(options)
    if target.namespace.isdecimal() or (target.namespace == "p" and arguments[0].isdecimal()):  # -n 4, -np 4
        raise click.BadParameter(f"{target.namespace} is a namespace; did you mean --workers?", param_hint="-n")
    if options["output"] and not options["dry_run"]:
        raise click.UsageError("-o needs --dry-run: without it there is nothing to print")
    if options["tty"]:
        _check_terminal(options)
    if options["replace"]:
        _check_replacement(options)
    if options["dry_run"]:
        _print(run(_plan_gang(arguments, options, target)), options["output"])
        return
    options |= {"stdin": _passes_stdin(options), "insists": options["stdin"] is True}
    sys.exit(run(_run(arguments, options, target)))


def _check_replacement(options: dict[str, Any]) -> None:
    """Raise `click.UsageError` if `--replace` is given without the job's name, or for a CronJob."""
    if not options["name"]:
        raise click.UsageError("--replace needs the name of the job: add --name")
    if options["schedule"]:
        raise click.UsageError("--replace and --cron exclude each other: a CronJob never ends")


def _check_terminal(options: dict[str, Any]) -> None:
    """Raise `click.UsageError` if the job cannot use this terminal: another option excludes that, or there is none."""
    from muster.cli.terminal.remote import is_terminal

    others = ("detach", "elastic", "array", "grid", "schedule", "begin", "after", "retries", "mpi", "stdin")
    if other := next((name for name in others if options[name]), ""):
        option = "cron" if other == "schedule" else other
        raise click.UsageError(f"--tty and --{option} exclude each other: rank 0 has the terminal, once")
    if not options["dry_run"] and not is_terminal():
        raise click.UsageError("--tty needs a terminal as standard input and output")


def _passes_stdin(options: dict[str, Any]) -> bool:
    """Return whether the job gets this command's standard input; print a remark if existing input is not passed on.

    Raises `click.UsageError` if the user requested that and it is impossible.
    """
    from muster.cli.terminal.output import say
    from muster.cli.terminal.stdin import can_come, is_there

    choice = options["stdin"]
    if options["script"] is not None and options["script"].by_input:
        if choice:
            raise click.UsageError("--stdin: the standard input is the script")
        return False
    sweeps = bool(options["array"] or options["grid"])
    detached = options["detach"] or options["schedule"]
    kind = "detached" if detached else "elastic" if options["elastic"] else "a sweep" if sweeps else ""
    if choice is False or not (choice or can_come(_STDIN)):
        return False
    if kind and choice:
        raise click.UsageError(f"--stdin: nothing reads the standard input of a job that is {kind}")
    if kind and is_there(_STDIN):
        say(f"the standard input is not passed on, as the job is {kind} (--no-stdin)")
    return not kind


async def _run(arguments: Sequence[str], options: dict[str, Any], target: Target) -> int:
    if has_cluster(target):
        async with connect(target, submits=True) as session:  # the user may have forgotten about this cluster
            return await _submit(session, arguments, options)
    if needy := "--detach" if options["detach"] else "--cron" if options["schedule"] else "":
        raise click.UsageError(f"{needy} needs a running cluster; start one with: muster up --detach")
    if target.namespace not in ("", OWN_NAMESPACE):
        raise click.UsageError(f"no cluster runs, so there is no namespace {target.namespace}")
    from muster.runtime.process.garbage import settle

    async with own_cluster() as session:
        settle()
        return await _submit(session, arguments, options)


async def _sends_away(session: Session, queue: str) -> bool:
    from muster.api.kueue.names import DEFAULT_QUEUE
    from muster.insight.reader.clusters import sends_away  # importing it loads MultiKueue, and few jobs need it

    return await sends_away(session.client, session.namespace, queue or DEFAULT_QUEUE)


async def _submit(session: Session, arguments: Sequence[str], options: dict[str, Any]) -> int:
    """Submit a job, or a CronJob for `--cron`; return the exit code of the command.

    The objects that the options name are checked before the first write.
    """
    from muster.actions.choices import check_secrets, find_queue_label, priority_classes
    from muster.actions.parsing.deferring import check_dependencies
    from muster.cli.actions.running.notifying import fit_notify
    from muster.insight.reader.engine import is_embedded

    # A Job that names a missing queue or priority class would wait forever.
    embedded = await is_embedded(session.client)
    queue = await find_queue_label(session.client, session.namespace, options["queue"], embedded=embedded)
    options = options | {"queue": queue} | await priority_classes(session.client, options["priority"])
    if options["stdin"] and await _sends_away(session, options["queue"]):
        _warn_of_unread_input(options)
        options = options | {"stdin": False}
    gang = _make_gang(arguments, options, session.namespace, on_this_machine=embedded)
    await check_secrets(session.client, session.namespace, gang.secrets)
    await check_dependencies(session.client, gang.name, session.namespace, gang.deferral)
    gang = fit_notify(gang, embedded=embedded and not session.own, is_batch=options["batch"] is not None)
    complaint = _explain_bound_to_cluster(gang)
    if complaint and await _sends_away(session, options["queue"]):
        raise click.UsageError(complaint)
    if gang.schedule:
        from muster.cli.actions.running.scheduling import submit_cron_job

        return await submit_cron_job(session, gang, on_this_machine=embedded)
    if options["replace"]:
        from muster.actions.submission.replacing import remove_ended
        from muster.runtime.realclock import RealClock

        await remove_ended(session.client, gang, RealClock())
    named, detach = bool(options["name"]), options["detach"]
    if gang.terminal:
        from muster.cli.actions.running.shells import run_shell

        return await run_shell(session, gang, named=named, keeps_job=not session.own)
    return await _submit_interruptibly(session, gang, named=named, detach=detach, embedded=embedded)


def _explain_bound_to_cluster(gang: "Gang") -> str:
    """Return why the gang cannot run in another cluster; "" if it can."""
    if gang.mpi:
        return "mpirun and srun need a Secret, which is not copied to another cluster"
    return "--tty: jobs of this queue run in other clusters, which no terminal reaches" if gang.terminal else ""


def _warn_of_unread_input(options: dict[str, Any]) -> None:
    """Warn if this command has input, because the input does not reach a job in a worker cluster.

    Raises `click.UsageError` if the user requested with `--stdin` that the job gets the input.
    """
    from muster.cli.terminal.output import say
    from muster.cli.terminal.stdin import is_there

    if options["insists"]:
        raise click.UsageError("--stdin: nothing reads the standard input of a job that runs in another cluster")
    if is_there(_STDIN):
        say("the standard input is not passed on, as the job runs in another cluster (--no-stdin)")


async def _submit_interruptibly(session: Session, gang: "Gang", *, named: bool, detach: bool, embedded: bool) -> int:
    """Submit the gang and follow its job; return the exit code.

    The first termination signal cancels the job, and the next one terminates the command. Raises `ApiError`,
    `TransportError`, `UserError`.

    named: whether the user chose the job's name.
    detach: whether to return without waiting for the job.
    embedded: whether the cluster is an embedded one.
    """
    from muster.actions.submission.submitting import submit
    from muster.api.status import ApiError
    from muster.cli.actions.running.interrupting import Cancelling
    from muster.cli.terminal.liveline import LiveLine
    from muster.cli.terminal.output import say
    from muster.cli.terminal.streams import OutputError

    submitting = asyncio.create_task(submit(session.client, gang, say, named=named and not session.own), name="submit")

    async def end() -> None:
        from muster.actions.jobs.cancelling import cancel  # few jobs are cancelled

        await asyncio.wait({submitting})  # only the server's response shows whether the job exists
        if not submitting.cancelled() and submitting.exception() is None:
            await cancel(session.client, gang.name, gang.namespace, delete=session.own)

    def leave() -> None:
        session.leave()
        _say_if_unanswered(session, gang, submitting, line)
        staying.cancel()

    line = LiveLine()
    cancelling = Cancelling(gang.name, end, leave, line.say)
    staying = asyncio.create_task(_stay(session, gang, submitting, cancelling, line, detach=detach, embedded=embedded))
    with _handle_signals(cancelling), line:
        try:
            ending = await staying
        except asyncio.CancelledError:
            if not cancelling.has_begun:
                raise
            return cancelling.code
        except ApiError as error:
            if not (cancelling.has_begun and error.code == 404):
                raise
            return cancelling.code  # the job was deleted before it could be followed
        except OutputError:
            if not detach:
                await end()  # a program that writes to a pipe without a reader also ends
            raise
        finally:
            await cancelling.close()
    if cancelling.has_begun:
        return cancelling.code
    if ending.text:
        line.say(f"{gang.name}: {ending.text}")
    return ending.code


def _say_if_unanswered(session: Session, gang: "Gang", submitting: "asyncio.Task[JobRecord]", line: "LiveLine") -> None:
    """Print that the job may exist, if the user leaves before the server has responded to the submission."""
    from muster.actions.submission.submitting import describe_possible_job

    if not (submitting.done() or session.own):
        line.say(describe_possible_job(gang))


def _make_gang(arguments: Sequence[str], options: dict[str, Any], namespace: str, *, on_this_machine: bool) -> "Gang":
    """Return the gang that the command line describes.

    Warn about options that the user may not mean. Raises `click.ClickException` if options are invalid.
    """
    from muster.actions.submission.workers import list_overridden
    from muster.cli.actions.running.gangoptions import gang_from_options
    from muster.cli.terminal.output import say

    gang = gang_from_options(arguments, options, namespace, on_this_machine=on_this_machine)
    if options["tty"]:
        from muster.cli.actions.running.shells import on_terminal

        gang = on_terminal(gang)
    if names := list_overridden(gang):
        say(f"--env {', '.join(names)}: your value replaces the one that muster run gives each worker")
    return gang


@contextmanager
def _handle_signals(cancelling: "Cancelling") -> Iterator[None]:
    """Interrupt the job at a termination signal, inside the `with` block.

    A handler records the signal at once, because the event loop may run late.
    """
    loop, signals = asyncio.get_running_loop(), list_heeded_signals()
    for number in signals:
        loop.add_signal_handler(number, cancelling.interrupt, number)
        signal.signal(number, lambda number, _frame: cancelling.record_signal(number))  # beside the loop's own handling
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _hint_at_gpus(session: Session) -> None:
    """Print that a job without `--gpus` sees no GPU, if the cluster has GPUs. Each user sees this hint only once."""
    from muster.actions import hints
    from muster.actions.choices import has_gpus
    from muster.actions.server.home import Home
    from muster.cli.terminal.output import say

    home = Home.find(os.environ)
    if not hints.is_known(home, hints.NO_GPUS) and await has_gpus(session.client):
        say("this job sees no GPU: a job gets GPUs by --gpus N (this is said once)")
        hints.remember(home, hints.NO_GPUS)


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
    """Wait for the submission, then print the progress and output of the job; return how it ended.

    For a detached job, print its name and a hint how to follow it, and return at once, unless the job is being
    cancelled. Raises the errors of the submission, and `click.ClickException` if the job can never start in a cluster
    that this command started.
    """
    from muster.actions.submission.submitting import foresee
    from muster.cli.terminal.output import say
    from muster.insight.jobs.state import OPEN, Ending
    from muster.insight.reader.engine import is_simulated

    created = await submitting
    if embedded and not session.own and await is_simulated(session.client):
        say("the nodes of this cluster are simulated: they run no programs")
    if embedded and not any(role.gpus for role in gang.parts):
        await _hint_at_gpus(session)
    if not session.own and gang.sweep is not None and gang.sweep.parallelism > _FEW_TRIALS:
        await _hint_at_limit(session, created)
    asks = any(role.cpus or role.memory or role.gpus for role in gang.parts)
    # The forecast takes as long as the submission, and one worker without requests fits into any embedded cluster.
    needs_forecast = asks or (session.own and gang.most_workers > 1)
    verdict = await foresee(session, created, say) if needs_forecast and (session.own or detach) else OPEN
    forecast = f"{gang.name} {verdict.sentence}" if verdict.sentence else ""
    if session.own and verdict.text:
        raise click.ClickException(forecast)  # a cluster that this command started never gets more room
    if detach and not cancelling.has_begun:
        click.echo(gang.name)
        if forecast:
            say(forecast)
        name = gang.name
        say(f"follow it:  muster logs -f {name}\nlist jobs:  muster ps\nstop it:    muster cancel {name}")
        if cancelling.leave_job():
            return Ending(0, "")
    return await _follow(session, gang, created, line)


async def _hint_at_limit(session: Session, sweep: "JobRecord") -> None:
    """Print that a sweep will use its whole queue for a long time, if that is so."""
    from muster.actions.submission.foresight import foresee_queue_use
    from muster.cli.terminal.output import say

    if sentence := await foresee_queue_use(session, sweep):
        say(f"{sweep.metadata.name}: {sentence}")


async def _follow(session: Session, gang: "Gang", job: "JobRecord", line: "LiveLine") -> "Ending":
    """Show the job's output and progress until it ends, and pass this command's input to it; return how it ended."""
    from muster.actions.following.elsewhere import make_reach
    from muster.actions.following.follow import Follower
    from muster.cli.terminal.printing import Printer
    from muster.cli.terminal.progress import Progress
    from muster.cli.terminal.stdin import Feeding, read
    from muster.runtime.ids import Random
    from muster.runtime.realclock import RealClock

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
        reach=make_reach(session.client),
        inside=os.environ.get("MUSTER_JOB", ""),
    )
    if gang.stdin:
        follower.observe = feeding.observe
    try:
        ending = await follower.run(job)
        await printer.finish()
    finally:
        await feeding.close()
    return ending


async def _plan_gang(arguments: Sequence[str], options: dict[str, Any], target: Target) -> "Gang":
    """Return the gang that would be submitted. Without a running cluster, assume a cluster with enough CPUs.

    Without a cluster, a priority is taken as the name of a PriorityClass, because every cluster has these.
    """
    from muster.actions.choices import priority_classes
    from muster.actions.submission.defaultcpus import read_default, set_default_cpus
    from muster.actions.submission.submitting import fit_cluster

    here = not options["image"]
    if not has_cluster(target):
        gang = _make_gang(
            arguments, options | {"queue_priority": ""}, target.namespace or "default", on_this_machine=here
        )
        return set_default_cpus(gang, read_default(os.environ), ())
    async with connect(target) as session:
        classes = await priority_classes(session.client, options["priority"])
        gang = _make_gang(arguments, options | classes, session.namespace, on_this_machine=here)
        return await fit_cluster(session.client, gang)


def _print(gang: "Gang", form: str) -> None:
    from muster.actions.submission.manifests import cron_job, make_job, make_jobset, make_service
    from muster.actions.submission.mpi import make_secret
    from muster.cli.terminal.output import dump
    from muster.mpi.identity import make_identity
    from muster.runtime.realclock import RealClock

    names = [] if gang.sweep is not None else [make_service(gang)]
    secrets = [make_secret(gang, make_identity(RealClock().now()))] if gang.mpi else []
    make = cron_job if gang.schedule else make_job
    documents = secrets + ([*names, make(gang)] if gang.is_job else [make_jobset(gang)])
    if form == "json":
        whole = {"apiVersion": "v1", "kind": "List", "items": documents} if len(documents) > 1 else documents[0]
        click.echo(dump(whole, "json"))
    else:
        click.echo("\n---\n".join(dump(document, "yaml") for document in documents))
