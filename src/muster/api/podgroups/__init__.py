"""PodGroups of all schedulers of gangs: scheduler KEP-34's own kind, and the dialects that grew from it.

The newest, `scheduling.k8s.io`, is in `muster.api.groups.scheduling_v1alpha2`: Kubernetes' own, and served on request.
"""

from typing import Any

from muster.api.kinds import Kind
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano

POD_GROUP_KINDS: tuple[Kind[Any], ...] = (
    kep.POD_GROUP,
    kubebatch.POD_GROUP,
    sigs.POD_GROUP,
    volcano.POD_GROUP,
    coscheduling.POD_GROUP,
)
