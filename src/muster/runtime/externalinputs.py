"""Hold the inputs that would make a run irreproducible: time, random numbers and new IDs.

Each component gets them from its caller and reads none of them itself, so that tests can replay a run.
"""

from datetime import UTC, tzinfo

from msgspec import Struct

from muster.runtime.clock import Clock
from muster.runtime.ids import Ids, Random


class ExternalInputs(Struct, frozen=True):
    """The clock, random numbers and IDs of one process. Tests pass reproducible ones.

    zone: the time zone for times of day without one; None for the zone of the machine.
    """

    clock: Clock
    ids: Ids
    random: Random
    zone: tzinfo | None = UTC
