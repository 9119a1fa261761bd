"""Convert Workloads from v1beta1 to v1beta2 and back."""

from collections.abc import Callable

from muster.api.kueue.conversion.topology import assignment_of_domains, domains_of_assignment
from muster.api.kueue.v1beta1.workload import POD_PRIORITY_SOURCE, WORKLOAD_PRIORITY_SOURCE
from muster.api.kueue.workload import POD_PRIORITY_GROUP, WORKLOAD_PRIORITY_GROUP
from muster.api.members import Json, remove_members, rename_member

_TIME = "accumulatedPastExecutionTimeSeconds"
_OLD_TIME = "accumulatedPastExexcutionTimeSeconds"
_CLASSES = {
    WORKLOAD_PRIORITY_SOURCE: (WORKLOAD_PRIORITY_GROUP, "WorkloadPriorityClass"),
    POD_PRIORITY_SOURCE: (POD_PRIORITY_GROUP, "PriorityClass"),
}
_SOURCES = {names: source for source, names in _CLASSES.items()}


def spec_up(spec: Json) -> Json:
    """Convert a Workload's spec to v1beta2: the name and the source of the priority class become one reference.

    A name without a source, or a source without a name, is lost.
    """
    result = remove_members(spec, "priorityClassName", "priorityClassSource")
    name, names = spec.get("priorityClassName"), _CLASSES.get(spec.get("priorityClassSource", ""))
    if name and names is not None:
        group, kind = names
        result["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    return result


def spec_down(spec: Json) -> Json:
    """Convert a Workload's spec to v1beta1. Preemption gates and slices of several sizes are lost."""
    result = remove_members(spec, "priorityClassRef", "preemptionGates")
    ref = spec.get("priorityClassRef") or {}
    source = _SOURCES.get((ref.get("group", ""), ref.get("kind", "")))
    if source is not None:
        result |= {"priorityClassName": ref.get("name", ""), "priorityClassSource": source}
    if "podSets" in spec:
        result["podSets"] = [_downgrade_pod_set(pod_set) for pod_set in spec["podSets"]]
    return result


def status_up(status: Json) -> Json:
    """Convert a Workload's status to v1beta2: rename the misspelled field, and store topology domains as slices."""
    return _convert_assignments(rename_member(status, _OLD_TIME, _TIME), assignment_of_domains)


def status_down(status: Json) -> Json:
    """Convert a Workload's status to v1beta1: undo what `status_up` does. Preemption gates are lost."""
    return _convert_assignments(
        rename_member(remove_members(status, "preemptionGates"), _TIME, _OLD_TIME), domains_of_assignment
    )


def _downgrade_pod_set(pod_set: Json) -> Json:
    request = pod_set.get("topologyRequest")
    if not request:
        return pod_set
    return pod_set | {"topologyRequest": remove_members(request, "podsetSliceRequiredTopologyConstraints")}


def _convert_assignments(status: Json, convert: Callable[[Json], Json]) -> Json:
    """Return a Workload's status with each topology assignment converted by `convert`."""
    admission = status.get("admission") or {}
    assignments = admission.get("podSetAssignments")
    if not assignments:
        return status
    converted = [
        each | {"topologyAssignment": convert(each["topologyAssignment"])} if each.get("topologyAssignment") else each
        for each in assignments
    ]
    return status | {"admission": admission | {"podSetAssignments": converted}}
