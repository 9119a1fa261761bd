"""`muster plan`: say what would happen if manifests were applied now."""

import sys
from typing import Any

import click

from muster.actions.session import Target
from muster.api.values.manifests import Manifest, ManifestError
from muster.cli.actions.manifests import apply_one, read_all
from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.session import connect, run, target_options


@click.command(
    epilog=examples("muster plan -f train.yaml", "muster plan -f train.yaml -o json", "muster plan -f - < train.yaml"),
)
@click.option(
    "-f",
    "--filename",
    metavar="FILE|DIR|-",
    multiple=True,
    required=True,
    help="Manifests; - is stdin.",
    shell_complete=names.files,
)
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Another form.")
@target_options
def command(filename: tuple[str, ...], output: str | None, **options: Any) -> None:
    """Say whether jobs would start now, where, and which jobs they would preempt.

    If not, what is missing. Nothing is written.
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
    """Print the plan; return 1 if the server would refuse some of the manifests."""
    from muster.cli.actions.each import attempt
    from muster.cli.names.discovery import Discovery
    from muster.cli.terminal.output import dump, say
    from muster.insight.reader.plan import plan
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

        successes = [await attempt(one.title, look(one.document)) for one in manifests]
        plans = await plan(session.client, stored, clock.now())
        namespace, now = session.namespace, clock.now()
    if output:
        click.echo(dump({"items": [_make_document(one) for one in plans]}, output))
    elif plans:
        click.echo("\n\n".join("\n".join(_lines(one, namespace, now)) for one in plans))
    elif all(successes):
        say("the manifests would create no jobs or pods")
    return int(not all(successes))


# The kinds of jobs: existing ones are not planned.
_RUN = ("jobs.batch", "jobsets.jobset.x-k8s.io", "pods")

_WORDS = {
    "starts": "would start now",
    "preempts": "would start once others have gone",
    "waits": "would wait",
    "never": "would never start",
}

# The most nodes, and the most victims, that a line names.
_NAMED = 16


def _lines(plan: Any, namespace: str, now: Any) -> list[str]:
    name = plan.name if plan.namespace == namespace else f"{plan.namespace}/{plan.name}"
    awaits = f" for {plan.awaits}" if plan.verdict == "waits" and plan.awaits else ""
    lines = [f"{name} ({plan.kind}): {_WORDS[plan.verdict]}{awaits}"]
    if plan.problem:
        return [*lines, f"   {plan.problem}"]
    if plan.never:
        return [*lines, f"   {plan.never}"]
    if plan.quota is not None:
        lines += _render_quota(plan.quota, now)
    if plan.gang is not None:
        lines += _render_placement(plan.gang, plan.namespace, now)
    more = [plan.note if plan.verdict != "starts" else "", plan.caveat]
    return lines + [_render_line("", text) for text in more if text]


def _render_quota(quota: Any, now: Any) -> list[str]:
    from muster.insight.text import format_quantity, group_alike
    from muster.insight.why.sentences import describe_estimate

    if quota.verdict == "waits":
        lines = [_render_line("quota", quota.reason or f"there is not enough in ClusterQueue {quota.cluster_queue}")]
        missing = [need for need in quota.needs if need.missing]
        lines += [
            _render_line(
                "", f"{need.resource} of flavor {need.flavor}: {format_quantity(need.resource, need.missing)} missing"
            )
            for need in missing
        ]
        return (
            [*lines, _render_line("starts", describe_estimate(quota.estimate, now))]
            if quota.estimate is not None
            else lines
        )
    given = group_alike(
        (podset, f"x{quota.counts[podset]}: " + ", ".join(f"{resource} ({flavor})" for resource, flavor in got.items()))
        for podset, got in quota.flavors.items()
    )
    first, *others = [f"{names} {text}" for names, text in given] or [""]
    lines = [_render_line("quota", f"from ClusterQueue {quota.cluster_queue} through queue {quota.queue}: {first}")]
    lines += [_render_line("", text) for text in others]
    lines += _render_places(quota.places)
    return lines + ([_render_line("", f"takes the quota of {_shorten_list(quota.victims)}")] if quota.victims else [])


def _render_places(places: Any) -> list[str]:
    """Return the topology domains of the pods; single nodes are in the placement."""
    from muster.api.nodes import HOSTNAME_LABEL

    wide = {podset: one for podset, one in places.items() if one.levels != (HOSTNAME_LABEL,)}
    return [
        _render_line(
            "topology" if podset == next(iter(wide)) else "",
            f"{podset}: " + _shorten_list([f"{'/'.join(values)} {count}" for values, count in one.domains]),
        )
        for podset, one in wide.items()
    ]


def _render_placement(gang: Any, namespace: str, now: Any) -> list[str]:
    from muster.insight.jobs.failures import count_of
    from muster.insight.text import format_age

    lines = []
    if gang.nodes:
        nodes = _shorten_list([f"{node} {count}" for node, count in sorted(gang.nodes.items())])
        pods = f"{gang.placed} of {gang.pods} pods" if gang.placed < gang.pods else count_of(gang.pods, "pod")
        once = ", once others have gone" if gang.victims else ""
        lines.append(_render_line("placement", f"{pods}{once}: {nodes}"))
    if gang.victims:
        some = [
            f"{one.name.removeprefix(f'{namespace}/')} ({'all' if one.whole else 'only'} {count_of(one.pods, 'pod')})"
            for one in gang.victims
        ]
        lines.append(_render_line("displaces", _shorten_list(some)))
    if gang.reason and gang.verdict != "preempts":
        ends = " It would not fit even if everything that ever ends had ended." if gang.verdict == "never" else ""
        lines.append(_render_line("" if lines else "placement", gang.reason + ends))
    if gang.starts is not None:
        clock = gang.starts.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        lines.append(_render_line("starts", f"about in {format_age(now, gang.starts)}, {clock}"))
    return lines


def _render_line(name: str, text: str) -> str:
    return f"   {name:<10} {text}"


def _shorten_list(names: Any) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _make_domains(places: Any) -> dict[str, Any]:
    """Return the domains in the form of a Workload's status."""
    domains = [{"values": list(values), "count": count} for values, count in places.domains]
    return {"levels": list(places.levels), "domains": domains}


def _make_document(plan: Any) -> dict[str, Any]:
    """Return the whole plan, for programs."""
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
