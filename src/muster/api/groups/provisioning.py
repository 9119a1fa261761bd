"""`autoscaling.x-k8s.io/v1`: what is asked of an autoscaler, whose installation defines the kind."""

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct


class PodTemplateReference(Struct):
    """Names a PodTemplate of the same namespace."""

    name: str = ""


class ProvisionedPodSet(Struct):
    """Like pods. count: how many of them."""

    pod_template_ref: PodTemplateReference = PodTemplateReference()
    count: int = 0


class ProvisioningRequestSpec(Struct):
    """What room is asked for. provisioning_class_name: how the autoscaler provides it."""

    provisioning_class_name: str = ""
    pod_sets: tuple[ProvisionedPodSet, ...] = ()


class ProvisioningRequest(Struct):
    """Asks for room for pods. Its spec never changes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()


PROVISIONING_REQUEST = Kind(
    "autoscaling.x-k8s.io", "v1", "ProvisioningRequest", "provisioningrequests", ProvisioningRequest
)
