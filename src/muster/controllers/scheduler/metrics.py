"""The scheduler's numbers, named as kube-scheduler names them; what only gangs have, by our name."""

from collections.abc import Callable, Iterator
from typing import Literal

from muster.runtime.metrics import Gauges, Registry

Result = Literal["scheduled", "unschedulable", "error"]

_SECONDS = tuple(0.0001 * 2**power for power in range(15))
_VICTIMS = tuple(2.0**power for power in range(11))


class SchedulerMetrics:
    """What the scheduler counts. waiting: how many gangs wait for room now."""

    def __init__(self, registry: Registry, waiting: Callable[[], int]) -> None:
        self._pods = registry.counter(
            "scheduler_schedule_attempts_total", "Number of attempts to schedule pods, by the result", ("result",)
        )
        self._gangs = registry.counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Number of attempts to schedule pods that start together, by the result",
            ("result",),
        )
        self._seconds = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "Time to decide where pods go", (), _SECONDS
        )
        self._preemptions = registry.counter(
            "scheduler_preemption_attempts_total", "Number of times that pods were told to go for others"
        )
        self._victims = registry.histogram(
            "scheduler_preemption_victims", "Number of pods that were told to go at once", (), _VICTIMS
        )
        self._waiting = waiting
        registry.scraped(self._scraped)

    def attempted(self, result: Result, pods: int) -> None:
        """So many pods were placed together, or found no room, or the server would not have them there."""
        self._pods.labels(result).inc(pods)
        if pods > 1:
            self._gangs.labels(result).inc()

    def decided(self, seconds: float) -> None:
        """A decision took so long."""
        self._seconds.observe(seconds)

    def preempted(self, victims: int) -> None:
        """So many pods were told to go for one gang."""
        self._preemptions.inc()
        self._victims.observe(victims)

    def _scraped(self) -> Iterator[Gauges]:
        yield Gauges("muster_scheduler_waiting_gangs", "Gangs that wait for room", (), [((), self._waiting())])
