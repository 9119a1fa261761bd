"""What only one pod of a node can have: its ports, and disks that are written to."""

from collections.abc import Iterator

from msgspec import Struct

from muster.api.core import PodSpec, Volume
from muster.api.pods import is_sidecar

_ANY_ADDRESS = "0.0.0.0"


class Hold(Struct, frozen=True, order=True):
    """A port or a disk that a pod takes on its node.

    what: names it; those of different names never meet.
    address: of a port: the node's address to which it is bound.
    shared: of a disk: it is only read, so that other readers do no harm.
    """

    what: tuple[str, ...]
    address: str = ""
    shared: bool = False

    @property
    def is_port(self) -> bool:
        """Whether it is a port."""
        return self.what[0] == "port"

    def conflicts(self, other: "Hold") -> bool:
        """Whether two pods of a node cannot have both."""
        if self.what != other.what or (self.shared and other.shared):
            return False
        return not self.is_port or self.address == other.address or _ANY_ADDRESS in (self.address, other.address)


def holds_of(spec: PodSpec) -> tuple[Hold, ...]:
    """What a pod takes on its node."""
    found = {*_ports(spec), *(hold for volume in spec.volumes for hold in disks_of(volume))}
    return tuple(sorted(found)) if found else ()


def _ports(spec: PodSpec) -> Iterator[Hold]:
    sidecars = (container for container in spec.init_containers if is_sidecar(container))
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                what = ("port", port.protocol or "TCP", str(port.host_port))
                yield Hold(what, address=port.host_ip or _ANY_ADDRESS)


def disks_of(volume: Volume) -> Iterator[Hold]:
    """What a pod takes by mounting a volume. Upstream: VolumeRestrictions, `isVolumeConflict`."""
    if (gce := volume.gce_persistent_disk) is not None:
        yield Hold(("gcePersistentDisk", gce.pd_name), shared=gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        yield Hold(("awsElasticBlockStore", aws.volume_id))
    if (iscsi := volume.iscsi) is not None:
        yield Hold(("iscsi", iscsi.iqn), shared=iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        for monitor in rbd.monitors:
            yield Hold(("rbd", monitor, rbd.pool, rbd.image), shared=rbd.read_only)
