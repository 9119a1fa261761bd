"""Define the scheduler's metrics, with kube-scheduler's names, and with Muster's names for metrics about gangs."""

from collections.abc import Callable, Iterator
from typing import Literal

from muster.runtime.metrics import Gauges, Registry

Result = Literal["scheduled", "unschedulable", "error"]

_SECONDS = tuple(0.0001 * 2**power for power in range(15))
_VICTIMS = tuple(2.0**power for power in range(11))


class SchedulerMetrics:
    """The scheduler's metrics.

    waiting: returns the number of gangs that currently wait for room.
    """

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
        ).labels()
        self._preemptions = registry.counter(
            "scheduler_preemption_attempts_total", "Number of times that pods were evicted for others"
        ).labels()
        self._victims = registry.histogram(
            "scheduler_preemption_victims", "Number of pods that were evicted together", (), _VICTIMS
        ).labels()
        self._waiting = waiting
        registry.add_computed(self._list_gauges)

    def count_attempts(self, result: Result, pods: int) -> None:
        """Count pods that were placed together, found no room, or were refused by the server."""
        self._pods.labels(result).inc(pods)
        if pods > 1:
            self._gangs.labels(result).inc()

    def record_decision(self, seconds: float) -> None:
        """Record the duration of a decision."""
        self._seconds.observe(seconds)

    def count_victims(self, victims: int) -> None:
        """Count the victims that are evicted for one gang."""
        self._preemptions.inc()
        self._victims.observe(victims)

    def _list_gauges(self) -> Iterator[Gauges]:
        yield Gauges("muster_scheduler_waiting_gangs", "Gangs that wait for room", (), [((), self._waiting())])
