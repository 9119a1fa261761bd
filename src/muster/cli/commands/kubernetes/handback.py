"""`muster handback`: replace Muster with Kueue's manager again."""

from typing import Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_name
from muster.cli.session import connect, run


@click.command(
    epilog=format_examples("muster handback --dry-run --kubeconfig ~/.kube/config", "muster handback"),
)
@click.option("--dry-run", is_flag=True, help="List the remaining steps, and write nothing.")
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    type=parse_name,
    help="Namespace of the engine (default: the namespace of its Deployment).",
)
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the cluster.", shell_complete=names.complete_files)
def command(*, dry_run: bool, namespace: str | None, kubeconfig: str | None) -> None:
    """Replace Muster with Kueue's manager again. Running jobs continue, and waiting jobs keep their position.

    The command stops Muster, returns the Workloads that Muster has admitted, and deletes the objects that only Muster
    needs. It restores Kueue's webhooks as `muster takeover` found them, starts Kueue's manager, and waits until Kueue's
    manager is the leader. If the command was interrupted, run it again: it continues.
    """
    run(_hand_back(Target(kubeconfig or "", namespace or ""), dry_run=dry_run))


async def _hand_back(target: Target, *, dry_run: bool) -> None:
    """Execute the remaining steps of the handback, or list them in a dry run."""
    from muster.actions.moving.carrying import Move
    from muster.actions.moving.clusterstate import find_kueue
    from muster.actions.moving.dependents import find_dependents
    from muster.actions.moving.handback import WITHOUT_KUEUE, plan_handback
    from muster.cli.moving import carry_out, require_no_embedded
    from muster.cli.terminal.output import say
    from muster.runtime.externalinputs import ExternalInputs
    from muster.runtime.ids import Ids, Random
    from muster.runtime.realclock import RealClock

    inputs = ExternalInputs(RealClock(), Ids(), Random())
    async with connect(target) as session:
        await require_no_embedded(session.client)
        options = await _make_options(session.client, target.namespace)
        move = Move(session.client, inputs, options, say)
        seen = await move.read_state()
        can_start = seen.kueue_state is not None and bool(await find_kueue(session.client))
        runs = seen.muster is not None and not seen.muster.deleting
        left = await find_dependents(session.client, inputs.clock, options, say) if runs else []
        end = "Kueue's manager leads" if can_start else f"Muster is gone; {WITHOUT_KUEUE}"
        plan = lambda observed: plan_handback(observed, options, move.documents, left)  # noqa: E731
        await carry_out(move, plan, dry_run=dry_run, end=end)


async def _make_options(client: Any, namespace: str) -> Any:
    from muster.actions.moving.clusterstate import find_kueue
    from muster.actions.moving.handback import include_extras
    from muster.cli.moving import options_in
    from muster.install.engines import SeveralError, read_engine_configuration
    from muster.install.options import IMAGE, make_default_configuration

    try:
        text = await read_engine_configuration(client, namespace)
    except SeveralError as error:
        raise click.ClickException(f"{error}: name one with --namespace") from None
    # A run that was killed may have deleted Muster's Configuration, and Kueue's may name no namespace.
    places = [one.namespace for one in await find_kueue(client)]
    where = namespace or (places[0] if len(places) == 1 else "")
    options = options_in(text or make_default_configuration(), "the Configuration in the cluster", IMAGE, None, where)
    return include_extras(options)
