"""Convert topology requests and assignments of a Workload to and from the values with which admission computes."""

from collections.abc import Sequence

from msgspec import convert, to_builtins

from muster.api import kueue
from muster.api.core import PodSpec
from muster.api.kueue.conversion.topology import assignment_of_domains, domains_of_assignment
from muster.api.pods import pod_requests
from muster.queueing.model import Places, TopologyRequest


def request_of(request: kueue.PodSetTopologyRequest | None) -> TopologyRequest | None:
    """Return the topology request of a podset; None if it requests nothing."""
    if request is None:
        return None
    slices = slices_of(request)
    if request.required is not None:
        return TopologyRequest("required", request.required, slices)
    if request.preferred is not None:
        return TopologyRequest("preferred", request.preferred, slices)
    return TopologyRequest("unconstrained", slices=slices) if request.unconstrained or slices else None


def slices_of(request: kueue.PodSetTopologyRequest) -> tuple[tuple[str, int], ...]:
    """Return levels and sizes of slices, from either of the two forms of the API; the larger first."""
    constraints = request.podset_slice_required_topology_constraints
    if constraints:
        return tuple((one.topology, one.size) for one in constraints)
    if request.pod_set_slice_required_topology is None:
        return ()
    return ((request.pod_set_slice_required_topology, request.pod_set_slice_size or 1),)


def places_of(admission: kueue.Admission, specs: dict[str, PodSpec]) -> tuple[Places, ...]:
    """Return the topology domains of an admitted workload's pods. Raises `QuantityError`.

    specs: the pod specs, by podset.
    """
    return tuple(
        Places(
            podset=assignment.name,
            flavors=tuple(sorted(set(assignment.flavors.values()))),
            levels=assignment.topology_assignment.levels,
            requests=_list_requests(specs[assignment.name]),
            domains=domains_of(assignment.topology_assignment),
        )
        for assignment in admission.pod_set_assignments
        if assignment.topology_assignment is not None and assignment.name in specs
    )


def domains_of(assignment: kueue.TopologyAssignment) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Return the domains of an assignment, and how many pods each gets, in the order of their ranks."""
    domains = domains_of_assignment(to_builtins(assignment))["domains"]
    return tuple((tuple(domain["values"]), domain["count"]) for domain in domains)


def assignment_of(places: Places) -> kueue.TopologyAssignment:
    """Return the domains in the form of a Workload's status."""
    return _make_assignment(places.levels, places.domains)


def take_first(assignment: kueue.TopologyAssignment, count: int) -> kueue.TopologyAssignment:
    """Return the assignment of the first `count` pods, by rank."""
    remaining, domains = count, []
    for values, pods in domains_of(assignment):
        if remaining > 0:
            domains.append((values, min(pods, remaining)))
        remaining -= pods
    return _make_assignment(assignment.levels, domains)


def _make_assignment(levels: Sequence[str], domains: Sequence[tuple[tuple[str, ...], int]]) -> kueue.TopologyAssignment:
    rows = [{"values": values, "count": count} for values, count in domains]
    return convert(assignment_of_domains({"levels": tuple(levels), "domains": rows}), kueue.TopologyAssignment)


def _list_requests(spec: PodSpec) -> tuple[tuple[str, int], ...]:
    requests = {resource: amount for resource, amount in pod_requests(spec).items() if amount > 0}
    return tuple(sorted(({"pods": 1} | requests).items()))
