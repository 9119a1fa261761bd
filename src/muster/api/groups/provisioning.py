# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`autoscaling.x-k8s.io/v1`: requests to an autoscaler, whose installation defines the kind."""

from typing import Final

from muster.api.kinds import Kind
from muster.api.meta import Condition, ObjectMeta, Struct

# Conditions of a ProvisioningRequest, which the autoscaler sets.
ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"

# On pods: the request whose room they use, and its class.
CONSUME_ANNOTATION: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME_ANNOTATION: Final = "autoscaling.x-k8s.io/provisioning-class-name"


class PodTemplateReference(Struct):
    """Names a PodTemplate of the same namespace."""

    name: str = ""


class ProvisionedPodSet(Struct):
    """Like pods. count: how many of them."""

    pod_template_ref: PodTemplateReference = PodTemplateReference()
    count: int = 0


class ProvisioningRequestSpec(Struct):
    """What room is asked for. provisioning_class_name: how the autoscaler provides it. parameters: of the class."""

    provisioning_class_name: str = ""
    pod_sets: tuple[ProvisionedPodSet, ...] = ()
    parameters: dict[str, str] = {}


class ProvisioningRequestStatus(Struct):
    """What the autoscaler says of a request. provisioning_class_details: what its class tells besides."""

    conditions: tuple[Condition, ...] = ()
    provisioning_class_details: dict[str, str] = {}


class ProvisioningRequest(Struct):
    """Asks for room for pods. Its spec never changes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()


PROVISIONING_REQUEST = Kind(
    "autoscaling.x-k8s.io", "v1", "ProvisioningRequest", "provisioningrequests", ProvisioningRequest
)
