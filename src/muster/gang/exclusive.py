"""Find what a pod uses exclusively on its node: host ports, and disks that it writes to."""

from collections.abc import Iterator

from msgspec import Struct

from muster.api.core import PodSpec, Volume
from muster.api.pods import is_sidecar

_ANY_ADDRESS = "0.0.0.0"


class Hold(Struct, frozen=True, order=True):
    """A host port or a disk that a pod uses on its node.

    what: identifies the port or disk; two holds with different `what` never conflict.
    address: of a port: the address of the node to which the port is bound.
    shared: of a disk: whether the pod only reads it, so that other readers do not conflict.
    """

    what: tuple[str, ...]
    address: str = ""
    shared: bool = False

    @property
    def is_port(self) -> bool:
        """Whether the hold is a port and not a disk."""
        return self.what[0] == "port"

    def conflicts(self, other: "Hold") -> bool:
        """Return whether two pods with these holds cannot share a node."""
        if self.what != other.what or (self.shared and other.shared):
            return False
        return not self.is_port or self.address == other.address or _ANY_ADDRESS in (self.address, other.address)


def holds_of(spec: PodSpec) -> tuple[Hold, ...]:
    """Return the ports and disks that a pod uses on its node."""
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
    """Yield the disks that a pod uses by mounting a volume.

    Source: `isVolumeConflict` of kube-scheduler's VolumeRestrictions.
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
