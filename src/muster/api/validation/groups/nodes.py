"""Rules of what nodes lend: runtimes and devices (k8s.io/kubernetes/pkg/apis/{node,resource}/validation)."""

from muster.api.groups.resource import DeviceRequest, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from muster.api.groups.runtimeclass import RuntimeClass
from muster.api.validation import names
from muster.api.validation.fields import Errors, each, immutable, invalid, required
from muster.api.validation.pods.placement import tolerations
from muster.api.validation.resources import amount
from muster.api.validation.standard import Standard

_ONE_WAY = "exactly one of `exactly` or `firstAvailable` is required"


def _runtime_class(runtime_class: RuntimeClass) -> Errors:
    if not runtime_class.handler:
        yield required("handler")
    else:
        yield from each("handler", runtime_class.handler, names.dns_label(runtime_class.handler))
    if runtime_class.overhead is not None:
        for resource, quantity in runtime_class.overhead.pod_fixed.items():
            yield from amount(f"overhead.podFixed[{resource}]", resource, quantity)
    if runtime_class.scheduling is not None:
        yield from tolerations("scheduling.tolerations", runtime_class.scheduling.tolerations)


def _runtime_class_change(new: RuntimeClass, old: RuntimeClass) -> Errors:
    yield from immutable("handler", new.handler, old.handler)


def _claim(claim: ResourceClaim) -> Errors:
    yield from _claim_spec("spec", claim.spec)


def _claim_change(new: ResourceClaim, old: ResourceClaim) -> Errors:
    yield from immutable("spec", new.spec, old.spec)


def _template(template: ResourceClaimTemplate) -> Errors:
    yield from _claim_spec("spec.spec", template.spec.spec)


def _template_change(new: ResourceClaimTemplate, old: ResourceClaimTemplate) -> Errors:
    yield from immutable("spec", new.spec, old.spec)


def _claim_spec(path: str, spec: ResourceClaimSpec) -> Errors:
    for i, request in enumerate(spec.devices.requests):
        yield from _request(f"{path}.devices.requests[{i}]", request)


def _request(path: str, request: DeviceRequest) -> Errors:
    if not request.name:
        yield required(f"{path}.name")
    else:
        yield from each(f"{path}.name", request.name, names.dns_label(request.name))
    if request.exactly is None and not request.first_available:
        yield required(path, _ONE_WAY)
    elif request.exactly is not None and request.first_available:
        yield invalid(path, None, f"{_ONE_WAY}, but multiple fields are set")
    elif request.exactly is not None and not request.exactly.device_class_name:
        yield required(f"{path}.exactly.deviceClassName")
    for i, way in enumerate(request.first_available):
        if not way.device_class_name:
            yield required(f"{path}.firstAvailable[{i}].deviceClassName")


RUNTIME_CLASS = Standard(_runtime_class, _runtime_class_change, namespaced=False)
RESOURCE_CLAIM = Standard(_claim, _claim_change)
RESOURCE_CLAIM_TEMPLATE = Standard(_template, _template_change)
