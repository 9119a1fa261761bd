"""`muster adopt`: report what Muster would find where Kueue has worked, or give Workloads back."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from muster.actions.server.session import Target
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.names.types import parse_name
from muster.cli.session import connect, run

if TYPE_CHECKING:
    from muster.api.config import Configuration


@click.command(
    epilog=format_examples(
        "muster adopt --dry-run --kubeconfig ~/.kube/config",
        "muster adopt --dry-run --config muster.yaml -o json",
        "muster adopt --back   # after Muster was stopped, before Kueue starts",
    ),
)
@click.option("--dry-run", is_flag=True, help="Print the report, and write nothing.")
@click.option("--back", is_flag=True, help="Return the Workloads that Muster has admitted to Kueue.")
@click.option(
    "--config",
    metavar="FILE",
    help="Settings of `muster controllers` (default: the settings of Muster or Kueue in the cluster).",
    shell_complete=names.complete_files,
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    type=parse_name,
    help="Namespace of the engine (default: the namespace of its Deployment).",
)
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the cluster.", shell_complete=names.complete_files)
@click.option(
    "-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format of the report (default: text)."
)
def command(
    *,
    dry_run: bool,
    back: bool,
    config: str | None,
    namespace: str | None,
    kubeconfig: str | None,
    output: str | None,
) -> None:
    """Report which objects Muster would take over from Kueue, and which it does not support.

    `muster takeover` and `muster handback` perform all steps of a move. If the engine does not run as a Deployment,
    stop it, and then use --back to return its Workloads to Kueue. The exit code is 1 if there is something that Muster
    does not support.
    """
    if dry_run == back:
        raise click.UsageError(
            "say --dry-run for a report, or --back to return to Kueue by hand; to take over: `muster takeover`"
        )
    if config is not None and namespace is not None:
        raise click.UsageError("the settings in --config say where the engine is: leave --namespace out")
    target = Target(kubeconfig or "", namespace or "")
    if back:
        run(_give_back(target, config))
    else:
        sys.exit(run(_report(target, config, output or "")))


async def _report(target: Target, config: str | None, form: str) -> int:
    """Print what Muster would find after a takeover; return 1 if Muster does not support a part of it, otherwise 0.

    form: `json` or `yaml`; "" for text.
    """
    from muster.cli.terminal.output import dump, say, terminal_width
    from muster.insight.takeover import STATES, format_finding, make_document, make_report
    from muster.insight.text import format_table
    from muster.operator.holders import read_holder
    from muster.operator.takeover import sort_kinds, survey_cluster
    from muster.runtime.realclock import RealClock

    async with connect(target) as session:
        await _require_no_embedded(session.client)
        settings = await _read_settings(session.client, config, target.namespace, say)
        findings = make_report(await survey_cluster(session.client, settings, RealClock(), say), *sort_kinds(settings))
        holder = await read_holder(session.client, settings)
    if form:
        click.echo(dump(make_document(findings), form))
    else:
        cells = [[row.kind, *(str(row.counts[state]) for state in STATES)] for row in findings.rows]
        if cells:
            click.echo(
                format_table(["WORKLOADS OF", *(state.upper() for state in STATES)], cells, width=terminal_width())
            )
        for gate in findings.gates:
            click.echo(str(gate))
        for finding in findings.findings:
            click.echo(f"\n{format_finding(finding)}")
        if not findings.findings:
            click.echo(_tell_next_step(holder))
    return 1 if findings.findings else 0


def _tell_next_step(holder: str) -> str:
    """Return a sentence on the next step if nothing prevents the takeover.

    holder: the identity in the Lease of engines; "" if no engine holds it.
    """
    from muster.operator.precedence import is_ours

    if holder and is_ours(holder):
        return f"Muster has taken over: the Lease of engines names {holder}"
    return "Muster can take over: stop Kueue's manager, and start `muster controllers`"


async def _give_back(target: Target, config: str | None) -> None:
    """Give the Workloads back to Kueue, after checking that no engine runs. Raises `click.ClickException`."""
    from muster.cli.terminal.output import say
    from muster.operator.handback import StillWorksError, hand_back_alone
    from muster.operator.precedence import make_identity
    from muster.runtime.control.leases import LeadershipLostError
    from muster.runtime.externalinputs import ExternalInputs
    from muster.runtime.ids import Ids, Random
    from muster.runtime.realclock import RealClock

    inputs = ExternalInputs(RealClock(), Ids(), Random())
    async with connect(target) as session:
        await _require_no_embedded(session.client)
        settings = await _read_settings(session.client, config, target.namespace, say)
        await _require_stopped(session.client, settings, say)
        own = make_identity("adopt", inputs.ids.uid())
        try:
            count = await hand_back_alone(session.client, inputs, settings, own, say)
        except (StillWorksError, LeadershipLostError) as error:
            raise click.ClickException(str(error)) from None
    click.echo(f"{count} workload{'s' if count != 1 else ''} given back: Kueue's manager can start")


async def _require_no_embedded(client: Any) -> None:
    from muster.insight.reader.engine import is_embedded

    if await is_embedded(client):
        raise click.ClickException(
            "this is a cluster of `muster up`, which has an engine of its own: name another with --kubeconfig"
        )


async def _require_stopped(client: Any, settings: "Configuration", say: Callable[[str], None]) -> None:
    """Raise `click.ClickException` if pods of the engine run.

    say: receives a warning if an engine may run outside of pods, where it cannot be seen.
    """
    from muster.install.engines import list_running_engines
    from muster.install.options import NAME

    where = settings.namespace
    if pods := await list_running_engines(client, where):
        raise click.ClickException(
            f"pods of the engine still run: {', '.join(pods)}; stop it first:"
            f" kubectl -n {where} scale deployment {NAME} --replicas=0"
        )
    if not settings.leader_election.leader_elect:
        say(
            "leaderElection.leaderElect is false: an engine that does not run as a pod of namespace "
            f"{where} cannot be seen, and must be stopped before this"
        )


async def _read_settings(
    client: Any, config: str | None, namespace: str, say: Callable[[str], None]
) -> "Configuration":
    """Return the settings of the file `config`; by default, of the engine in the cluster, or else the default settings.

    Raises `click.ClickException` if the settings are invalid, or if a named namespace has none.

    namespace: the namespace of the engine; "" to search all.
    """
    from muster.api.config import DEFAULT, ConfigurationError, load
    from muster.cli.settings import configuration_of
    from muster.install.engines import SeveralError, read_engine_configuration

    if config is not None:
        given: Configuration = configuration_of(config)
        return given
    try:
        text = await read_engine_configuration(client, namespace)
    except SeveralError as error:
        raise click.ClickException(f"{error}: name one with --namespace") from None
    if text is None and namespace:
        raise click.ClickException(
            f"no Configuration of Muster's or Kueue's in namespace {namespace}: name a file with --config"
        )
    if text is None:
        say("no Configuration of Muster's or Kueue's found: the report uses the defaults")
        return DEFAULT
    try:
        return load(text)
    except ConfigurationError as error:
        raise click.ClickException(
            f"the Configuration in the cluster cannot be read: {error}; name a file with --config"
        ) from error
