"""Decide the topology domains of the pods of an admitted workload, if its admission has any. Pure."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from muster.api.batch import COMPLETION_INDEX
from muster.api.core import Pod
from muster.api.kueue import PodSetAssignment, PodSetTopologyRequest, Workload
from muster.api.kueue.names import POD_INDEX_OFFSET
from muster.queueing.topology.conversion import domains_of
from muster.queueing.topology.ungating import Member, domains_of_waiting, rank_of

_NO_REQUEST = PodSetTopologyRequest()


def selectors_of(
    workload: Workload, pods: Sequence[Pod], podset_of: Callable[[Pod], str], waits: Callable[[Pod], bool]
) -> dict[str, dict[str, str]]:
    """Return, by UID, the node selectors that place waiting pods in their topology domains.

    pods: the pods that have not ended.
    podset_of: returns the name of a pod's podset.
    waits: returns whether a pod waits for its topology domain.
    """
    admission = workload.status.admission
    requests = {podset.name: podset.topology_request for podset in workload.spec.pod_sets}
    selectors: dict[str, dict[str, str]] = {}
    for assignment in admission.pod_set_assignments if admission is not None else ():
        if assignment.topology_assignment is None:
            continue
        request = requests.get(assignment.name)
        members = [
            _make_member(pod, assignment, request or _NO_REQUEST, waits(pod))
            for pod in pods
            if podset_of(pod) == assignment.name
        ]
        if request is None and len({member.rank for member in members}) < len(members):
            members = [replace(member, rank=None) for member in members]  # each of several Jobs counts its ranks from 0
        domains = domains_of(assignment.topology_assignment)
        selectors |= domains_of_waiting(assignment.topology_assignment.levels, domains, members)
    return selectors


def _make_member(pod: Pod, assignment: PodSetAssignment, request: PodSetTopologyRequest, waits: bool) -> Member:
    rank = rank_of(
        pod.metadata.labels,
        request.pod_index_label or COMPLETION_INDEX,
        request.sub_group_index_label,
        request.sub_group_count,
        assignment.count or 0,
    )
    offset = pod.metadata.annotations.get(POD_INDEX_OFFSET, "")
    if rank is not None and offset.isascii() and offset.isdigit():
        rank = rank - int(offset) if rank >= int(offset) else None
    return Member(pod.metadata.uid, waits, pod.spec.node_selector, rank)
