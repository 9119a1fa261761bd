# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`autoscaling.x-k8s.io/v1`: requests to an autoscaler, whose installation defines the kind."""

from typing import Final

from muster.api.kinds import Kind
from muster.api.meta import Condition, ObjectMeta, Struct

# The conditions of a ProvisioningRequest, which the autoscaler sets.
ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"

# Annotations of pods: the request whose room they use, and its class.
CONSUME_ANNOTATION: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME_ANNOTATION: Final = "autoscaling.x-k8s.io/provisioning-class-name"


class PodTemplateReference(Struct):
    """A reference to a PodTemplate in the same namespace."""

    name: str = ""


class ProvisionedPodSet(Struct):
    """A set of identical pods.

    count: the number of pods.
    """

    pod_template_ref: PodTemplateReference = PodTemplateReference()
    count: int = 0


class ProvisioningRequestSpec(Struct):
    """The requested room.

    provisioning_class_name: the class by which the autoscaler provides the room.
    parameters: the parameters of the class.
    """

    provisioning_class_name: str = ""
    pod_sets: tuple[ProvisionedPodSet, ...] = ()
    parameters: dict[str, str] = {}


class ProvisioningRequestStatus(Struct):
    """The state of a request, which the autoscaler reports.

    provisioning_class_details: additional facts that the class reports.
    """

    conditions: tuple[Condition, ...] = ()
    provisioning_class_details: dict[str, str] = {}


class ProvisioningRequest(Struct):
    """A request for room for pods. Its spec never changes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()


PROVISIONING_REQUEST = Kind(
    "autoscaling.x-k8s.io", "v1", "ProvisioningRequest", "provisioningrequests", ProvisioningRequest
)
