"""The rules of Leases (k8s.io/kubernetes/pkg/apis/coordination/validation)."""

from muster.api.groups.coordination import Lease, LeaseSpec
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import NOT_NEGATIVE, Errors, forbidden, invalid, make_errors, unsupported
from muster.api.validation.metadata import changed_metadata, new_metadata

_STRATEGIES = ("OldestEmulationVersion",)


def validate_create(lease: Lease) -> list[FieldError]:
    """Return the errors in a new Lease."""
    return [*new_metadata(lease.metadata, names.dns_subdomain), *_validate_spec(lease.spec)]


def validate_update(new: Lease, old: Lease) -> list[FieldError]:
    """Return the errors in a change of a Lease."""
    return [*changed_metadata(new.metadata, old.metadata), *_validate_spec(new.spec)]


def _validate_spec(spec: LeaseSpec) -> Errors:
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", spec.lease_duration_seconds, "must be greater than 0")
    if spec.lease_transitions is not None and spec.lease_transitions < 0:
        yield invalid("spec.leaseTransitions", spec.lease_transitions, NOT_NEGATIVE)
    strategy, path = spec.strategy, "spec.strategy.strategy"  # upstream's path
    if strategy is not None and "/" in strategy:
        yield from make_errors(path, strategy, names.label_key(strategy))
    elif strategy is not None and strategy not in _STRATEGIES:
        yield unsupported(path, strategy, _STRATEGIES)
    if spec.preferred_holder and not strategy:
        yield forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")
