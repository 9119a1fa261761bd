"""The served resources of `resource.k8s.io`: devices, device classes and claims.

Validation compiles the CEL expressions of device selectors, so that only expressions without errors are stored.
"""

from functools import partial

from msgspec.structs import replace

from muster.api.groups import resource
from muster.api.validation.groups import devices
from muster.cluster.apiserver.cel import DEVICE_VARIABLES, find_problem
from muster.cluster.apiserver.objects import preparation, views
from muster.cluster.apiserver.registry.entries import make_resource, make_status_subresource, map_to_same_names
from muster.cluster.apiserver.registry.resources import Resource, Rules
from muster.cluster.apiserver.request.selection import FieldLabels

_RULES = devices.make_rules(partial(find_problem, variables=DEVICE_VARIABLES))
_GIVEN_BACK = Rules(returns_deleted=True)
_COUNTED = replace(_GIVEN_BACK, has_generation=True)

DEVICES: tuple[Resource, ...] = (
    make_resource(
        resource.RESOURCE_CLAIM,
        (_RULES.claim.create, _RULES.claim.update),
        replace(_GIVEN_BACK, prepare_create=preparation.make_status_setter()),
        make_status_subresource(resource.RESOURCE_CLAIM, devices.validate_claim_status_change),
        take=views.take_main,
    ),
    make_resource(
        resource.RESOURCE_CLAIM_TEMPLATE,
        (_RULES.template.create, _RULES.template.update),
        _GIVEN_BACK,
        take=views.take_all,
    ),
    make_resource(
        resource.RESOURCE_SLICE,
        (_RULES.slice.create, _RULES.slice.update),
        _COUNTED,
        take=views.take_all,
        fields=FieldLabels(map_to_same_names("spec.nodeName", "spec.driver")),
    ),
    make_resource(
        resource.DEVICE_CLASS,
        (_RULES.device_class.create, _RULES.device_class.update),
        _COUNTED,
        take=views.take_all,
    ),
)
