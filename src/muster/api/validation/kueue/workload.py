"""The rules of the spec and the annotations of Workloads. `workload_status` has the rules of the status.

Beyond upstream, an elastic Workload may grow as well as shrink while it holds quota (see `workload_status`).
"""

import re
from collections.abc import Iterator
from itertools import chain

import msgspec

from muster.api.kueue import (
    POD_PRIORITY_GROUP,
    WORKLOAD_PRIORITY_GROUP,
    PodSet,
    PodSetTopologyRequest,
    PriorityClassRef,
    Workload,
)
from muster.api.kueue.names import ADMITTED, PRIORITY_BOOST, QUOTA_RESERVED
from muster.api.kueue.readiness import JOB_START_ANNOTATION, ReadyAnnotationError, parse_job_start
from muster.api.ours.elastic import is_elastic
from muster.api.status import FieldError
from muster.api.validation.fields import IMMUTABLE, Errors, forbidden, invalid, required
from muster.api.validation.kueue import workload_status
from muster.api.validation.kueue.gates import validate_gates, validate_removed_gates
from muster.api.validation.kueue.rules import (
    OBJECT,
    ROOT,
    annotation_path,
    validate_changed,
    validate_created,
    validate_not_negative,
    validate_readiness,
    validate_unchanged,
)
from muster.api.validation.kueue.workload_status import holds
from muster.api.validation.metadata import validate_annotations, validate_labels
from muster.api.values.quantity import ResourceList

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_INT32 = 2**31
_KINDS = {POD_PRIORITY_GROUP: "PriorityClass", WORKLOAD_PRIORITY_GROUP: "WorkloadPriorityClass"}


def validate_create(workload: Workload) -> list[FieldError]:
    """Return the errors in a new Workload with its defaults, which has no status yet."""
    webhook = chain(_validate_pod_sets(workload), _validate_annotations(workload))
    return validate_created(workload.metadata, _validate_spec(workload), webhook, namespaced=True)


def validate_update(new: Workload, old: Workload) -> list[FieldError]:
    """Return the errors in a change of a Workload's metadata or spec."""
    webhook = chain(
        _validate_pod_sets(new),
        workload_status.validate_consistency(new, old),
        _validate_annotations(new),
        _validate_same_pod_sets(new, old),
        workload_status.check_status_change(new, old),
        validate_removed_gates(new.metadata, old.metadata),
    )
    return validate_changed(
        new.metadata, old.metadata, chain(_validate_held_fields(new, old), _validate_spec(new)), webhook
    )


def validate_status_update(new: Workload, old: Workload) -> list[FieldError]:
    """Return the errors in a change of a Workload through its status subresource."""
    webhook = chain(
        workload_status.validate_consistency(new, old),
        _validate_annotations(new),
        workload_status.check_status_change(new, old),
        validate_removed_gates(new.metadata, old.metadata),
    )
    return validate_changed(new.metadata, old.metadata, workload_status.validate_crd_rules(new, old), webhook)


def _validate_held_fields(new: Workload, old: Workload) -> Errors:
    """Check the CRD's rules of the fields that may not change while the Workload holds quota."""
    yield from workload_status.validate_assignments(new)
    if not holds(old, QUOTA_RESERVED):
        return
    now, before = new.spec, old.spec
    for sentence in _explain_changed_priority(now.priority_class_ref, before.priority_class_ref):
        yield invalid(ROOT, OBJECT, f"{sentence} while workload quota reserved")
    if now.queue_name != before.queue_name:
        yield invalid(ROOT, OBJECT, "queueName is immutable while workload quota reserved")
    if holds(old, ADMITTED) and now.maximum_execution_time_seconds != before.maximum_execution_time_seconds:
        yield invalid(ROOT, OBJECT, "maximumExecutionTimeSeconds is immutable while workload quota reserved")


def _explain_changed_priority(now: PriorityClassRef | None, before: PriorityClassRef | None) -> Iterator[str]:
    """Yield a sentence for each invalid change of the priority class.

    Only the name of a WorkloadPriorityClass may change.
    """
    if now is None or before is None:
        if now is not before:
            yield "priorityClassRef is immutable"
        return
    if now.group != before.group:
        yield "priorityClassRef.group is immutable"
    if now.kind != before.kind:
        yield "priorityClassRef.kind is immutable"
    if now.group == POD_PRIORITY_GROUP and now.name != before.name:
        yield "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass"


def _validate_spec(workload: Workload) -> Errors:
    spec, ref = workload.spec, workload.spec.priority_class_ref
    if ref is not None and spec.priority is None:
        yield invalid("spec", OBJECT, "priority should not be nil when priorityClassRef is set")
    for i, podset in enumerate(spec.pod_sets):
        if podset.min_count is not None and podset.min_count > podset.count:
            yield invalid(f"spec.podSets[{i}]", OBJECT, "minCount should be positive and less or equal to count")
    if ref is not None and ref.kind != (kind := _KINDS.get(ref.group, ref.kind)):
        sentence = f"only the {kind} kind is allowed for the {ref.group} group"
        yield invalid("spec.priorityClassRef", OBJECT, sentence)


def _validate_pod_sets(workload: Workload) -> Errors:
    path, podsets = "spec.podSets", workload.spec.pod_sets
    for i, podset in enumerate(podsets):
        yield from _validate_pod_set(f"{path}[{i}]", podset)
    variable = sum(podset.min_count is not None for podset in podsets)
    if variable > 1:
        yield invalid(path, variable, "at most one podSet can use minCount")
    if variable and is_elastic(workload.metadata.annotations):
        yield invalid(path, variable, "partial admission and elastic job cannot be used together")


def _validate_pod_set(path: str, podset: PodSet) -> Errors:
    meta, spec = podset.template.metadata, podset.template.spec
    yield from validate_labels(f"{path}.template.metadata.labels", meta.labels)
    yield from validate_annotations(f"{path}.template.metadata.annotations", meta.annotations)
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for i, container in enumerate(containers):
            place = f"{path}.template.spec.{field}[{i}].resources"
            yield from _validate_amounts(f"{place}.requests", container.resources.requests)
            yield from _validate_amounts(f"{place}.limits", container.resources.limits)
    if spec.resources is not None:
        yield from _validate_amounts(f"{path}.template.spec.resources.requests", spec.resources.requests)
        yield from _validate_amounts(f"{path}.template.spec.resources.limits", spec.resources.limits)
    yield from _validate_amounts(f"{path}.template.spec.overhead", spec.overhead)
    if podset.topology_request is not None:
        yield from _validate_slices(f"{path}.topologyRequest.podSetSliceSize", podset.topology_request)


def _validate_amounts(path: str, resources: ResourceList) -> Errors:
    for resource, quantity in resources.items():
        if resource == "pods":
            yield invalid(f"{path}[pods]", resource, "the key is reserved for internal kueue use")
        yield from validate_not_negative(f"{path}[{resource}]", quantity)


def _validate_slices(path: str, request: PodSetTopologyRequest) -> Errors:
    level, size = request.pod_set_slice_required_topology, request.pod_set_slice_size
    if level is not None and size is None:
        yield required(path, "must be set when podSetSliceRequiredTopology is specified")
    if level is None and size is not None:
        yield forbidden(path, "may not be set when podSetSliceRequiredTopology is not specified")


def _validate_annotations(workload: Workload) -> Errors:
    given = workload.metadata.annotations
    yield from validate_gates(workload.metadata)
    boost = given.get(PRIORITY_BOOST)
    if boost == "":
        sentence = 'must be a valid signed integer; use "0" explicitly, empty string is not allowed'
        yield invalid(annotation_path(PRIORITY_BOOST), boost, sentence)
    elif boost is not None and not _is_int32(boost):
        yield invalid(annotation_path(PRIORITY_BOOST), boost, "must be a valid signed integer")
    yield from validate_readiness(workload.metadata)
    if (start := given.get(JOB_START_ANNOTATION)) is not None:
        try:
            parse_job_start(start)
        except ReadyAnnotationError as error:
            yield invalid(annotation_path(JOB_START_ANNOTATION), start, str(error))


def _is_int32(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -_INT32 <= int(text) < _INT32


def _validate_same_pod_sets(new: Workload, old: Workload) -> Errors:
    """Check that podsets only lose pods while quota is held. Podsets of an elastic Workload may also grow (Muster)."""
    if not holds(old, QUOTA_RESERVED):
        return
    now, before = new.spec.pod_sets, old.spec.pod_sets
    if len(now) != len(before):
        yield invalid("spec.podSets", now, IMMUTABLE)
        return
    any_size = is_elastic(new.metadata.annotations)
    for i, (podset, was) in enumerate(zip(now, before, strict=True)):
        if any_size or podset.count < was.count:
            podset = msgspec.structs.replace(podset, count=was.count)
        yield from validate_unchanged(f"spec.podSets.{i}", podset, was)  # upstream's path
