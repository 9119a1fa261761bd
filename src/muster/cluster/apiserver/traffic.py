"""Numbers about requests, by upstream's names."""

from prometheus_client import Counter, Histogram

from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.apiserver.request.requestinfo import Target
from muster.runtime.clock import Clock
from muster.runtime.metrics import Registry

# kube-apiserver's buckets, in seconds.
_BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip


# Upstream's words for what its clients call create, update and so on.
_VERBS = {"create": "POST", "update": "PUT"}
_NAMES = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")


class Traffic:
    """Counts answers and how long they took (of streams: until they began)."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._clock = clock
        self._requests = registry.counter(
            "apiserver_request_total", "Requests by what they ask for and by HTTP code", (*_NAMES, "code")
        )
        self._seconds = registry.histogram(
            "apiserver_request_duration_seconds", "How long answers took", _NAMES, _BUCKETS
        )
        # Looking a series up by its labels costs more than counting.
        self._series: dict[_Key, tuple[Counter, Histogram]] = {}

    def answered(self, verb: str, target: Target | None, resource: Resource | None, code: int, start: float) -> None:
        """A request that began at this (monotonic) time has its answer; `resource` is None for what is not served."""
        key = _key(verb, target, resource, code)
        found = self._series.get(key)
        if found is None:
            labels = (_VERBS.get(verb, verb.upper()), "", *key[1:-1], "apiserver")
            found = self._requests.labels(*labels, str(code)), self._seconds.labels(*labels)
            self._series[key] = found
        counter, histogram = found
        counter.inc()
        histogram.observe(self._clock.monotonic() - start)


# Verb, group, version, resource, subresource, scope, code.
_Key = tuple[str, str, str, str, str, str, int]


def _key(verb: str, target: Target | None, resource: Resource | None, code: int) -> _Key:
    """What is told apart: of what clients can make up, only what is served."""
    if target is None or resource is None:
        return verb, "", "", "", "", "", code
    kind, subresource = resource.kind, target.subresource
    if subresource and resource.subresource(subresource) is None:
        subresource = ""
    return verb, kind.group, kind.version, kind.plural, subresource, _scope(target, verb), code


def _scope(target: Target, verb: str) -> str:
    if target.name or verb == "create":
        return "resource"
    return "namespace" if target.namespace else "cluster"
