"""`muster takeover`: replace Kueue's manager with Muster."""

from typing import TYPE_CHECKING, Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.session import connect, run

if TYPE_CHECKING:
    from muster.api.config import Configuration


@click.command(
    epilog=format_examples(
        "muster takeover --dry-run --kubeconfig ~/.kube/config",
        "muster takeover --image registry.example.com/muster:1",
    ),
)
@click.option("--dry-run", is_flag=True, help="List the remaining steps, and write nothing.")
@click.option("--image", metavar="IMAGE", help="Image of the engine, built from Containerfile.")
@click.option(
    "--replicas", type=click.IntRange(min=1), help="Number of replicas, of which one is the leader (default: 2)."
)
@click.option(
    "--config",
    metavar="FILE",
    help="Settings (default: Kueue's settings in the cluster).",
    shell_complete=names.complete_files,
)
@click.option(
    "--kinds",
    type=click.Choice(("jobset", "podgroups")),
    multiple=True,
    help="Definitions to install in addition to Kueue's, if the cluster lacks them.",
)
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the cluster.", shell_complete=names.complete_files)
def command(
    *,
    dry_run: bool,
    image: str | None,
    replicas: int | None,
    config: str | None,
    kinds: tuple[str, ...],
    kubeconfig: str | None,
) -> None:
    """Replace Kueue's manager with Muster. Running jobs continue, and waiting jobs keep their position.

    The command stops Kueue's manager, deletes its webhooks, installs Muster with Kueue's settings, and waits until
    Muster is the leader. If the command was interrupted, run it again: it continues. `muster handback` undoes the
    takeover.
    """
    run(_take_over(Target(kubeconfig or ""), image, replicas, config, ("kueue", *kinds), dry_run=dry_run))


async def _take_over(
    target: Target,
    image: str | None,
    replicas: int | None,
    config: str | None,
    kinds: tuple[str, ...],
    *,
    dry_run: bool,
) -> None:
    """Execute the remaining steps of the takeover, or list them in a dry run.

    Raises `ApiError`, `TransportError`, `click.ClickException`.
    """
    from muster.actions.moving.carrying import Move
    from muster.actions.moving.takeover import plan_takeover
    from muster.cli.moving import carry_out, require_no_embedded
    from muster.cli.terminal.output import say
    from muster.insight.takeover import list_restarting
    from muster.operator.takeover import survey_cluster
    from muster.runtime.externalinputs import ExternalInputs
    from muster.runtime.ids import Ids, Random
    from muster.runtime.realclock import RealClock

    inputs = ExternalInputs(RealClock(), Ids(), Random())
    async with connect(target) as session:
        await require_no_embedded(session.client)
        options = await _make_options(session.client, image, replicas, config, kinds, dry_run=dry_run)
        cluster = await survey_cluster(session.client, options.settings, inputs.clock, say)
        _print_gaps(cluster, options.settings, say)
        move, jobs = Move(session.client, inputs, options, say), list_restarting(cluster)
        await carry_out(
            move,
            lambda observed: plan_takeover(observed, options, move.documents, jobs),
            dry_run=dry_run,
            end="Muster leads: Kueue's manager stays stopped until `muster handback`",
        )


def _print_gaps(cluster: Any, settings: "Configuration", say: Any) -> None:
    """Print the settings and objects that Muster would ignore, except those that the takeover itself replaces.

    say: prints a line.
    """
    from msgspec.structs import replace

    from muster.insight.takeover import format_finding, make_report
    from muster.operator.takeover import sort_kinds

    rest = replace(cluster, manager="", webhooks=(), old=())
    for finding in make_report(rest, *sort_kinds(settings)).findings:
        say(format_finding(finding))


async def _make_options(
    client: Any, image: str | None, replicas: int | None, config: str | None, kinds: tuple[str, ...], *, dry_run: bool
) -> Any:
    """Return the options of the installation that replaces Kueue.

    The settings are the content of the file `config`; by default, Kueue's Configuration in the cluster, or else
    Muster's. Without `image`, a Deployment of Muster that exists already keeps its image; without one, only a dry run
    may omit `image`. Raises `ApiError`, `click.ClickException`.

    kinds: the families of definitions to install.
    """
    from msgspec.structs import replace

    from muster.actions.moving.clusterstate import find_kueue
    from muster.api.groups.apps import DEPLOYMENT
    from muster.cli.moving import options_in
    from muster.cli.settings import written_configuration
    from muster.install.engines import KUEUE, SeveralError, read_engine_configuration
    from muster.install.options import IMAGE, NAME

    places = [one.namespace for one in await find_kueue(client)]
    where = places[0] if len(places) == 1 else ""
    source = config or "Kueue's Configuration in the cluster"
    if config is not None:
        text: str | None = written_configuration(config)[0]
    else:
        try:
            text = await read_engine_configuration(client, where, (KUEUE, NAME))
        except SeveralError as error:
            raise click.ClickException(str(error)) from error
    if text is None:
        raise click.ClickException(
            "no Kueue is here to take over from, nor its Configuration: `muster manifests` prints what to install"
        )
    options = options_in(text, source, image or IMAGE, replicas, where)
    muster = await client.find(DEPLOYMENT, NAME, options.namespace)  # of an interrupted takeover
    if image is None and muster is not None:
        options = replace(options, image=muster.spec.template.spec.containers[0].image)
    elif image is None and not dry_run:
        raise click.UsageError("say by --image which image has the engine: see Containerfile")
    return replace(options, kinds=kinds)
