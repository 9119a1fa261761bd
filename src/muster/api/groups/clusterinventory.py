# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`multicluster.x-k8s.io`: a cluster manager's profiles of its clusters. The engine only reads them."""

from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct


class AccessProvider(Struct):
    """One way to access a cluster.

    name: the name that selects the credential plugin.
    cluster: the address of the cluster, as in a kubeconfig.
    """

    name: str = ""
    cluster: dict[str, Any] = {}


class ClusterProfileStatus(Struct):
    """The ways to access a cluster. `credential_providers` is the old name of the field."""

    access_providers: tuple[AccessProvider, ...] = ()
    credential_providers: tuple[AccessProvider, ...] = ()


class ClusterProfile(Struct):
    """A cluster of the inventory."""

    metadata: ObjectMeta = ObjectMeta()
    status: ClusterProfileStatus = ClusterProfileStatus()


CLUSTER_PROFILE = Kind("multicluster.x-k8s.io", "v1alpha1", "ClusterProfile", "clusterprofiles", ClusterProfile)
