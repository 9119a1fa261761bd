"""Compose the sentences of `muster plan` from a forecast. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from muster.api.nodes import HOSTNAME_LABEL
from muster.insight.forecasts.plan import ObjectPlan
from muster.insight.forecasts.quotaplan import QuotaPlan
from muster.insight.forecasts.rehearsal import GangPlan
from muster.insight.jobs.failures import count_of
from muster.insight.text import format_age, format_quantity, group_alike, list_names
from muster.insight.why.sentences import describe_estimate
from muster.queueing.model import Places

_WORDS = {
    "starts": "would start now",
    "preempts": "would start after preempting other pods",
    "waits": "would wait",
    "never": "would never start",
}

# The maximum numbers of nodes and of victims that a line names.
_NAMED = 16

Line = tuple[str | None, str]
"""What a sentence is about, and the sentence. About: "" continues the sentence before; None is the plan as a whole."""


def describe_outcome(plan: ObjectPlan, namespace: str) -> str:
    """Return one sentence on what would happen to an object.

    namespace: the user's namespace, which is left out of names.
    """
    name = plan.name if plan.namespace == namespace else f"{plan.namespace}/{plan.name}"
    return f"{name} ({plan.kind}): {describe_verdict(plan)}"


def describe_verdict(plan: ObjectPlan) -> str:
    """Return whether an object would start, in a few words, with the nodes for which it waits."""
    awaits = f" for {plan.awaits}" if plan.verdict == "waits" and plan.awaits else ""
    return f"{_WORDS[plan.verdict]}{awaits}"


def describe_plan(plan: ObjectPlan, now: datetime) -> list[Line]:
    """Return the lines of a forecast: the quota and nodes that an object would get, its victims, or what it lacks.

    Each line has a label, or "" to continue the label above, or None if it is the only line.
    """
    if plan.problem or plan.never:
        return [(None, plan.problem or plan.never)]
    lines = _describe_quota(plan.quota, now) if plan.quota is not None else []
    if plan.gang is not None:
        lines += _describe_placement(plan.gang, plan.namespace, now)
    more = [plan.note if plan.verdict != "starts" else "", plan.caveat]
    return lines + [("", text) for text in more if text]


def _describe_quota(quota: QuotaPlan, now: datetime) -> list[Line]:
    if quota.verdict == "waits":
        lines: list[Line] = [("quota", quota.reason or f"there is not enough in ClusterQueue {quota.cluster_queue}")]
        lines += [
            ("", f"{need.resource} of flavor {need.flavor}: {format_quantity(need.resource, need.missing)} missing")
            for need in quota.needs
            if need.missing
        ]
        return lines if quota.estimate is None else [*lines, ("starts", describe_estimate(quota.estimate, now))]
    given = group_alike(
        (podset, f"x{quota.counts[podset]}: " + ", ".join(f"{resource} ({flavor})" for resource, flavor in got.items()))
        for podset, got in quota.flavors.items()
    )
    first, *others = [f"{names} {text}" for names, text in given] or [""]
    lines = [("quota", f"from ClusterQueue {quota.cluster_queue} through queue {quota.queue}: {first}")]
    lines += [("", text) for text in others]
    lines += _describe_places(quota.places)
    return lines + ([("", f"takes the quota of {list_names(quota.victims, _NAMED)}")] if quota.victims else [])


def _describe_places(places: Mapping[str, Places]) -> Iterable[Line]:
    """Yield a line for each podset with the topology domains of its pods, unless the domains are single nodes."""
    wide = {podset: one for podset, one in places.items() if one.levels != (HOSTNAME_LABEL,)}
    for number, (podset, one) in enumerate(wide.items()):
        domains = list_names([f"{'/'.join(values)} {count}" for values, count in one.domains], _NAMED)
        yield ("" if number else "topology"), f"{podset}: {domains}"


def _describe_placement(gang: GangPlan, namespace: str, now: datetime) -> list[Line]:
    lines: list[Line] = []
    if gang.nodes:
        nodes = list_names([f"{node} {count}" for node, count in sorted(gang.nodes.items())], _NAMED)
        pods = f"{gang.placed_pods} of {gang.pods} pods" if gang.placed_pods < gang.pods else count_of(gang.pods, "pod")
        once = ", after preempting other pods" if gang.victims else ""
        lines.append(("placement", f"{pods}{once}: {nodes}"))
    if gang.victims:
        some = [
            f"{one.name.removeprefix(f'{namespace}/')} ({'all' if one.whole else 'only'} {count_of(one.pods, 'pod')})"
            for one in gang.victims
        ]
        lines.append(("preempts", list_names(some, _NAMED)))
    if gang.reason and gang.verdict != "preempts":
        ends = " It would not fit even if everything that ever ends had ended." if gang.verdict == "never" else ""
        lines.append(("" if lines else "placement", gang.reason + ends))
    if gang.starts is not None:
        clock = gang.starts.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        lines.append(("starts", f"in about {format_age(now, gang.starts)}, {clock}"))
    return lines
