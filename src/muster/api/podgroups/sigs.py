"""`scheduling.sigs.dev/v1alpha2`: kube-batch's later PodGroup."""

from muster.api.kinds import Kind
from muster.api.podgroups import kubebatch


class PodGroup(kubebatch.PodGroup):
    """Pods that start together or not at all. The annotation scheduling.k8s.io/group-name of a pod names the group."""


POD_GROUP = Kind("scheduling.sigs.dev", "v1alpha2", "PodGroup", "podgroups", PodGroup)
