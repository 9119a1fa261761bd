"""Numbers about requests, by upstream's names."""

from prometheus_client import Counter, Histogram

from muster.runtime.clock import Clock
from muster.runtime.metrics import Registry

# kube-apiserver's buckets, in seconds.
_BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip


class Traffic:
    """Counts answers and how long they took (of streams: until they began)."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._clock = clock
        self._requests = registry.counter(
            "apiserver_request_total", "Requests by verb, resource and HTTP code", ("verb", "resource", "code")
        )
        self._seconds = registry.histogram(
            "apiserver_request_duration_seconds", "How long answers took", ("verb", "resource"), _BUCKETS
        )
        # Looking a series up by its labels costs more than counting.
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def answered(self, verb: str, resource: str, code: int, start: float) -> None:
        """A request that began at this (monotonic) time has its answer. Labels are from closed lists."""
        key = (verb, resource, code)
        found = self._series.get(key)
        if found is None:
            found = self._requests.labels(verb, resource, str(code)), self._seconds.labels(verb, resource)
            self._series[key] = found
        counter, histogram = found
        counter.inc()
        histogram.observe(self._clock.monotonic() - start)
