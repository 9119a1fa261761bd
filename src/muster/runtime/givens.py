"""Holds what every part is given and never takes itself: time, chance and identity."""

from dataclasses import dataclass

from muster.runtime.clock import Clock
from muster.runtime.ids import Ids, Random


@dataclass(frozen=True, slots=True)
class Givens:
    """A clock, a source of chance and a source of ids: real ones, or those of a reproducible test."""

    clock: Clock
    ids: Ids
    random: Random
