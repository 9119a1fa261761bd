"""Find topology domains for the pods of a workload whose flavors are known.

As in upstream: if quota is free and no domain has room, preemption may make room. If not even empty nodes suffice, the
workload does not fit. A podset without a topology request still gets domains, by least free capacity, if every flavor
of its ClusterQueue has a topology.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from muster.gang.nodes.domains import DomainLevel
from muster.gang.shapes import MOST, Shape
from muster.queueing.model import (
    Assignment,
    FlavorChoice,
    FlavorSpec,
    Mode,
    Places,
    PodSet,
    PodSetAssignment,
    QueueSpec,
    TopologyRequest,
)
from muster.queueing.topology import search
from muster.queueing.topology.ledger import CapacityLedger, FlavorRoom

ANYWHERE = TopologyRequest("unconstrained")


def assign_places(
    assignment: Assignment, podsets: Sequence[PodSet], flavors: Mapping[str, FlavorSpec], ledger: CapacityLedger
) -> Assignment:
    """Return the assignment with topology domains for its pods.

    If the domains have no room, the assignment's mode says whether preemption could make room. The ledger is unchanged.
    """
    if not needs_places(assignment, flavors):
        return assignment
    if assignment.mode == Mode.FIT:
        with_places, failed = _find_places(assignment, podsets, flavors, ledger)
        if not failed:
            return with_places
        assignment = _worsen(assignment, failed, Mode.PREEMPT)
    if assignment.mode in (Mode.PREEMPT, Mode.RECLAIM):
        _, failed = _find_places(assignment, podsets, flavors, ledger.make_empty())
        if failed:
            assignment = _worsen(assignment, failed, Mode.NO_FIT)
    return assignment


def find_places_now(
    assignment: Assignment, podsets: Sequence[PodSet], flavors: Mapping[str, FlavorSpec], ledger: CapacityLedger
) -> tuple[Places, ...] | None:
    """Return the topology domains where all pods of an assignment have room now; None if some have no room.

    The result is empty if the assignment needs no topology domains.
    """
    if not needs_places(assignment, flavors):
        return ()
    with_places, failed = _find_places(assignment, podsets, flavors, ledger)
    return None if failed else with_places.places


def explain_unsuited(
    podset: PodSet, flavor: FlavorSpec, covered: Sequence[str], queue: QueueSpec, others: Mapping[str, FlavorSpec]
) -> str:
    """Return why a flavor cannot serve the topology request of a podset; "" if it can.

    covered: the resources of the flavor's resource group.
    queue: the ClusterQueue.
    others: all flavors, by name.
    """
    request = podset.topology
    if request is None:
        if not flavor.topology or _has_only_topologies(queue, others):
            return ""
        return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
    if not flavor.topology:
        if any(asks_of(podset).get(resource) for resource in covered):  # outputs of transformations need no room
            return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
        return ""
    requested = [level for level in (request.level, *(level for level, _ in request.slices)) if level]
    if flavor.levels is not None and any(level not in flavor.levels for level in requested):
        return f'Flavor "{flavor.name}" does not contain the requested level'
    return ""


def _has_only_topologies(queue: QueueSpec, flavors: Mapping[str, FlavorSpec]) -> bool:
    names = {name for group in queue.groups for name in group.flavors}
    return all(name in flavors and flavors[name].topology for name in names)


def needs_places(assignment: Assignment, flavors: Mapping[str, FlavorSpec]) -> bool:
    """Return whether a flavor of an assignment has a topology that counts."""
    return any(
        _has_nodes(flavors[choice.flavor]) for podset in assignment.podsets for choice in podset.flavors.values()
    )


def _has_nodes(flavor: FlavorSpec) -> bool:
    return bool(flavor.topology) and flavor.levels is not None


def _worsen(assignment: Assignment, failed: Mapping[str, str], mode: Mode) -> Assignment:
    """Return the assignment with the mode of some podsets lowered to `mode`.

    failed: the reason, by the name of the podset.
    """
    return replace(
        assignment, podsets=tuple(_worsen_podset(one, failed.get(one.name), mode) for one in assignment.podsets)
    )


def _worsen_podset(podset: PodSetAssignment, why: str | None, mode: Mode) -> PodSetAssignment:
    if why is None:
        return podset
    flavors = {name: _limit_mode(choice, mode) for name, choice in podset.flavors.items()}
    reasons = tuple(sorted({*podset.reasons} - {podset.unplaced} | {why}))
    return replace(podset, flavors=flavors, reasons=reasons, places=None, unplaced=why)


def _limit_mode(choice: FlavorChoice, mode: Mode) -> FlavorChoice:
    return replace(choice, mode=min(choice.mode, mode))


def _find_places(
    assignment: Assignment, podsets: Sequence[PodSet], flavors: Mapping[str, FlavorSpec], ledger: CapacityLedger
) -> tuple[Assignment, dict[str, str]]:
    """Return the assignment with topology domains, and why a group of podsets gets none, by podset of that group.

    Each group is placed after the groups before it, whose pods count as placed. After a group that gets no domains, the
    remaining groups are not tried.
    """
    specs = {podset.name: podset for podset in podsets}
    by_podset: dict[str, Places] = {}
    failed: dict[str, str] = {}
    try:
        for members in _group_podsets(assignment, specs, flavors):
            outcome = _place(members, specs, flavors, ledger)
            if isinstance(outcome, str):
                failed = {member.name: outcome for member in members}
                break
            by_podset |= outcome
            ledger.take(outcome.values())
    finally:
        ledger.give(by_podset.values())
    placed_podsets = tuple(replace(one, places=by_podset.get(one.name)) for one in assignment.podsets)
    return replace(assignment, podsets=placed_podsets), failed


def _group_podsets(
    assignment: Assignment, specs: Mapping[str, PodSet], flavors: Mapping[str, FlavorSpec]
) -> Iterator[list[PodSetAssignment]]:
    """Yield the podsets that need topology domains, in groups that are placed together."""
    groups: dict[tuple[str, str], list[PodSetAssignment]] = {}
    for podset in assignment.podsets:
        wants = specs[podset.name].topology is not None or _find_topologies(podset, flavors)
        if podset.count and wants and podset.mode != Mode.NO_FIT:
            group = specs[podset.name].together
            groups.setdefault((group, "" if group else podset.name), []).append(podset)
    yield from groups.values()


def _find_topologies(podset: PodSetAssignment, flavors: Mapping[str, FlavorSpec]) -> list[str]:
    """Return the flavors of a podset that have a topology."""
    return sorted({choice.flavor for choice in podset.flavors.values() if flavors[choice.flavor].topology})


def _place(
    members: list[PodSetAssignment],
    specs: Mapping[str, PodSet],
    flavors: Mapping[str, FlavorSpec],
    ledger: CapacityLedger,
) -> dict[str, Places] | str:
    """Return topology domains for podsets that are placed together, or why there are none.

    With two podsets, the smaller one is the leader, and has a single pod.
    """
    if len(members) > 2:
        return "at most two podsets can be placed together"
    members = sorted(members, key=lambda member: -member.count)
    workers, leader = members[0], members[1] if len(members) > 1 else None
    if leader is not None and leader.count != 1:
        return "of two podsets that are placed together one has a single pod"
    names = _find_topologies(workers, flavors)
    if len(names) != 1:
        return f"more than one TAS flavor assigned: {', '.join(names)}" if names else "no TAS flavor assigned"
    flavor, spec = flavors[names[0]], specs[workers.name]
    if not flavor.levels:
        return f'Flavor "{flavor.name}" information missing in TAS cache'
    ask = ask_of(spec.topology or ANYWHERE, flavor.levels, workers.count, leader=leader is not None)
    if isinstance(ask, str):
        return ask
    field = ledger.field(flavor)
    if not field.levels[ask.level].names:
        return f"no topology domains at level: {flavor.levels[ask.level]}"
    shape = shape_of(spec, flavor)
    beside = shape_of(specs[leader.name], flavor) if leader is not None else None
    room = ledger.room(flavor, shape, beside)
    plain = room if beside is None else ledger.room(flavor, shape)
    outcome = search.find(field.levels, plain.pods, ask, led=None if beside is None else room.pods)
    if isinstance(outcome, search.Short):
        return _explain_no_room(flavor, ask, outcome, plain, field.levels, spec.topology)
    parts = {workers.name: (workers, shape, outcome.domains)}
    if leader is not None and beside is not None:
        parts[leader.name] = leader, beside, outcome.leader
    levels = flavor.levels[-1:] if field.by_node else flavor.levels
    leaves = field.levels[-1].names
    return {
        name: Places(
            podset=name,
            flavors=tuple(sorted({choice.flavor for choice in podset.flavors.values()})),
            levels=levels,
            requests=shape.requests,
            domains=tuple((leaves[i][-len(levels) :], count) for i, count in domains),
        )
        for name, (podset, shape, domains) in parts.items()
    }


def ask_of(
    request: TopologyRequest, levels: Sequence[str], count: int, *, leader: bool
) -> search.SearchParameters | str:
    """Return the parameters of a search for a topology request, with levels as indexes.

    Return the error as text if the slices of the request do not fit its level, its count or each other. The Topology
    must have all requested levels.
    """
    last = len(levels) - 1
    anywhere = request.how == "unconstrained"
    level = levels.index(request.level) if request.level else 0 if request.slices else last
    sizes = [(levels.index(label), size) for label, size in request.slices] or [(last, 1)]
    (slice_level, slice_size), *inner = sizes
    if slice_level < level:
        return f"podset slice topology {levels[slice_level]} is above the podset topology {levels[level]}"
    if count % slice_size:
        return f"pod set count {count} is not a multiple of the slice size {slice_size}"
    by_level: dict[int, int] = {}
    before, above = slice_size, slice_level
    for narrower, size in inner:
        if narrower <= above:
            return f"additional slice layer topology {levels[narrower]} must be at a lower level than {levels[above]}"
        if before % size:
            return f"additional slice layer size {size} must evenly divide parent layer size {before}"
        by_level |= dict.fromkeys(range(above + 1, narrower + 1), size)
        before, above = size, narrower
    return search.SearchParameters(
        count, level, request.how == "required", anywhere, slice_size, slice_level, by_level, leader
    )


def asks_of(podset: PodSet) -> Mapping[str, int]:
    """Return the amounts that a podset's pod requests from its node, before the transformations for quota."""
    return podset.asks or podset.requests


def shape_of(podset: PodSet, flavor: FlavorSpec) -> Shape:
    """Return the shape for which the capacity of a flavor's nodes is counted for a podset's pods."""
    asks = {resource: min(amount, MOST) for resource, amount in asks_of(podset).items() if amount > 0}
    return Shape(
        requests=tuple(sorted(({"pods": 1} | asks).items())),
        node_selector=tuple(sorted(podset.selector.items())),
        tolerations=(*podset.tolerations, *flavor.tolerations),
        node_terms=podset.terms,
    )


def _explain_no_room(
    flavor: FlavorSpec,
    ask: search.SearchParameters,
    short: search.Short,
    room: FlavorRoom,
    levels: Sequence[DomainLevel],
    request: TopologyRequest | None,
) -> str:
    """Return why no topology domain has room for the pods, with upstream's messages.

    request: the podset's topology request; None if it has none.
    """
    of = f'topology "{flavor.topology}"'
    if request is not None and len(request.slices) > 1:
        labels = [level.label for level in levels]
        sizes = [(labels.index(label), size) for label, size in request.slices]
        fitting = search.fitting_inside(levels, room.pods, ask.level, sizes)
        parts = [
            f"; {fits}/{ask.count // size} slice(s) fit on level {label}"
            for fits, (label, size) in zip(fitting, request.slices, strict=True)
        ]
        sentence = f"{of} doesn't allow to fit{''.join(parts)}"
    else:
        unit = "pod" if ask.slice_size == 1 else "slice"
        if short.fits:
            sentence = f"{of} allows to fit only {short.fits} out of {ask.slices} {unit}(s)"
        else:
            sentence = f"{of} doesn't allow to fit any of {ask.slices} {unit}(s)"
    reasons = ", ".join(sorted(f"{reason}: {count}" for reason, count in room.excluded().items()))
    return f"{sentence}. Total nodes: {room.nodes}; excluded: {reasons}" if reasons else sentence
