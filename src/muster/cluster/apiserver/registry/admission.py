"""The served resources of quotas, limit ranges, webhook configurations and admission policies."""

from functools import partial

from msgspec.structs import replace

from muster.api.core.quota import LIMIT_RANGE, RESOURCE_QUOTA
from muster.api.server.admissionregistration import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from muster.api.validation.core import limitrange, resourcequota
from muster.api.validation.server import admissionpolicy, webhooks
from muster.cluster.apiserver.admission import policies
from muster.cluster.apiserver.admission.webhooks import dispatch
from muster.cluster.apiserver.cel import find_problem
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry.entries import make_resource, make_status_subresource
from muster.cluster.apiserver.registry.resources import Resource, Rules

_CONDITION = partial(find_problem, variables=dispatch.VARIABLES)
_EXPRESSION = partial(find_problem, variables=policies.VARIABLES)
_OF_WEBHOOKS = (
    partial(webhooks.validate_create, compile=_CONDITION),
    partial(webhooks.validate_update, compile=_CONDITION),
)

_SPEC = Rules(has_generation=True, unconditional_update=False)
_WEBHOOKS = replace(_SPEC, prepare_update=preparation.count_change)  # webhook configurations have no spec
_EXTENSIONS = ("api-extensions",)

ADMISSION: tuple[Resource, ...] = (
    make_resource(
        RESOURCE_QUOTA,
        (resourcequota.validate_create, resourcequota.validate_update),
        Rules(prepare_create=preparation.reset_status, returns_deleted=True),
        make_status_subresource(RESOURCE_QUOTA, resourcequota.validate_status_update),
        take=views.take_main,
        short_names=("quota",),
    ),
    make_resource(
        LIMIT_RANGE,
        (limitrange.validate_create, limitrange.validate_update),
        Rules(create_on_update=True),
        short_names=("limits",),
    ),
    make_resource(MUTATING_WEBHOOK_CONFIGURATION, _OF_WEBHOOKS, _WEBHOOKS, categories=_EXTENSIONS),
    make_resource(VALIDATING_WEBHOOK_CONFIGURATION, _OF_WEBHOOKS, _WEBHOOKS, categories=_EXTENSIONS),
    make_resource(
        VALIDATING_ADMISSION_POLICY,
        (
            partial(admissionpolicy.validate_create, compile=_EXPRESSION),
            partial(admissionpolicy.validate_update, compile=_EXPRESSION),
        ),
        replace(_SPEC, prepare_create=preparation.reset_status),
        make_status_subresource(VALIDATING_ADMISSION_POLICY),
        take=views.take_main,
        categories=_EXTENSIONS,
    ),
    make_resource(
        VALIDATING_ADMISSION_POLICY_BINDING,
        (admissionpolicy.validate_binding_create, admissionpolicy.validate_binding_update),
        _SPEC,
        categories=_EXTENSIONS,
    ),
)
