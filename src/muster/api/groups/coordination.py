"""`coordination.k8s.io/v1`: the Lease, with which a replica claims to lead, or a node shows that it is alive."""

from datetime import datetime

from muster.api.kinds import Kind
from muster.api.markers import Int32, MicroTime
from muster.api.meta import ObjectMeta, Struct


class LeaseSpec(Struct):
    """The holder of a lease, since when, and for how long."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Struct):
    """A claim that expires unless its holder renews it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


def micro_time(now: datetime) -> datetime:
    """Return the time with at least 1 microsecond, because servers in Go refuse a Lease's time without a fraction."""
    return now.replace(microsecond=max(now.microsecond, 1))


LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", Lease)
