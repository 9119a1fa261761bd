"""Report the progress of a job on stderr: one line for every step, and on a terminal the number of ready workers."""

from collections.abc import Callable

from msgspec import Struct, field

from muster.insight.jobs.state import JobState
from muster.insight.jobs.tally import WorkerCounts
from muster.insight.jobs.trials import TrialCount


class Progress(Struct):
    """The reporter of one job's progress. For a sweep, it prints a line after each tenth of its trials.

    workers: the largest number of workers that the job may have. The progress of a single worker is not counted.
    say: prints a line that stays.
    show: replaces the status text of a job, by its name.
    """

    name: str
    workers: int
    say: Callable[[str], None]
    show: Callable[[str, str], None] = lambda _name, _text: None
    _reported: set[str] = field(default_factory=set)
    _size: int = 0  # the last reported number of workers
    _standing: str = ""  # the last reported position in the queue
    _tenths: int = -1  # the last reported progress of a sweep

    def report(self, state: JobState) -> None:
        """Print a line about a new state of the job: its start, its position in the queue, or what it waits for.

        A line that was already printed is not repeated.
        """
        if state.count is not None and (state.word == "Running" or state.finished):
            self._report_count(state.count, finished=state.finished)
            if state.slowed:
                self._say_once(f"{self.name}: {state.slowed}")
        elif state.word == "Running" or (state.word == "Completed" and self._is_start_unreported):
            self._report_running(state)
        elif state.finished:
            return
        elif state.blocked and state.quota_state is not None:
            self._report_position(state.quota_state.sentence)
        elif state.blocked or state.word == "Retrying":
            self._say_once(f"{self.name}: {state.word.lower()}: {state.reason}")

    def count(self, tally: WorkerCounts) -> None:
        """Show how many of several workers run, in the status text of the job; "" if none runs."""
        under_way = tally.wanted > 1 and tally.running
        self.show(self.name, tally.sentence if under_way else "")

    @property
    def _is_start_unreported(self) -> bool:
        """Whether the start of all workers has not been reported.

        They may end before the reporter observes that they run.
        """
        return self.workers > 1 and not self._size

    def _report_running(self, state: JobState) -> None:
        self._standing = ""
        if self.workers == 1:
            self._say_once(f"{self.name}: running")
        elif state.wanted != self._size and state.ready >= state.wanted:
            # The line is repeated whenever the number of workers changes.
            what = f"now {state.wanted} workers" if self._size else f"all {state.wanted} workers started"
            self.say(f"{self.name}: {what}")
            self._size = state.wanted

    def _report_count(self, count: TrialCount, *, finished: bool) -> None:
        self.show(self.name, "" if finished else str(count))
        tenths = 10 * count.over // count.all
        if tenths != self._tenths:
            self._tenths = tenths
            self.say(f"{self.name}: {count}")

    def _report_position(self, sentence: str) -> None:
        """Print the position in the queue if it has changed. After a requeue, messages may be printed again."""
        if sentence != self._standing:
            self._standing, self._size = sentence, 0
            self._reported.clear()
            self.say(f"{self.name}: {sentence}")

    def _say_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self.say(text)
