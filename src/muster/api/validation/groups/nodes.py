"""The rules of runtime classes (k8s.io/kubernetes/pkg/apis/node/validation)."""

from muster.api.groups.runtimeclass import RuntimeClass
from muster.api.validation import names
from muster.api.validation.fields import Errors, make_errors, required, validate_immutable
from muster.api.validation.pods.placement import validate_tolerations
from muster.api.validation.resources import validate_amount
from muster.api.validation.standard import Standard


def _validate_runtime_class(runtime_class: RuntimeClass) -> Errors:
    if not runtime_class.handler:
        yield required("handler")
    else:
        yield from make_errors("handler", runtime_class.handler, names.dns_label(runtime_class.handler))
    if runtime_class.overhead is not None:
        for resource, quantity in runtime_class.overhead.pod_fixed.items():
            yield from validate_amount(f"overhead.podFixed[{resource}]", resource, quantity)
    if runtime_class.scheduling is not None:
        yield from validate_tolerations("scheduling.tolerations", runtime_class.scheduling.tolerations)


def _validate_runtime_class_change(new: RuntimeClass, old: RuntimeClass) -> Errors:
    yield from validate_immutable("handler", new.handler, old.handler)


RUNTIME_CLASS = Standard(_validate_runtime_class, _validate_runtime_class_change, namespaced=False)
