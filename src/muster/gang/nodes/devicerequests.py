"""Parse ResourceClaims: which devices of a node each request may use, and how many.

A selection is everything that decides whether a device matches. All requests with the same selection compete for the
same devices, so a selection counts as one resource of a node. A claim that does not fit this model is refused with a
message.
"""

from typing import Final

from msgspec import Struct

from muster.api.groups.resource import DeviceClass, DeviceTaint, DeviceToleration, ExactDeviceRequest, ResourceClaimSpec
from muster.gang.shapes import MOST

# The maximum number of devices that the API server accepts in a claim's status.
MOST_DEVICES: Final = 32


class Selection(Struct, frozen=True):
    """The criteria by which devices match a request.

    device_class: the name of the DeviceClass.
    selectors: CEL expressions that must be true in addition to those of the class.
    tolerations: the taints that do not exclude a device.
    whole: whether the request takes all matching devices of a node, which must all be free.
    """

    device_class: str
    selectors: tuple[str, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()
    whole: bool = False

    @property
    def resource(self) -> str:
        """The selection as a resource of nodes, in words: `devices of class gpu.nvidia.com with SELECTORS`."""
        text = f"{'all ' if self.whole else ''}devices of class {self.device_class}"
        if self.selectors:
            text += f" with {' && '.join(self.selectors)}"
        if self.tolerations:
            text += f" whatever their taints {', '.join(one.key or 'of any key' for one in self.tolerations)}"
        return text


class DeviceDemand(Struct, frozen=True):
    """A request of a claim for devices of one selection.

    count: the number of devices; 1 if the selection takes all matching devices of a node (`Selection.whole`).
    """

    request: str
    selection: Selection
    count: int


class Constraint(Struct, frozen=True):
    """A constraint that the devices of some requests share an attribute.

    requests: the names of the requests; empty for all requests.
    """

    attribute: str
    requests: tuple[str, ...] = ()

    def covers(self, request: str) -> bool:
        """Return whether the constraint applies to the devices of a request."""
        return not self.requests or request in self.requests


class ClaimWants(Struct, frozen=True):
    """The requests and constraints of a claim."""

    requests: tuple[DeviceDemand, ...]
    constraints: tuple[Constraint, ...] = ()


def read_claim(spec: ResourceClaimSpec) -> ClaimWants | str:
    """Return the requests and constraints of a claim, or the reason why this scheduler does not allocate the claim."""
    constraints, wanted = [], []
    for constraint in spec.devices.constraints:
        if constraint.match_attribute is None:
            return "the claim has a constraint distinctAttribute, which this scheduler does not support"
        constraints.append(Constraint(constraint.match_attribute, constraint.requests))
    for request in spec.devices.requests:
        name, exactly = request.name, request.exactly
        if exactly is None:
            return f"request {name} uses firstAvailable, which this scheduler does not support"
        if (problem := _find_problem(exactly)) is not None:
            return f"request {name} {problem}, which this scheduler does not support"
        whole = exactly.allocation_mode == "All"
        selectors = tuple(one.cel.expression for one in exactly.selectors if one.cel is not None)
        selection = Selection(exactly.device_class_name, selectors, exactly.tolerations, whole)
        wanted.append(DeviceDemand(name, selection, 1 if whole else min(exactly.count or 1, MOST)))
    if sum(one.count for one in wanted) > MOST_DEVICES:
        return f"the claim asks for more than {MOST_DEVICES} devices"
    return ClaimWants(tuple(wanted), tuple(constraints))


def _find_problem(request: ExactDeviceRequest) -> str | None:
    if request.admin_access:
        return "asks for adminAccess"
    if request.capacity is not None:
        return "asks for a part of a device's capacity"
    if request.allocation_mode not in ("", "ExactCount", "All"):
        return f"has allocationMode {request.allocation_mode}"
    return None


def expressions_of(selection: Selection, device_class: DeviceClass) -> tuple[str, ...]:
    """Return the CEL expressions that must all be true for a device."""
    of_class = tuple(one.cel.expression for one in device_class.spec.selectors if one.cel is not None)
    return of_class + selection.selectors


def tolerates(tolerations: tuple[DeviceToleration, ...], taint: DeviceTaint) -> bool:
    """Return whether these tolerations let a claim use a device in spite of a taint."""
    return taint.effect not in ("NoSchedule", "NoExecute") or any(_matches(one, taint) for one in tolerations)


def _matches(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
