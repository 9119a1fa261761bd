"""Holds what every part is given and never takes itself: time, chance and identity."""

from dataclasses import dataclass
from datetime import UTC, tzinfo

from muster.runtime.clock import Clock
from muster.runtime.ids import Ids, Random


@dataclass(frozen=True, slots=True)
class Givens:
    """A clock, a source of chance and a source of ids: real ones, or those of a reproducible test.

    zone: the time zone of times of day that name none; None for that of the machine.
    """

    clock: Clock
    ids: Ids
    random: Random
    zone: tzinfo | None = UTC
