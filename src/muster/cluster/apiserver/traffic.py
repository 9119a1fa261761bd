"""Count requests and their durations, in metrics with upstream's names."""

from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.apiserver.request.requestinfo import Target
from muster.runtime.clock import Clock
from muster.runtime.metrics import Registry
from muster.runtime.tallies import Spread, Tally

# kube-apiserver's buckets, in seconds.
_BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip


# The labels of verbs whose label is not their name in upper case.
_VERBS = {"create": "POST", "update": "PUT"}
_NAMES = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")


class Traffic:
    """The metrics of responses and their durations. For a stream, the duration ends when the stream starts."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._clock = clock
        self._requests = registry.counter(
            "apiserver_request_total", "Requests by what they ask for and by HTTP code", (*_NAMES, "code")
        )
        self._seconds = registry.histogram(
            "apiserver_request_duration_seconds", "How long answers took", _NAMES, _BUCKETS
        )
        # Finding a series by its labels costs more than counting.
        self._series: dict[_Key, tuple[Tally, Spread]] = {}

    def count_answer(
        self, verb: str, target: Target | None, resource: Resource | None, code: int, start: float
    ) -> None:
        """Count a response and its duration until now.

        target: None for a path that belongs to no resource.
        resource: None if the target is not served.
        start: the monotonic time at which the request arrived.
        """
        key = _make_key(verb, target, resource, code)
        series = self._series.get(key)
        if series is None:
            labels = (_VERBS.get(verb, verb.upper()), "", *key[1:-1], "apiserver")
            series = self._requests.labels(*labels, str(code)), self._seconds.labels(*labels)
            self._series[key] = series
        answers, seconds = series
        answers.inc()
        seconds.observe(self._clock.monotonic() - start)


# The verb, group, version, resource, subresource, scope and code of a request.
_Key = tuple[str, str, str, str, str, str, int]


def _make_key(verb: str, target: Target | None, resource: Resource | None, code: int) -> _Key:
    """Return the labels of the metric that counts a request.

    For a path that the server does not serve, the labels of the resource are "", because a client could make up any
    number of names.
    """
    if target is None or resource is None:
        return verb, "", "", "", "", "", code
    kind, subresource = resource.kind, target.subresource
    if subresource and resource.subresource(subresource) is None:
        subresource = ""
    return verb, kind.group, kind.version, kind.plural, subresource, _find_scope(target, verb), code


def _find_scope(target: Target, verb: str) -> str:
    if target.name or verb == "create":
        return "resource"
    return "namespace" if target.namespace else "cluster"
