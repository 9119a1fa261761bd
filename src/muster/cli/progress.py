"""Says on stderr how a job gets on: one line for every step, none twice."""

from collections.abc import Callable
from dataclasses import dataclass, field

from muster.cli.jobstate import JobState


@dataclass(slots=True)
class Progress:
    """Turns the states of one job into lines."""

    name: str
    workers: int
    say: Callable[[str], None]
    _said: set[str] = field(default_factory=set)

    def report(self, state: JobState) -> None:
        """The job has reached this state."""
        if state.finished:
            return
        if state.word == "Running":
            text = f"{self.name}: running" if self.workers == 1 else f"{self.name}: all {self.workers} workers started"
            if self.workers > 1 and state.ready < state.wanted:
                return
        elif state.blocked:
            text = f"{self.name}: {state.word.lower()}: {state.reason}"
        else:
            return
        if text not in self._said:
            self._said.add(text)
            self.say(text)
