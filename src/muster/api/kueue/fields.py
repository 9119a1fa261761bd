"""The types of fields that several Kueue kinds share, with the limits of their schemas."""

from typing import Annotated, Final

from muster.api.markers import Required, limits, map_by
from muster.api.meta import Condition

GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "v1beta2"  # the stored version, which the types describe; v1beta1 is converted
OLD_VERSION: Final = "v1beta1"

LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUALIFIED_NAME: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)

ObjectName = Annotated[str, limits(max_length=253, pattern=SUBDOMAIN)]
TopologyLabel = Annotated[str, limits(max_length=63)]
Conditions = Annotated[tuple[Condition, ...], map_by("type"), limits(max_items=16)]

RequiredName = Annotated[Required[str], limits(max_length=253, pattern=SUBDOMAIN)]
RequiredPodSetName = Annotated[Required[str], limits(max_length=63, pattern=LABEL)]
RequiredCheckName = Annotated[Required[str], limits(min_length=1, max_length=316)]
