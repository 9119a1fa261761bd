"""`muster why`: where a job stands, level by level."""

from typing import Any

import click

from muster.cli.completion import names
from muster.cli.names.examples import examples
from muster.cli.names.types import name
from muster.cli.session import Target, connect, run, target_options


@click.command(
    epilog=examples("muster why train", "muster why train -o json"),
)
@click.argument("job", type=name, shell_complete=names.jobs)
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Another form.")
@target_options
def command(job: str, output: str | None, **options: Any) -> None:
    """Say what JOB waits for, with numbers, who is ahead, and when it will start; or where it runs.

    Of a PodGroup it says how each of its pods does, as `muster podgroups describe`.
    """
    run(_why(Target.of(options), job, output or ""))


async def _why(target: Target, name: str, output: str) -> None:
    from muster.cli.names.choices import no_job
    from muster.cli.terminal.output import dump
    from muster.insight.reader.job import investigate
    from muster.insight.why import levels
    from muster.runtime.clock import RealClock

    async with connect(target) as session:
        facts = await investigate(session.client, session.namespace, name, RealClock().now())
        if facts is None:
            from muster.cli.actions.describing import described, described_lines

            groups, _ = await described(session.client, session.namespace, name, RealClock().now())
            if groups:
                click.echo(dump(groups, output) if output else described_lines(groups))
                return
            raise click.ClickException(await no_job(session.client, name, session.namespace))
    found = levels(facts)
    if output:
        click.echo(dump(_document(facts, found), output))
    else:
        click.echo("\n".join(_lines(facts, found)))


_MARKS = {"done": "ok", "here": ">>", "later": "", "none": "-"}


def _lines(facts: Any, found: Any) -> list[str]:
    from muster.insight.why import failed, when

    state = facts.state
    count = f" ({state.ready} of {state.wanted} ready)" if state.word in ("Running", "Starting") else ""
    reason = f": {state.reason}" if state.finished and state.reason else ""
    never = f"; it {facts.verdict.sentence}" if facts.verdict.text else ""
    lines = [f"{facts.name}: {state.word.lower()}{count}{reason}{never}"] + ([] if state.finished else [""])
    for level in found if not state.finished else ():
        lines.append(f"{_MARKS[level.state]:2} {level.name:<10} {level.text}".rstrip())
        lines += [f"{'':13} {detail}" for detail in level.details]
    lines += _told(failed(facts), state)
    if facts.estimate is not None:
        lines.append(f"   {'starts':<10} {when(facts.estimate, facts.now)}")
    return lines


def _told(failures: list[str], state: Any) -> list[str]:
    """What became of pods that failed, also while the job goes on."""
    if state.finished:
        return ["", *failures] if failures and state.word == "Failed" else []
    return [f"   {'failed' if number == 0 else '':<10} {text}" for number, text in enumerate(failures)]


def _document(facts: Any, found: Any) -> dict[str, Any]:
    """All of it, for programs."""
    from dataclasses import asdict

    from muster.api.quantity import format_amount

    estimate, stands = facts.estimate, facts.quota_state
    starts = (
        {"at": estimate.at, "certainty": str(estimate.certainty), "because": estimate.because} if estimate else None
    )
    amounts = ("asked", "nominal", "used", "available", "missing")
    return {
        "namespace": facts.namespace,
        "name": facts.name,
        "state": facts.state.word,
        "ready": facts.state.ready,
        "wanted": facts.state.wanted,
        "reason": facts.state.reason,
        "never": facts.verdict.text if facts.verdict.certain else "",
        "queue": stands.queue if stands is not None else "",
        "clusterQueue": facts.cluster_queue,
        "position": stands.position if stands is not None else None,
        "ahead": [
            {"namespace": one.metadata.namespace, "name": one.metadata.name, "priority": one.priority}
            for one in facts.ahead or ()
        ],
        "needs": [
            {"flavor": need.flavor, "resource": need.resource}
            | {what: format_amount(need.resource, getattr(need, what)) for what in amounts}
            for need in facts.needs
        ],
        "holders": [
            {"name": one.name, "clusterQueue": one.queue, "since": one.since}
            | {"usage": {resource: format_amount(resource, n) for resource, n in one.usage.items()}}
            for one in facts.holders
        ],
        "starts": starts,
        "levels": [asdict(level) for level in found],
    }
