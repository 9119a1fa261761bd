"""Topology requests and places as a Workload has them, from and to the values that decisions are made with."""

from collections.abc import Sequence

from msgspec import convert, to_builtins

from muster.api import kueue
from muster.api.core import PodSpec
from muster.api.kueue.conversion.topology import assignment_of_domains, domains_of_assignment
from muster.api.pods import pod_requests
from muster.queueing.model import Places, TopologyRequest


def request_of(written: kueue.PodSetTopologyRequest | None) -> TopologyRequest | None:
    """What a podset asks for; None if that is nothing."""
    if written is None:
        return None
    slices = slices_of(written)
    if written.required is not None:
        return TopologyRequest("required", written.required, slices)
    if written.preferred is not None:
        return TopologyRequest("preferred", written.preferred, slices)
    return TopologyRequest("unconstrained", slices=slices) if written.unconstrained or slices else None


def slices_of(written: kueue.PodSetTopologyRequest) -> tuple[tuple[str, int], ...]:
    """Levels and sizes of slices, in whichever of the two forms they are said; the larger first."""
    constraints = written.podset_slice_required_topology_constraints
    if constraints:
        return tuple((one.topology, one.size) for one in constraints)
    if written.pod_set_slice_required_topology is None:
        return ()
    return ((written.pod_set_slice_required_topology, written.pod_set_slice_size or 1),)


def places_of(admission: kueue.Admission, specs: dict[str, PodSpec]) -> tuple[Places, ...]:
    """Where the pods of an admitted workload are. specs: of the pods of each podset. Raises `QuantityError`."""
    return tuple(
        Places(
            podset=assignment.name,
            flavors=tuple(sorted(set(assignment.flavors.values()))),
            levels=assignment.topology_assignment.levels,
            requests=_requests(specs[assignment.name]),
            domains=domains_of(assignment.topology_assignment),
        )
        for assignment in admission.pod_set_assignments
        if assignment.topology_assignment is not None and assignment.name in specs
    )


def domains_of(written: kueue.TopologyAssignment) -> tuple[tuple[tuple[str, ...], int], ...]:
    """The domains of an assignment, and how many pods go to each, in the order of their ranks."""
    domains = domains_of_assignment(to_builtins(written))["domains"]
    return tuple((tuple(domain["values"]), domain["count"]) for domain in domains)


def assignment_of(places: Places) -> kueue.TopologyAssignment:
    """As a Workload's status has it."""
    return _written(places.levels, places.domains)


def first(written: kueue.TopologyAssignment, count: int) -> kueue.TopologyAssignment:
    """The assignment of so many pods, by rank."""
    left, domains = count, []
    for values, pods in domains_of(written):
        if left > 0:
            domains.append((values, min(pods, left)))
        left -= pods
    return _written(written.levels, domains)


def _written(levels: Sequence[str], domains: Sequence[tuple[tuple[str, ...], int]]) -> kueue.TopologyAssignment:
    rows = [{"values": values, "count": count} for values, count in domains]
    return convert(assignment_of_domains({"levels": tuple(levels), "domains": rows}), kueue.TopologyAssignment)


def _requests(spec: PodSpec) -> tuple[tuple[str, int], ...]:
    asked = {resource: amount for resource, amount in pod_requests(spec).items() if amount > 0}
    return tuple(sorted(({"pods": 1} | asked).items()))
