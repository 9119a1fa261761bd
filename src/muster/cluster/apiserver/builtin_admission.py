"""Quotas, limits, webhook configurations and admission policies, as they are served."""

from functools import partial
from typing import Any

from muster.api.admissionregistration import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from muster.api.core.quota import LIMIT_RANGE, RESOURCE_QUOTA
from muster.api.defaults.admission import (
    default_limit_range,
    default_mutating_webhooks,
    default_policy,
    default_policy_binding,
    default_resource_quota,
    default_validating_webhooks,
)
from muster.api.kinds import Kind
from muster.api.validation import admissionpolicy, limitrange, resourcequota, webhooks
from muster.cluster.apiserver import policies, views
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry import Resource, Rules, Subresource, View
from muster.cluster.apiserver.webhooks.conditions import problem_of


def _without_status(document: Document) -> None:
    document.pop("status", None)


def _count_change(document: Document, stored: Document) -> None:
    """Webhooks are what such an object wants, as others have a spec."""
    if document.get("webhooks") != stored.get("webhooks"):
        document["metadata"]["generation"] = stored["metadata"].get("generation", 0) + 1


RESOURCE_QUOTAS = Resource(
    RESOURCE_QUOTA,
    RESOURCE_QUOTA,
    View(
        RESOURCE_QUOTA,
        take=views.take_main,
        validate_create=resourcequota.validate_create,
        validate_update=resourcequota.validate_update,
    ),
    Rules(default=default_resource_quota, prepare_create=_without_status, returns_deleted=True),
    short_names=("quota",),
    subresources=(
        Subresource(
            "status",
            RESOURCE_QUOTA,
            ("get", "patch", "update"),
            View(RESOURCE_QUOTA, take=views.take_status, validate_update=resourcequota.validate_status_update),
        ),
    ),
)

LIMIT_RANGES = Resource(
    LIMIT_RANGE,
    LIMIT_RANGE,
    View(LIMIT_RANGE, validate_create=limitrange.validate_create, validate_update=limitrange.validate_update),
    Rules(default=default_limit_range, create_on_update=True),
    short_names=("limits",),
)


def _webhooks(kind: Kind[Any], rules: Rules) -> Resource:
    view = View(
        kind,
        validate_create=partial(webhooks.validate_create, compile=problem_of),
        validate_update=partial(webhooks.validate_update, compile=problem_of),
    )
    return Resource(kind, kind, view, rules, categories=("api-extensions",))


MUTATING_WEBHOOKS = _webhooks(
    MUTATING_WEBHOOK_CONFIGURATION,
    Rules(
        default=default_mutating_webhooks, prepare_update=_count_change, has_generation=True, unconditional_update=False
    ),
)
VALIDATING_WEBHOOKS = _webhooks(
    VALIDATING_WEBHOOK_CONFIGURATION,
    Rules(
        default=default_validating_webhooks,
        prepare_update=_count_change,
        has_generation=True,
        unconditional_update=False,
    ),
)

POLICIES = Resource(
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY,
    View(
        VALIDATING_ADMISSION_POLICY,
        take=views.take_main,
        validate_create=partial(admissionpolicy.validate_create, compile=policies.problem_of),
        validate_update=partial(admissionpolicy.validate_update, compile=policies.problem_of),
    ),
    Rules(default=default_policy, prepare_create=_without_status, has_generation=True, unconditional_update=False),
    categories=("api-extensions",),
    subresources=(
        Subresource(
            "status",
            VALIDATING_ADMISSION_POLICY,
            ("get", "patch", "update"),
            View(VALIDATING_ADMISSION_POLICY, take=views.take_status),
        ),
    ),
)
POLICY_BINDINGS = Resource(
    VALIDATING_ADMISSION_POLICY_BINDING,
    VALIDATING_ADMISSION_POLICY_BINDING,
    View(
        VALIDATING_ADMISSION_POLICY_BINDING,
        validate_create=admissionpolicy.validate_binding_create,
        validate_update=admissionpolicy.validate_binding_update,
    ),
    Rules(default=default_policy_binding, has_generation=True, unconditional_update=False),
    categories=("api-extensions",),
)

ADMISSION: tuple[Resource, ...] = (
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    POLICIES,
    POLICY_BINDINGS,
)
