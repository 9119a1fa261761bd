"""Find another node for the pods of a lost node, as near to the other pods as their topology request demands.

- Required: in the domain of the other pods, or nowhere.
- Preferred: first in that domain, then in each wider domain around it, then anywhere.
- Slices that the lost node leaves incomplete: in the domain of that slice.

Only topologies whose lowest domains are single nodes count: losing a node does not lose its rack.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from muster.api.nodes import HOSTNAME_LABEL
from muster.gang import arrays as np
from muster.gang.arrays import Ints, Mask
from muster.gang.nodes.domains import DomainLevel
from muster.queueing.model import FlavorSpec, Places, PodSet, TopologyRequest, WorkloadInfo
from muster.queueing.topology import search
from muster.queueing.topology.assigning import ANYWHERE, ask_of, shape_of
from muster.queueing.topology.ledger import CapacityLedger

# The levels of assignments whose domains are single nodes.
SINGLE_NODES = (HOSTNAME_LABEL,)


def lost_of(places: Places, lost: str) -> int:
    """Return how many of the assigned pods are on the lost node."""
    return sum(count for values, count in places.domains if values[-1] == lost)


def hosts_of(places: Iterable[Places]) -> set[str]:
    """Return the node names in these assignments; empty if their lowest topology level is not the node."""
    return {values[-1] for one in places if one.levels == SINGLE_NODES for values, _ in one.domains}


def describe_eviction(lost_hosts: Sequence[str], why: str) -> str:
    """Return the message for a workload that is evicted because of lost nodes.

    why: why no other node can replace the lost node, if there is only one.
    """
    if len(lost_hosts) == 1:
        return f"Workload was evicted as there was no replacement for a failed node: {lost_hosts[0]} ({why})"
    return f"Workload eviction triggered due to multiple TAS assigned node failures, including: {', '.join(lost_hosts)}"


def replace_in_all(
    holder: WorkloadInfo, flavors: Mapping[str, FlavorSpec], ledger: CapacityLedger, lost: str
) -> tuple[Places, ...] | str:
    """Return all assigned domains of a workload with the lost node replaced by another, or why that is not possible.

    Each podset is placed after the earlier ones, whose pods count as placed. The ledger is unchanged.
    """
    specs = {podset.name: podset for podset in holder.podsets}
    replaced_places: list[Places] = []
    try:
        for places in holder.places:
            outcome: Places | str = places
            if lost in hosts_of([places]):
                outcome = replace_node(places, specs[places.podset], flavors, ledger, lost)
            if isinstance(outcome, str):
                return outcome
            ledger.give([places])
            ledger.take([outcome])
            replaced_places.append(outcome)
    finally:
        ledger.give(replaced_places)
        ledger.take(holder.places[: len(replaced_places)])
    return tuple(replaced_places)


def replace_node(
    places: Places, podset: PodSet, flavors: Mapping[str, FlavorSpec], ledger: CapacityLedger, lost: str
) -> Places | str:
    """Return the places with the lost node's pods on other nodes, or why there is no room for them.

    The ledger is unchanged.
    """
    flavor = next(flavors[name] for name in places.flavors if name in flavors and flavors[name].levels)
    field = ledger.field(flavor)
    leaves = field.levels[-1]
    number = {name[-1]: i for i, name in enumerate(leaves.names)}
    remaining = replace(places, domains=tuple(one for one in places.domains if one[0][-1] != lost))
    if stale := [values[-1] for values, _ in remaining.domains if values[-1] not in number]:
        return (
            "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the stale"
            f" domain {stale[0]}"
        )
    with ledger.assume(more=[remaining], less=[places]):
        room = ledger.room(flavor, shape_of(podset, flavor)).pods
    if lost in number:
        room[number[lost]] = 0
    pods = _count_pods(remaining, number, len(room))
    count = lost_of(places, lost)
    request, last = podset.topology or ANYWHERE, len(field.levels) - 1
    # The narrowest of the slices that the lost node leaves incomplete decide.
    broken = next(((level, size) for level, size in request.slices[::-1] if count % size), None)
    ask = ask_of(request, flavor.levels or (), count, leader=False) if broken is None else None
    if not isinstance(ask, search.SearchParameters):
        ask = search.SearchParameters(count, last, slice_level=last)
    near = (
        _find_nearby(request, field.levels, pods)
        if broken is None
        else _find_incomplete(*broken, field.levels, pods, count)
    )
    for domain in near:
        outcome = search.find(field.levels, np.where(domain, room, 0), ask)
        if isinstance(outcome, search.DomainChoice):
            for leaf, more in outcome.domains:
                pods[leaf] += more
            domains = tuple((leaves.names[i][-1:], int(pods[i])) for i in np.flatnonzero(pods))
            return replace(places, domains=domains)
    return f"cannot find replacement assignment for unhealthy node: {lost}"


def _count_pods(places: Places, number: Mapping[str, int], size: int) -> Ints:
    counts = np.zeros(size, np.int64)
    for values, pods in places.domains:
        counts[number[values[-1]]] += pods
    return counts


def _find_incomplete(label: str, size: int, levels: Sequence[DomainLevel], pods: Ints, count: int) -> Iterator[Mask]:
    """Yield the domains whose incomplete slices `count` more pods would complete."""
    above = _map_domains(levels, [level.label for level in levels].index(label))
    for domain in np.unique(above):
        if (int(pods[above == domain].sum()) + count) % size == 0:
            yield above == domain


def _find_nearby(request: TopologyRequest, levels: Sequence[DomainLevel], pods: Ints) -> Iterator[Mask]:
    """Yield the domains to search, as masks of the lowest domains, the nearest to the other pods first."""
    if pods.any() and request.level:
        level = [each.label for each in levels].index(request.level)
        for narrow in [level] if request.how == "required" else range(level, -1, -1):
            above = _map_domains(levels, narrow)
            yield np.isin(above, above[pods > 0])
    if not pods.any() or request.how != "required":
        yield np.ones_like(pods, np.bool_)


def _map_domains(levels: Sequence[DomainLevel], level: int) -> Ints:
    """Return, for each lowest domain, the domain of the level that contains it."""
    numbers = np.arange(len(levels[-1].names))
    for narrower in range(len(levels) - 1, level, -1):
        numbers = levels[narrower].parents[numbers]
    return numbers
