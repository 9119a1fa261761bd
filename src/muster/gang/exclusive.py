"""Find what a pod uses exclusively on its node: host ports, and disks that it writes to."""

from collections.abc import Iterator

from msgspec import Struct

from muster.api.core import PodSpec, Volume
from muster.api.pods import is_sidecar

_ANY_ADDRESS = "0.0.0.0"


class Hold(Struct, frozen=True, order=True):
    """A host port or a disk that a pod uses on its node.

    what: the identifier of the port or disk; two holds with different identifiers never conflict.
    address: for a port, the node's address to which the port is bound.
    shared: for a disk, whether the pod only reads it, so that it does not conflict with other readers.
    """

    what: tuple[str, ...]
    address: str = ""
    shared: bool = False

    @property
    def is_port(self) -> bool:
        """Whether this is a port rather than a disk."""
        return self.what[0] == "port"

    def conflicts(self, other: "Hold") -> bool:
        """Return whether two pods with these holds conflict, so that they cannot share a node."""
        if self.what != other.what or (self.shared and other.shared):
            return False
        return not self.is_port or self.address == other.address or _ANY_ADDRESS in (self.address, other.address)


def holds_of(spec: PodSpec) -> tuple[Hold, ...]:
    """Return the host ports and disks that a pod uses on its node."""
    holds = {*_list_ports(spec), *(hold for volume in spec.volumes for hold in disks_of(volume))}
    return tuple(sorted(holds)) if holds else ()


def _list_ports(spec: PodSpec) -> Iterator[Hold]:
    sidecars = (container for container in spec.init_containers if is_sidecar(container))
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                what = ("port", port.protocol or "TCP", str(port.host_port))
                yield Hold(what, address=port.host_ip or _ANY_ADDRESS)


def disks_of(volume: Volume) -> Iterator[Hold]:
    """Yield the disks that a pod uses if it mounts a volume.

    Source: `isVolumeConflict` in kube-scheduler's VolumeRestrictions.
    """
    if (gce := volume.gce_persistent_disk) is not None:
        yield Hold(("gcePersistentDisk", gce.pd_name), shared=gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        yield Hold(("awsElasticBlockStore", aws.volume_id))
    if (iscsi := volume.iscsi) is not None:
        yield Hold(("iscsi", iscsi.iqn), shared=iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        for monitor in rbd.monitors:
            yield Hold(("rbd", monitor, rbd.pool, rbd.image), shared=rbd.read_only)
