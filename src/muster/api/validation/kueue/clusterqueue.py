"""The rules of ClusterQueues."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from muster.api.kueue import (
    NEVER,
    STRICT_FIFO,
    TRY_NEXT_FLAVOR,
    TRY_PREFERRED_FLAVORS,
    ClusterQueue,
    ClusterQueueSpec,
    ConcurrentAdmissionMigration,
)
from muster.api.meta import ObjectMeta
from muster.api.ours.teams import USER_LIMITS, find_limit_problems
from muster.api.status import FieldError
from muster.api.validation.fields import Errors, forbidden, invalid, unsupported, validate_immutable
from muster.api.validation.kueue.quotas import (
    GROUPS,
    Owner,
    validate_group_sizes,
    validate_resource_groups,
    validate_weight,
)
from muster.api.validation.kueue.rules import (
    OBJECT,
    annotation_path,
    validate_changed,
    validate_created,
    validate_readiness,
)
from muster.api.validation.metadata import validate_label_selector

_MAX_FLAVORS = 256  # the most flavors, and the most resources, of all groups
_MAX_QUOTAS = 512  # the most quotas of one group
_MAX_CONCURRENT_FLAVORS = 16


def validate_create(queue: ClusterQueue) -> list[FieldError]:
    """Return the errors in a new ClusterQueue with its defaults."""
    webhook = chain(
        _validate_webhook_rules(queue.spec), _validate_on_flavors(queue.spec, {}), _validate_annotations(queue.metadata)
    )
    return validate_created(queue.metadata, _validate_crd_rules(queue.spec), webhook)


def validate_update(new: ClusterQueue, old: ClusterQueue) -> list[FieldError]:
    """Return the errors in a change of a ClusterQueue."""
    return validate_changed(
        new.metadata, old.metadata, _validate_crd_rules(new.spec), _validate_webhook_update(new, old)
    )


def _validate_crd_rules(spec: ClusterQueueSpec) -> Errors:
    borrowing = (
        quota.borrowing_limit
        for group in spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    )
    if not spec.cohort_name and any(limit is not None for limit in borrowing):
        yield invalid("spec", OBJECT, "borrowingLimit must be nil when cohort is empty")
    yield from validate_group_sizes(spec.resource_groups)
    fungibility, preemption = spec.flavor_fungibility, spec.preemption
    tried = (fungibility.when_can_borrow, fungibility.when_can_preempt)
    if fungibility.preference is not None and tried != (TRY_NEXT_FLAVOR, TRY_NEXT_FLAVOR):
        sentence = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"
        yield invalid("spec.flavorFungibility", OBJECT, sentence)
    if preemption.reclaim_within_cohort == NEVER and preemption.borrow_within_cohort.policy != NEVER:
        yield invalid("spec.preemption", OBJECT, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")


def _validate_webhook_rules(spec: ClusterQueueSpec) -> Errors:
    owner = Owner("cohort", has_above=bool(spec.cohort_name), lends_its_own=True)
    yield from validate_resource_groups(spec.resource_groups, owner)
    yield from validate_label_selector("spec.namespaceSelector", spec.namespace_selector)
    yield from validate_weight(spec.fair_sharing)
    yield from _validate_sizes(spec)
    yield from _validate_concurrent_admission(spec)


def _validate_webhook_update(new: ClusterQueue, old: ClusterQueue) -> Errors:
    yield from _validate_webhook_rules(new.spec)
    yield from _validate_on_flavors(new.spec, _map_known_flavors(new.spec, old.spec))
    policies = new.spec.concurrent_admission_policy, old.spec.concurrent_admission_policy
    yield from validate_immutable("spec.concurrentAdmissionPolicy", *policies)
    yield from _validate_annotations(new.metadata)


def _validate_annotations(metadata: ObjectMeta) -> Errors:
    """Check Muster's annotations of a ClusterQueue, such as the limits for each user."""
    yield from validate_readiness(metadata)
    text = metadata.annotations.get(USER_LIMITS, "")
    for problem in find_limit_problems(text):
        yield invalid(annotation_path(USER_LIMITS), text, problem)


def _list_flavors(spec: ClusterQueueSpec) -> tuple[str, ...]:
    return tuple(flavor.name for group in spec.resource_groups for flavor in group.flavors)


def _map_known_flavors(new: ClusterQueueSpec, old: ClusterQueueSpec) -> Mapping[str, Collection[str]]:
    """Return the old object's `onFlavors` by check, which an update may keep; {} if the flavors of the queue changed.

    Older releases of Kueue allowed flavors there that the ClusterQueue does not have.
    """
    if old.admission_checks_strategy is None or set(_list_flavors(new)) != set(_list_flavors(old)):
        return {}
    return {check.name: set(check.on_flavors) for check in old.admission_checks_strategy.admission_checks}


def _validate_on_flavors(spec: ClusterQueueSpec, known: Mapping[str, Collection[str]]) -> Errors:
    if spec.admission_checks_strategy is None:
        return
    flavors = _list_flavors(spec)
    for i, check in enumerate(spec.admission_checks_strategy.admission_checks):
        if known.get(check.name) == set(check.on_flavors):
            continue
        for j, flavor in enumerate(check.on_flavors):
            if flavor not in flavors:
                path = f"spec.admissionChecksStrategy.admissionChecks[{i}].onFlavors[{j}]"
                yield unsupported(path, flavor, flavors)


def _validate_sizes(spec: ClusterQueueSpec) -> Errors:
    every = "across all resourceGroups"
    groups = spec.resource_groups
    yield from _validate_length(
        GROUPS, _MAX_FLAVORS, (group.flavors for group in groups), f"total number of flavors {every}"
    )
    covered = (group.covered_resources for group in groups)
    yield from _validate_length(GROUPS, _MAX_FLAVORS, covered, f"total number of covered resources {every}")
    for i, group in enumerate(groups):
        quotas = (flavor.resources for flavor in group.flavors)
        what = "number of flavor-resource combinations in a resourceGroup"
        yield from _validate_length(f"{GROUPS}[{i}]", _MAX_QUOTAS, quotas, what)


def _validate_length(path: str, most: int, lists: Iterable[Collection[object]], noun: str) -> Errors:
    total = sum(map(len, lists))
    if total > most:
        yield invalid(path, total, f"{noun} must be \N{LESS-THAN OR EQUAL TO} {most}, got {total}")


def _validate_concurrent_admission(spec: ClusterQueueSpec) -> Errors:
    policy = spec.concurrent_admission_policy
    if policy is None:
        return
    when = "when ConcurrentAdmissionPolicy is defined"
    groups = spec.resource_groups
    if len(groups) != 1:
        yield invalid(GROUPS, len(groups), f"must have exactly one ResourceGroup {when}")
    elif len(groups[0].flavors) > _MAX_CONCURRENT_FLAVORS:
        most = f"cannot have more than {_MAX_CONCURRENT_FLAVORS} resource flavors in the ResourceGroup"
        yield invalid(f"{GROUPS}[0].flavors", len(groups[0].flavors), f"{most} {when}")
    yield from _validate_migration("spec.concurrentAdmissionPolicy.migration", policy.migration, _list_flavors(spec))
    if spec.queueing_strategy == STRICT_FIFO:
        sentence = f"{STRICT_FIFO} queueing strategy cannot be used {when}"
        yield invalid("spec.queueingStrategy", spec.queueing_strategy, sentence)


def _validate_migration(path: str, migration: ConcurrentAdmissionMigration, flavors: tuple[str, ...]) -> Errors:
    constraints, mode = migration.constraints, migration.mode
    if constraints is None:
        return
    if mode != TRY_PREFERRED_FLAVORS:
        sentence = f'may only be set when migration.mode is "{TRY_PREFERRED_FLAVORS}" (got "{mode}")'
        yield forbidden(f"{path}.constraints", sentence)
        return
    last = constraints.last_acceptable_flavor_name
    if last and last not in flavors:
        sentence = f"must be one of the flavors defined in the ClusterQueue: [{' '.join(flavors)}]"
        yield invalid(f"{path}.constraints.lastAcceptableFlavorName", last, sentence)
