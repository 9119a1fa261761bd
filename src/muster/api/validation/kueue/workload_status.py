"""The rules of the status of Workloads: their admission, admission checks and clusters.

Beyond upstream, the counts and the usage in the admission of an elastic Workload may follow its podsets, up and down.
"""

from collections.abc import Collection, Mapping
from itertools import chain

import msgspec

from muster.api.conditions import is_true
from muster.api.kueue import (
    CHECK_READY,
    Admission,
    PodSetAssignment,
    PodSetUpdate,
    TopologyAssignment,
    TopologyAssignmentSlice,
    Workload,
    WorkloadStatus,
)
from muster.api.kueue.names import QUOTA_RESERVED, WORKLOAD_SLICE_REPLACEMENT_FOR
from muster.api.ours.elastic import is_elastic
from muster.api.validation.fields import (
    NOT_NEGATIVE,
    Errors,
    invalid,
    not_found,
    required,
    unsupported,
    validate_immutable,
)
from muster.api.validation.kueue.rules import (
    OBJECT,
    ROOT,
    show_quantity,
    validate_toleration_keys,
    validate_tolerations,
    validate_unchanged,
)
from muster.api.validation.metadata import validate_annotations, validate_labels
from muster.api.values.quantity import Quantity, QuantityError, parse_amount

_ADMISSION = "status.admission"
_CHECKS = "status.admissionChecks"
_RECLAIMABLE = "status.reclaimablePods"


def holds(workload: Workload, condition: str) -> bool:
    """Return whether this condition of the Workload is True, such as QuotaReserved."""
    return is_true(workload.status.conditions, condition)


def validate_crd_rules(new: Workload, old: Workload) -> Errors:
    """Check the CRD's rules of the status."""
    yield from validate_assignments(new)
    yield from _validate_cluster(new.status, old.status)
    admission = new.status.admission
    for i, assignment in enumerate(admission.pod_set_assignments if admission is not None else ()):
        if assignment.topology_assignment is not None:
            path = f"{_ADMISSION}.podSetAssignments[{i}].topologyAssignment"
            yield from _validate_topology(path, assignment.topology_assignment)
    for i, check in enumerate(new.status.admission_checks):
        for j, update in enumerate(check.pod_set_updates):
            yield from validate_tolerations(f"{_CHECKS}[{i}].podSetUpdates[{j}].tolerations", update.tolerations)


def validate_assignments(workload: Workload) -> Errors:
    """Check that a Workload with quota has as many podSetAssignments as podsets (a rule of the CRD)."""
    admission = workload.status.admission
    if admission is None or not holds(workload, QUOTA_RESERVED):
        return
    if len(workload.spec.pod_sets) != len(admission.pod_set_assignments):
        yield invalid(ROOT, OBJECT, "podSetAssignments must have the same number of podSets as the spec")


def validate_consistency(new: Workload, old: Workload) -> Errors:
    """Check that the status agrees with the spec: admission, reclaimable pods, updates (rules of Kueue's webhook)."""
    if holds(new, QUOTA_RESERVED):
        yield from _validate_admission(new, old)
    yield from _validate_reclaimable_pods(new, old)
    known = sorted(podset.name for podset in new.spec.pod_sets)
    for i, check in enumerate(new.status.admission_checks):
        for j, update in enumerate(check.pod_set_updates):
            yield from _validate_update(f"{_CHECKS}[{i}].podSetUpdates[{j}]", update, known)


def check_status_change(new: Workload, old: Workload) -> Errors:
    """Check the changes of the status: released quota, admission, ready checks (rules of Kueue's webhook)."""
    if holds(new, QUOTA_RESERVED) and holds(old, QUOTA_RESERVED):
        yield from _validate_released_quota(new, old)
    yield from _validate_same_admission(new, old)
    checks = {check.name: check for check in new.status.admission_checks}
    for i, was in enumerate(old.status.admission_checks):
        now = checks.get(was.name)
        if now is not None and now.state == was.state == CHECK_READY:
            yield from validate_immutable(f"{_CHECKS}[{i}].podSetUpdates", now.pod_set_updates, was.pod_set_updates)
    yield from _validate_nominated_clusters(new, old)


def _validate_nominated_clusters(new: Workload, old: Workload) -> Errors:
    chosen = new.status.cluster_name
    if chosen is None or old.status.cluster_name is not None:
        return
    if WORKLOAD_SLICE_REPLACEMENT_FOR in new.metadata.annotations:
        return  # the Workload runs in the cluster of the slice that it replaces
    if chosen not in old.status.nominated_cluster_names:
        sentence = "when setting clusterName it must be one of the nominatedClusterNames"
        yield invalid("status.clusterName", chosen, sentence)


def _validate_cluster(new: WorkloadStatus, old: WorkloadStatus) -> Errors:
    if new.cluster_name is None:
        return
    if old.cluster_name not in (None, new.cluster_name):
        yield invalid("status", OBJECT, "clusterName is immutable once set")
    if new.nominated_cluster_names:
        yield invalid("status", OBJECT, "clusterName and nominatedClusterNames are mutually exclusive")


def _validate_topology(path: str, assignment: TopologyAssignment) -> Errors:
    if any(len(slice_.values_per_level) != len(assignment.levels) for slice_ in assignment.slices):
        sentence = "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment"
        yield invalid(path, OBJECT, sentence)
    for i, slice_ in enumerate(assignment.slices):
        yield from _validate_slice(f"{path}.slices[{i}]", slice_)


def _validate_slice(path: str, slice_: TopologyAssignmentSlice) -> Errors:
    counts, domains = slice_.pod_counts, slice_.domain_count
    if counts.individual and len(counts.individual) != domains:
        yield invalid(path, OBJECT, "podCounts.individual must have length equal to domainCount")
    individual = (values.individual for values in slice_.values_per_level)
    if any(values is not None and len(values.roots) != domains for values in individual):
        sentence = (
            "valuesPerLevel.individual, if set, must have roots of length equal to domainCount "
            "of this TopologyAssignmentSlice"
        )
        yield invalid(path, OBJECT, sentence)
    one_of_two = "exactly one of the fields in [universal individual] must be set"
    if (counts.universal is None) == (not counts.individual):
        yield invalid(f"{path}.podCounts", OBJECT, one_of_two)
    for i, values in enumerate(slice_.values_per_level):
        if (values.universal is None) == (values.individual is None):
            yield invalid(f"{path}.valuesPerLevel[{i}]", OBJECT, one_of_two)


def _validate_admission(new: Workload, old: Workload) -> Errors:
    admission = new.status.admission
    if admission is None:
        # A Workload that already lacks an admission may still change, or else it could never be released.
        if not holds(old, QUOTA_RESERVED) or old.status.admission is not None:
            yield required(_ADMISSION, "must be set while the QuotaReserved condition is true")
        return
    known = {podset.name for podset in new.spec.pod_sets}
    for i, assignment in enumerate(admission.pod_set_assignments):
        path = f"{_ADMISSION}.podSetAssignments[{i}]"
        if assignment.name not in known:
            yield not_found(f"{path}.name", assignment.name)
        for resource, quantity in assignment.resource_usage.items():
            yield from _validate_shared_out(f"{path}.resourceUsage[{resource}]", resource, quantity, assignment.count)


def _validate_shared_out(path: str, resource: str, quantity: Quantity, count: int | None) -> Errors:
    """Check that a podset's usage is a multiple of its count, because each pod that ends releases an equal part."""
    try:
        used = parse_amount(resource, quantity)
    except QuantityError as error:
        yield invalid(path, quantity, str(error))
        return
    if used < 0:
        yield invalid(path, show_quantity(quantity), NOT_NEGATIVE)
    elif count and used % count:
        yield invalid(path, show_quantity(quantity), f"is not a multiple of {count}")


def _validate_reclaimable_pods(new: Workload, old: Workload) -> Errors:
    sizes = {podset.name: podset.count for podset in new.spec.pod_sets}
    # A podset that shrank has such a count until a controller updates it (kueue#12670).
    stale = _map_reclaimable_counts(old) if is_elastic(new.metadata.annotations) else {}
    for name, count in _map_reclaimable_counts(new).items():
        path = f"{_RECLAIMABLE}[{name}]"
        if name not in sizes:
            yield unsupported(f"{path}.name", name, sizes)
        elif count > sizes[name] and stale.get(name) != count:
            yield invalid(f"{path}.count", count, f"should be less or equal to {sizes[name]}")


def _validate_released_quota(new: Workload, old: Workload) -> Errors:
    """Check that reclaimablePods never decrease, except for a podset that shrank (kueue#12958)."""
    counts, shrunk = _map_reclaimable_counts(new), _find_shrunk_podsets(new, old)
    before = {name: count for name, count in _map_reclaimable_counts(old).items() if name not in shrunk}
    for name, count in before.items():
        if counts.get(name, count) < count:
            yield invalid(f"{_RECLAIMABLE}[{name}].count", counts[name], f"cannot be less than {count}")
    for name in before:
        if name not in counts:
            yield required(f"{_RECLAIMABLE}[{name}]", "cannot be removed")


def _map_reclaimable_counts(workload: Workload) -> Mapping[str, int]:
    return {each.name: each.count for each in workload.status.reclaimable_pods}


def _find_shrunk_podsets(new: Workload, old: Workload) -> Collection[str]:
    """Return the names of an elastic Workload's podsets whose count is below the count in the old or new admission."""
    if not is_elastic(new.metadata.annotations):
        return ()
    sizes = {podset.name: podset.count for podset in new.spec.pod_sets}
    admissions = (each.status.admission for each in (new, old))
    got = (assignment for each in admissions if each is not None for assignment in each.pod_set_assignments)
    had = chain(((each.name, each.count or 0) for each in got), _map_reclaimable_counts(old).items())
    return {name for name, count in had if count > sizes.get(name, 0)}


def _validate_update(path: str, update: PodSetUpdate, known: Collection[str]) -> Errors:
    if update.name not in known:
        yield unsupported(f"{path}.name", update.name, known)
    yield from validate_toleration_keys(f"{path}.tolerations", update.tolerations)
    yield from validate_annotations(f"{path}.annotations", update.annotations)
    yield from validate_labels(f"{path}.nodeSelector", update.node_selector)
    yield from validate_labels(f"{path}.labels", update.labels)


def _validate_same_admission(new: Workload, old: Workload) -> Errors:
    """Check that an admission does not change until it is removed. Delayed placements and elastic sizes may change."""
    now, before = new.status.admission, old.status.admission
    if now is None or before is None or now == before:
        return
    if len(now.pod_set_assignments) == len(before.pod_set_assignments):
        before = _replace_changeable_fields(before, now, sizes=is_elastic(new.metadata.annotations))
    yield from validate_unchanged(_ADMISSION, now, before)


def _replace_changeable_fields(old: Admission, new: Admission, *, sizes: bool) -> Admission:
    """Return the old admission, with the fields that may change taken from the new one."""
    pairs = zip(old.pod_set_assignments, new.pod_set_assignments, strict=True)
    return msgspec.structs.replace(
        old, pod_set_assignments=tuple(_reset_changeable_fields(*pair, sizes=sizes) for pair in pairs)
    )


def _reset_changeable_fields(old: PodSetAssignment, new: PodSetAssignment, *, sizes: bool) -> PodSetAssignment:
    places = msgspec.structs.replace(
        old, topology_assignment=new.topology_assignment, delayed_topology_request=new.delayed_topology_request
    )
    if not sizes:
        return places
    return msgspec.structs.replace(places, count=new.count, resource_usage=new.resource_usage)
