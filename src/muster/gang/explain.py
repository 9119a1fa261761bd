"""Why a gang waits, in one sentence with numbers: the message of events, conditions and `muster why`."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from muster.api.values.quantity import format_amount
from muster.gang.fit.around import Around
from muster.gang.fit.filling import MOST_TURNS
from muster.gang.fit.rules import PORTS, Apart, Together, limits_of
from muster.gang.nodes.capacity import Capacity, Mask
from muster.gang.placement import Refusal
from muster.gang.shapes import Shape
from muster.gang.topology import NoDomain


def explain(capacity: Capacity, refusal: Refusal, gang_size: int) -> str:
    """The scheduler's usual sentence (`0/3 nodes are available: ...`), then what the gang lacks."""
    if isinstance(refusal, NoDomain):
        return f"0/{len(capacity)} nodes are available for the gang of {gang_size} together. {refusal.sentence}"
    if unable := capacity.unable(refusal.shape):
        return f"0/{len(capacity)} nodes are available: {unable}."
    reasons = _reasons(capacity, refusal.shape)
    parts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    available = f"0/{len(capacity)} nodes are available" + (f": {parts}." if parts else ".")
    if gang_size == 1:
        return f"{available}{_lacking_on_each(capacity, refusal.shape)}"
    if not refusal.proven:
        tried = _tried(capacity, refusal, gang_size)
        return f"{available} No way was found to fit the {gang_size} pods of the gang together, {tried}."
    fit = f"{refusal.fits} of {refusal.wanted} like pods fit now, and the gang of {gang_size} starts whole."
    lacking = (
        _lacking_on_each(capacity, refusal.shape) or _between(capacity, refusal) or _lacking_in_all(capacity, refusal)
    )
    return f"{available} {fit}{lacking}"


def _tried(capacity: Capacity, refusal: Refusal, gang_size: int) -> str:
    if refusal.wanted < gang_size:
        return "although each of its shapes fits alone"
    if refusal.wanted * len(capacity.names) > MOST_TURNS:
        return "which have several rules between them, and are too many to be looked at one after the other"
    return f"one after the other; {refusal.fits} found a node"


def _reasons(capacity: Capacity, shape: Shape) -> Counter[str]:
    """How many nodes are closed to the next pod for which reason: the first that the scheduler comes to."""
    reasons = Counter(capacity.closed(shape))
    open_nodes = capacity.eligible(shape).copy()
    held, others = _by_pods(capacity, shape)
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


def _by_pods(capacity: Capacity, shape: Shape) -> tuple[list[tuple[str, Mask]], list[tuple[str, Mask]]]:
    """What other pods close: by ports, which come before room, and otherwise."""
    limits = limits_of(Around(capacity), shape)
    closed = [*limits.closed, *((rule.reason, rule.closed()) for rule in limits.rules)]
    return [one for one in closed if one[0] == PORTS], [one for one in closed if one[0] != PORTS]


def _count(reasons: Counter[str], open_nodes: Mask, closed: Iterable[tuple[str, Mask]]) -> None:
    for reason, mask in closed:
        if number := int((mask & open_nodes).sum()):
            reasons[reason] += number
            open_nodes &= ~mask


def _lacking_on_each(capacity: Capacity, shape: Shape) -> str:
    """What one pod asks for that no open node has free, beside the most that a node has of it."""
    open_nodes = capacity.eligible(shape)
    parts = []
    for resource, wanted in _amounts(shape):
        free = int(np.max(capacity.free_of(resource)[open_nodes], initial=0))
        most = int(np.max(capacity.allocatable_of(resource)[open_nodes], initial=0))
        if open_nodes.any() and wanted > free:
            ask, has, of = (format_amount(resource, value) for value in (wanted, max(free, 0), most))
            never = "; no node is large enough" if wanted > most else ""
            parts.append(f"{resource} {ask} (most free on one node: {has} of {of}{never})")
    return f" Each pod asks for {', '.join(parts)}." if parts else ""


def _lacking_in_all(capacity: Capacity, refusal: Refusal) -> str:
    """What the pods ask for together, beside what all open nodes have free."""
    open_nodes = capacity.eligible(refusal.shape)
    parts = []
    for resource, wanted in _amounts(refusal.shape):
        free = int(np.maximum(capacity.free_of(resource)[open_nodes], 0).sum())
        ask, has = format_amount(resource, wanted * refusal.wanted), format_amount(resource, free)
        nodes = int(open_nodes.sum())
        parts.append(f"{resource} {ask} ({has} free on {nodes} {'node' if nodes == 1 else 'nodes'})")
    return f" Together they ask for {', '.join(parts)}." if parts else ""


def _between(capacity: Capacity, refusal: Refusal) -> str:
    """What the pods do to each other, where that is what makes them too many."""
    shape, fits = refusal.shape, refusal.fits
    limits = limits_of(Around(capacity), shape)
    for rule in limits.rules:
        if isinstance(rule, Apart):
            return f" They keep apart from each other, and places for one each are {fits}."
        if isinstance(rule, Together):
            return f" They keep together, and the roomiest place takes {fits}."
        return f" They are spread evenly, and that leaves room for {fits}."
    if limits.single is None and not _fills_a_node(capacity, shape):
        return ""
    asked = " and ".join(f"{resource} {format_amount(resource, wanted)}" for resource, wanted in _amounts(shape))
    free, has = f" with {asked} free" if asked else "", "has" if fits == 1 else "have"
    return f" They need {refusal.wanted} nodes{free}; {fits} {has} them."


def _fills_a_node(capacity: Capacity, shape: Shape) -> bool:
    """Whether no node, were it empty, would take two such pods."""
    fits = [capacity.allocatable_of(resource) // wanted for resource, wanted in shape.requests]
    return int(np.minimum.reduce(fits)[capacity.eligible(shape)].max(initial=0)) <= 1


def _amounts(shape: Shape) -> list[tuple[str, int]]:
    return [(resource, wanted) for resource, wanted in shape.requests if resource != "pods"]
