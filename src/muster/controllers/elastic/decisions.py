"""Make the records of decisions about the size of an elastic job. All but `ResizeRecorder` is pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from muster.api.ours.decisions import Decision, Other, Subject
from muster.controllers.decisionlog import DecisionLog
from muster.runtime.clock import Clock

# The rules by which a size changes: another job needs the room, or room on nodes or quota is free.
MAKES_ROOM: Final = "MakesRoom"
NODES: Final = "Nodes"
QUOTA: Final = "Quota"

# The maximum number of other jobs in one record.
_MOST_OTHERS = 20


class Resized(Struct, frozen=True):
    """A new size of an elastic job.

    rule: the rule that decided the size, unless the job shrinks for other jobs.
    helps: the jobs for which it shrinks, as `namespace/name`.
    """

    subject: Subject
    old: int
    new: int
    rule: str
    because: str = ""
    helps: Sequence[str] = ()
    queue: str = ""

    def describe(self, now: datetime) -> Decision:
        """Return the record of this decision for the job's history."""
        return Decision(
            now,
            "Grown" if self.new > self.old else "Shrunk",
            self.subject.job,
            self.subject.uid,
            self.queue,
            MAKES_ROOM if self.helps else self.rule,
            "" if self.helps else self.because,
            others=tuple(map(Other, self.helps[:_MOST_OTHERS])),
            others_in_all=len(self.helps) if len(self.helps) > _MOST_OTHERS else None,
            pods=self.new,
            pods_before=self.old,
        )


class ResizeRecorder:
    """A recorder that adds the new sizes of elastic jobs to a log."""

    def __init__(self, decisions: DecisionLog, clock: Clock) -> None:
        self._decisions = decisions
        self._clock = clock

    def record(self, resized: Resized) -> None:
        """Record a new size after it is written."""
        self._decisions.add(resized.describe(self._clock.now()))
