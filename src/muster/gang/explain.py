"""Explain in one sentence with numbers why a gang waits, for events, conditions and `muster why`."""

from collections import Counter
from collections.abc import Iterable

from muster.api.values.quantity import format_amount
from muster.gang import arrays as np
from muster.gang.arrays import Mask
from muster.gang.demands import Demand
from muster.gang.fit.around import Around
from muster.gang.fit.filling import MOST_TURNS
from muster.gang.fit.rules import PORTS, Apart, Together, limits_of
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import NoPacking, Refusal
from muster.gang.shapes import Shape
from muster.gang.topology import NoDomain

_TOGETHER = {
    Demand.START: "the gang of {} starts whole",
    Demand.REPAIR: "the {} that the gang lost come back together",
    Demand.GROWTH: "the {} by which the gang grows start together",
    Demand.WAVE: "the {} of the next wave start together",
}


def explain(capacity: Capacity, refusal: Refusal, gang_size: int, demand: Demand = Demand.START) -> str:
    """Return kube-scheduler's usual sentence (`0/3 nodes are available: ...`), followed by what the gang lacks.

    gang_size: the number of pods to place together.
    demand: the reason why these pods need nodes.
    """
    if isinstance(refusal, NoDomain):
        return f"0/{len(capacity)} nodes are available for the gang of {gang_size} together. {refusal.sentence}"
    if unable := capacity.unable(refusal.shape):
        return f"0/{len(capacity)} nodes are available: {unable}."
    reasons = _count_reasons(capacity, refusal.shape)
    parts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    available = f"0/{len(capacity)} nodes are available" + (f": {parts}." if parts else ".")
    if gang_size == 1:
        return f"{available}{_describe_lack_on_each(capacity, refusal.shape)}"
    if not refusal.proven:
        together = f"to fit the {gang_size} pods of the gang together"
        if isinstance(refusal, NoPacking):
            return f"{available} There is no way {together}, although each of its shapes fits alone."
        return f"{available} No way was found {together}, {_describe_attempts(capacity, refusal, gang_size)}."
    together = _TOGETHER[demand].format(gang_size)
    fit = f"{refusal.fits} of {refusal.wanted} identical pods fit now, and {together}."
    if not capacity.eligible(refusal.shape).any():
        return f"{available} {fit}"
    lacking = (
        _describe_lack_on_each(capacity, refusal.shape)
        or _describe_rules(capacity, refusal)
        or _describe_lack_in_all(capacity, refusal)
    )
    return f"{available} {fit}{lacking}"


def _describe_attempts(capacity: Capacity, refusal: Refusal, gang_size: int) -> str:
    if refusal.wanted < gang_size:
        return "although each of its shapes fits alone; the search was cut short"
    if refusal.wanted * len(capacity.names) > MOST_TURNS:
        return "which have several rules between them, and are too many to place one by one"
    return f"one after the other; {refusal.fits} found a node"


def _count_reasons(capacity: Capacity, shape: Shape) -> Counter[str]:
    """Return how many nodes are closed to the gang's next pod, by the first reason that the scheduler finds."""
    reasons = Counter(capacity.count_closed(shape))
    open_nodes = capacity.eligible(shape).copy()
    held, others = _find_closed_by_pods(capacity, shape)
    _count(reasons, open_nodes, held)
    short = np.zeros_like(open_nodes)
    for resource, wanted in shape.requests:
        lacking = (capacity.free_of(resource) < wanted) & open_nodes
        if number := int(lacking.sum()):
            reasons["Too many pods" if resource == "pods" else f"Insufficient {resource}"] += number
            short |= lacking
    open_nodes &= ~short
    _count(reasons, open_nodes, others)
    return reasons


def _find_closed_by_pods(capacity: Capacity, shape: Shape) -> tuple[list[tuple[str, Mask]], list[tuple[str, Mask]]]:
    """Return the nodes that other pods close, by reason: first because of ports, then because of all other rules.

    They are separate because kube-scheduler checks ports before room.
    """
    limits = limits_of(Around(capacity), shape)
    closed = [*limits.closed, *((rule.reason, rule.find_closed()) for rule in limits.rules)]
    return [one for one in closed if one[0] == PORTS], [one for one in closed if one[0] != PORTS]


def _count(reasons: Counter[str], open_nodes: Mask, closed: Iterable[tuple[str, Mask]]) -> None:
    for reason, mask in closed:
        if number := int((mask & open_nodes).sum()):
            reasons[reason] += number
            open_nodes &= ~mask


def _describe_lack_on_each(capacity: Capacity, shape: Shape) -> str:
    """Describe the requests of one pod that no open node can satisfy, each with the largest free amount of any node."""
    open_nodes = capacity.eligible(shape)
    parts = []
    for resource, amount in _list_amounts(shape):
        free = int(np.max(capacity.free_of(resource)[open_nodes], initial=0))
        most = int(np.max(capacity.allocatable_of(resource)[open_nodes], initial=0))
        if open_nodes.any() and amount > free:
            ask, has, of = (format_amount(resource, value) for value in (amount, max(free, 0), most))
            never = "; no node is large enough" if amount > most else ""
            parts.append(f"{resource} {ask} (most free on one node: {has} of {of}{never})")
    return f" Each pod asks for {', '.join(parts)}." if parts else ""


def _describe_lack_in_all(capacity: Capacity, refusal: Refusal) -> str:
    """Describe the summed requests of the pods, each with the sum of the free amounts on all open nodes."""
    open_nodes = capacity.eligible(refusal.shape)
    parts = []
    for resource, amount in _list_amounts(refusal.shape):
        free = int(np.maximum(capacity.free_of(resource)[open_nodes], 0).sum())
        ask, has = format_amount(resource, amount * refusal.wanted), format_amount(resource, free)
        nodes = int(open_nodes.sum())
        parts.append(f"{resource} {ask} ({has} free on {nodes} {'node' if nodes == 1 else 'nodes'})")
    return f" Together they ask for {', '.join(parts)}." if parts else ""


def _describe_rules(capacity: Capacity, refusal: Refusal) -> str:
    """Describe how rules between the gang's pods limit how many of them fit; "" if no rule does."""
    shape, fits = refusal.shape, refusal.fits
    limits = limits_of(Around(capacity), shape)
    for rule in limits.rules:
        if isinstance(rule, Apart):
            return f" They keep apart from each other, and there are places for {fits}."
        if isinstance(rule, Together):
            return f" They keep together, and the roomiest place takes {fits}."
        return f" They are spread evenly, and that leaves room for {fits}."
    if limits.single is None and not _needs_whole_node(capacity, shape):
        return ""
    amounts = " and ".join(f"{resource} {format_amount(resource, wanted)}" for resource, wanted in _list_amounts(shape))
    free, has = f" with {amounts} free" if amounts else "", "has" if fits == 1 else "have"
    return f" They need {refusal.wanted} nodes{free}; {fits} {has} them."


def _needs_whole_node(capacity: Capacity, shape: Shape) -> bool:
    """Return whether no eligible node, even without pods, has room for two such pods."""
    fits = [capacity.allocatable_of(resource) // amount for resource, amount in shape.requests]
    return int(np.minimum.reduce(fits)[capacity.eligible(shape)].max(initial=0)) <= 1


def _list_amounts(shape: Shape) -> list[tuple[str, int]]:
    return [(resource, amount) for resource, amount in shape.requests if resource != "pods"]
