"""`muster apply`: create or change objects as their manifests say."""

import sys
from collections.abc import Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from muster.actions.server.session import Target
from muster.api.values.manifests import Manifest, ManifestError
from muster.cli.actions.manifests import apply_one, read_all
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.session import connect, run, target_options

if TYPE_CHECKING:
    from muster.api.kinds import Kind

_JOBS = ("jobs.batch", "jobsets.jobset.x-k8s.io")


@click.command(
    epilog=format_examples(
        "muster apply -f examples/jobs/indexed.yaml --wait",
        "muster apply -f examples/jobs/",
        "muster apply -f - --dry-run < train.yaml",
    ),
)
@click.option(
    "-f",
    "--filename",
    metavar="FILE|DIR|-",
    multiple=True,
    required=True,
    help="File or directory with manifests, or - for the standard input. Can be repeated.",
    shell_complete=names.complete_files,
)
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until the jobs in the manifests have ended. The exit code is the exit code of the jobs.",
)
@click.option("--dry-run", is_flag=True, help="Let the server check the objects, and store nothing.")
@target_options
def command(filename: tuple[str, ...], wait: bool, dry_run: bool, **options: Any) -> None:
    """Create the objects in the manifests, or change existing objects to match them."""
    from muster.cli.terminal.output import say

    parsed = read_all(filename)
    wrong = [one for one in parsed if isinstance(one, ManifestError)]
    right = [one for one in parsed if isinstance(one, Manifest)]
    for error in wrong:  # errors in files are reported first, as the cluster may be missing, too
        say(f"Error: {error}")
    code = run(_apply(Target.of(options), right, wait=wait, dry_run=dry_run)) if right else 0
    sys.exit(max(code, int(bool(wrong))))


async def _apply(target: Target, manifests: list[Manifest], *, wait: bool, dry_run: bool) -> int:
    """Apply all manifests, also after failures.

    Return the highest exit code of the jobs for which the command waited, but at least 1 if a manifest failed.
    """
    from muster.cli.actions.applying import split_independent
    from muster.cli.actions.each import AT_ONCE, try_and_say
    from muster.cli.commands.observation.wait import follow_all
    from muster.cli.names.discovery import Discovery
    from muster.runtime.tasks import yield_ended_in_order

    async with connect(target) as session:
        discovery = Discovery(session.client)
        jobs: dict[tuple[str, str], None] = {}
        creates = False  # whether the last manifest was new: then the next one is likely new, too

        async def send(manifest: dict[str, Any]) -> "tuple[Kind[Any], dict[str, Any], str]":
            nonlocal creates
            kind = await discovery.kind(manifest["apiVersion"], manifest["kind"])
            stored, verb = await apply_one(session, kind, manifest, dry_run=dry_run, is_likely_new=creates)
            creates = verb.startswith("created")
            return kind, stored, verb

        async def report(sending: "Awaitable[tuple[Kind[Any], dict[str, Any], str]]") -> None:
            kind, stored, verb = await sending
            name = stored["metadata"]["name"]
            click.echo(f"{kind.kind.lower()}{'.' + kind.group if kind.group else ''}/{name} {verb}")
            if wait and kind.resource in _JOBS and _is_suspended(stored):
                click.echo(f"{name}: suspended, not waited for", err=True)
            elif kind.resource in _JOBS:
                jobs[stored["metadata"]["namespace"], name] = None

        successes: list[bool] = []
        for group in split_independent(manifests):
            async with aclosing(yield_ended_in_order((send(one.document) for one in group), AT_ONCE)) as sent:
                titles = iter(group)
                successes += [await try_and_say(next(titles).title, report(sending)) async for sending in sent]
        waited = await follow_all(session, list(jobs)) if wait and not dry_run else 0
        return max(waited, int(not all(successes)))


def _is_suspended(job: dict[str, Any]) -> bool:
    """Return whether a user suspended the job. A job that a queue suspended is resumed by the queue."""
    from muster.api.kueue.names import QUEUE_NAME_LABEL

    return bool(job["spec"].get("suspend")) and QUEUE_NAME_LABEL not in (job["metadata"].get("labels") or {})
