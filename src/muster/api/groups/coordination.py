"""`coordination.k8s.io/v1`: the Lease, by which one of many says that it is the one, or that it is alive."""

from datetime import datetime

from muster.api.kinds import Kind
from muster.api.markers import Int32, MicroTime
from muster.api.meta import ObjectMeta, Struct


class LeaseSpec(Struct):
    """Who holds a lease, since when, for how long.

    holder_identity: who holds it; empty: it is free.
    lease_duration_seconds: how long after renewTime others must wait before they take it.
    acquire_time: since when.
    renew_time: when the holder last renewed it.
    lease_transitions: how many times the holder has changed.
    strategy: how a coordinated election picks the leader.
    preferred_holder: to whom the holder should yield.
    """

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Struct):
    """A claim that runs out unless it is renewed.

    metadata: what every object carries.
    spec: who holds it, since when, for how long.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


def micro_time(now: datetime) -> datetime:
    """As times of a Lease are written: servers written in Go refuse one without a fraction."""
    return now.replace(microsecond=max(now.microsecond, 1))


LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", Lease)
