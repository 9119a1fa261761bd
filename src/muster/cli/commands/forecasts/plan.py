"""`muster plan`: say what would happen if manifests were applied now."""

import sys
from typing import Any

import click

from muster.actions.server.session import Target
from muster.api.values.manifests import Manifest, ManifestError
from muster.cli.actions.manifests import apply_one, read_all
from muster.cli.completion import names
from muster.cli.names.examples import format_examples
from muster.cli.session import connect, run, target_options


@click.command(
    epilog=format_examples(
        "muster plan -f train.yaml", "muster plan -f train.yaml -o json", "muster plan -f - < train.yaml"
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
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format (default: text).")
@target_options
def command(filename: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Forecast whether jobs would start now, on which nodes, and which jobs they would preempt.

    For a job that would wait, the forecast says which resources are missing. The command creates nothing.
    """
    from muster.cli.terminal.output import say

    parsed = read_all(filename)
    wrong = [one for one in parsed if isinstance(one, ManifestError)]
    right = [one for one in parsed if isinstance(one, Manifest)]
    for error in wrong:
        say(f"Error: {error}")
    code = run(_plan(Target.of(options), right, output or "")) if right else 0
    sys.exit(max(code, int(bool(wrong))))


async def _plan(target: Target, manifests: list[Manifest], output: str) -> int:
    """Print what would happen to the objects of manifests; return 1 if the server would refuse some, else 0.

    Raises `ApiError`.

    output: `json` or `yaml`; "" for text.
    """
    from muster.cli.actions.each import try_and_say
    from muster.cli.names.discovery import Discovery
    from muster.cli.terminal.output import dump, say
    from muster.insight.reader.forecasts.plan import plan
    from muster.runtime.realclock import RealClock

    clock = RealClock()
    async with connect(target) as session:
        discovery = Discovery(session.client)
        stored: list[Any] = []

        async def look(manifest: dict[str, Any]) -> None:
            kind = await discovery.kind(manifest["apiVersion"], manifest["kind"])
            metadata = manifest["metadata"]
            name, namespace = metadata.get("name"), metadata.get("namespace") or session.namespace
            if kind.resource in _RUN and name and await session.client.find(kind, name, namespace) is not None:
                say(f"{kind.kind.lower()}/{name} is there already: it is not planned")
                return
            document, _ = await apply_one(session, kind, manifest, dry_run=True)
            stored.append((kind, document))

        successes = [await try_and_say(one.title, look(one.document)) for one in manifests]
        plans = await plan(session.client, stored, clock.now())
        namespace, now = session.namespace, clock.now()
    if output:
        click.echo(dump({"items": [_make_document(one) for one in plans]}, output))
    elif plans:
        click.echo("\n\n".join("\n".join(_render_lines(one, namespace, now)) for one in plans))
    elif all(successes):
        say("the manifests would create no jobs or pods")
    return int(not all(successes))


# The kinds of jobs. Existing objects of these kinds are not planned.
_RUN = ("jobs.batch", "jobsets.jobset.x-k8s.io", "pods")


def _render_lines(plan: Any, namespace: str, now: Any) -> list[str]:
    from muster.insight.forecasts.sentences import describe_outcome, describe_plan

    return [
        describe_outcome(plan, namespace),
        *(f"   {name:<10} {text}" if name is not None else f"   {text}" for name, text in describe_plan(plan, now)),
    ]


def _make_domains(places: Any) -> dict[str, Any]:
    """Return topology domains in the form of a Workload's status."""
    domains = [{"values": list(values), "count": count} for values, count in places.domains]
    return {"levels": list(places.levels), "domains": domains}


def _make_document(plan: Any) -> dict[str, Any]:
    """Return the whole plan of an object as values for JSON."""
    from muster.api.values.quantity import format_amount

    quota, gang = plan.quota, plan.gang
    return {
        "kind": plan.kind,
        "namespace": plan.namespace,
        "name": plan.name,
        "verdict": plan.verdict,
        "problem": plan.problem,
        "note": plan.note,
        "caveat": plan.caveat,
        "never": plan.never,
        "awaits": plan.awaits,
        "quota": None
        if quota is None
        else {
            "queue": quota.queue,
            "clusterQueue": quota.cluster_queue,
            "verdict": quota.verdict,
            "flavors": quota.flavors,
            "counts": quota.counts,
            "topology": {podset: _make_domains(one) for podset, one in quota.places.items()},
            "victims": list(quota.victims),
            "reason": quota.reason,
            "missing": [
                {"flavor": one.flavor, "resource": one.resource, "amount": format_amount(one.resource, one.missing)}
                for one in quota.needs
                if one.missing
            ],
            "startsAt": quota.estimate.at if quota.estimate is not None else None,
        },
        "placement": None
        if gang is None
        else {
            "verdict": gang.verdict,
            "pods": gang.pods,
            "nodes": dict(sorted(gang.nodes.items())),
            "victims": [{"name": one.name, "pods": one.pods, "whole": one.whole} for one in gang.victims],
            "reason": gang.reason,
            "startsAt": gang.starts,
        },
    }
