"""Says on stderr how a job gets on: one line for every step, none twice; on a terminal also how far its workers are."""

from collections.abc import Callable
from dataclasses import dataclass, field

from muster.insight.jobstate import JobState
from muster.insight.tally import Tally
from muster.insight.trials import Count


@dataclass(slots=True)
class Progress:
    """Turns the states of one job into lines. `workers` is the most that it may have; one alone is not counted.

    say: gets a line that stays. show: gets, by the name of the job, what is shown until something else is.
    Of a sweep it says how far it is with each tenth.
    """

    name: str
    workers: int
    say: Callable[[str], None]
    show: Callable[[str, str], None] = lambda _name, _text: None
    _said: set[str] = field(default_factory=set)
    _size: int = 0  # that was said last
    _standing: str = ""  # that was said last
    _tenths: int = -1  # of a sweep, that were over when it was said last

    def report(self, state: JobState) -> None:
        """The job has reached this state."""
        if state.count is not None and (state.word == "Running" or state.finished):
            self._counted(state.count, finished=state.finished)
        elif state.word == "Running" or (state.word == "Completed" and self._unsaid):
            self._running(state)
        elif state.finished:
            return
        elif state.blocked and state.quota_state is not None:
            self._stands(state.quota_state.sentence)
        elif state.blocked or state.word == "Retrying":
            self._say_once(f"{self.name}: {state.word.lower()}: {state.reason}")

    def count(self, tally: Tally) -> None:
        """The workers of the job are so far."""
        under_way = tally.wanted > 1 and tally.running
        self.show(self.name, tally.sentence if under_way else "")

    @property
    def _unsaid(self) -> bool:
        """Whether it has not been said that all have started: they may end before that is seen."""
        return self.workers > 1 and not self._size

    def _running(self, state: JobState) -> None:
        self._standing = ""
        if self.workers == 1:
            self._say_once(f"{self.name}: running")
        elif state.wanted != self._size and state.ready >= state.wanted:
            # All are there; said again whenever that is another number.
            what = f"now {state.wanted} workers" if self._size else f"all {state.wanted} workers started"
            self.say(f"{self.name}: {what}")
            self._size = state.wanted

    def _counted(self, count: Count, *, finished: bool) -> None:
        self.show(self.name, "" if finished else str(count))
        tenths = 10 * count.over // count.all
        if tenths != self._tenths:
            self._tenths = tenths
            self.say(f"{self.name}: {count}")

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
