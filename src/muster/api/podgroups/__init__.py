"""The PodGroups of all gang schedulers: the kind of scheduler KEP-34 (kube-batch), and the dialects that grew from it.

Kubernetes' own and newest PodGroup is in `muster.api.groups.scheduling_v1alpha2`. The server serves it on request.
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
