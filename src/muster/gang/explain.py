"""Why a gang waits, in one sentence with numbers: the message of events, conditions and `muster why`."""

from collections import Counter

import numpy as np

from muster.api.quantity import format_amount
from muster.gang.capacity import Capacity
from muster.gang.placement import Refusal
from muster.gang.shapes import Shape
from muster.gang.topology import NoDomain


def explain(capacity: Capacity, refusal: Refusal, gang_size: int) -> str:
    """The scheduler's usual sentence (`0/3 nodes are available: ...`), then what the gang lacks."""
    if isinstance(refusal, NoDomain):
        return f"0/{len(capacity)} nodes are available for the gang of {gang_size} together. {refusal.sentence}"
    reasons = _reasons(capacity, refusal.shape)
    parts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    available = f"0/{len(capacity)} nodes are available" + (f": {parts}." if parts else ".")
    if gang_size == 1:
        return f"{available}{_lacking_on_each(capacity, refusal.shape)}"
    if not refusal.proven:
        together = "although each of its shapes fits alone"
        return f"{available} No way was found to fit the {gang_size} pods of the gang together, {together}."
    fit = f"{refusal.fits} of {refusal.wanted} like pods fit now, and the gang of {gang_size} starts whole."
    lacking = _lacking_on_each(capacity, refusal.shape) or _lacking_in_all(capacity, refusal)
    return f"{available} {fit}{lacking}"


def _reasons(capacity: Capacity, shape: Shape) -> Counter[str]:
    reasons = Counter(capacity.closed(shape))
    open_nodes = capacity.eligible(shape)
    for resource, wanted in shape.requests:
        short = int(((capacity.free_of(resource) < wanted) & open_nodes).sum())
        if short:
            reasons["Too many pods" if resource == "pods" else f"Insufficient {resource}"] += short
    return reasons


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
        parts.append(f"{resource} {ask} ({has} free on {int(open_nodes.sum())} nodes)")
    return f" Together they ask for {', '.join(parts)}." if parts else ""


def _amounts(shape: Shape) -> list[tuple[str, int]]:
    return [(resource, wanted) for resource, wanted in shape.requests if resource != "pods"]
