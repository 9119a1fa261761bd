"""Says on stderr how a job gets on: one line for every step, none twice."""

from collections.abc import Callable
from dataclasses import dataclass, field

from muster.insight.jobstate import JobState


@dataclass(slots=True)
class Progress:
    """Turns the states of one job into lines. `workers` is the most that it may have; one alone is not counted."""

    name: str
    workers: int
    say: Callable[[str], None]
    _said: set[str] = field(default_factory=set)
    _size: int = 0  # that was said last
    _standing: str = ""  # that was said last

    def report(self, state: JobState) -> None:
        """The job has reached this state."""
        if state.finished:
            return
        if state.word == "Running":
            self._running(state)
        elif state.blocked and state.quota_state is not None:
            self._stands(state.quota_state.sentence)
        elif state.blocked or state.word == "Retrying":
            self._say_once(f"{self.name}: {state.word.lower()}: {state.reason}")

    def _running(self, state: JobState) -> None:
        self._standing = ""
        if self.workers == 1:
            self._say_once(f"{self.name}: running")
        elif state.wanted != self._size and state.ready >= state.wanted:
            # All are there; said again whenever that is another number.
            what = f"now {state.wanted} workers" if self._size else f"all {state.wanted} workers started"
            self.say(f"{self.name}: {what}")
            self._size = state.wanted

    def _stands(self, sentence: str) -> None:
        """It is in its queue, perhaps once more: then everything may be said again."""
        if sentence != self._standing:
            self._standing, self._size = sentence, 0
            self._said.clear()
            self.say(f"{self.name}: {sentence}")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text)
