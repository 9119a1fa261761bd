"""What is given to everything and never taken: time, chance and identity."""

from dataclasses import dataclass

from muster.runtime.clock import Clock
from muster.runtime.ids import Ids, Random


@dataclass(frozen=True, slots=True)
class Givens:
    """Real ones, or those of a test that can be played again."""

    clock: Clock
    ids: Ids
    random: Random
