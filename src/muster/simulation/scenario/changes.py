"""Turn the changes of a scenario into timed moments, in order. Pure.

Changes are validated here as far as the scenario alone allows it. Node failures are drawn here, because they depend on
the seed and the size of a pool, but not on the jobs.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from random import Random
from typing import Any

from msgspec import Struct

from muster.api.core import Node
from muster.simulation.scenario.draws import Draw, DrawError, draw_arrivals, make_draw, parse_moment, parse_seconds
from muster.simulation.scenario.model import ClusterChange, NodeChoice, NodePool, Outage, Scaling, Spec
from muster.simulation.scenario.reading import MOST_NODES, Reading
from muster.simulation.scenario.source import suggest

_WHEN = ("at", "arrivals")
ACTIONS = tuple(name for name in ClusterChange.__struct_fields__ if name not in _WHEN)
# Changes that may happen at random times. Others depend on the order in which they happen.
_AT_RANDOM = ("lose", "cordon", "drain", "restart")
_OUTAGES = ("lose", "cordon", "drain")


class Moment(Struct, frozen=True, gc=False):
    """A time at which something changes.

    at: the time, in seconds from the start.
    number: the number of the change in the scenario.
    lasts: the duration in seconds; None for no end.
    node: the node, for a `fail` change.
    returns: whether that node works again at this time, rather than failing.
    """

    at: float
    number: int
    lasts: float | None = None
    node: str = ""
    returns: bool = False


def name_nodes(pool: NodePool, count: int) -> list[str]:
    """Return the names of the nodes of a pool with this number of nodes."""
    return [f"{pool.name}-{number}" for number in range(count)]


def find_largest_size(spec: Spec, pool: NodePool) -> int:
    """Return the maximum number of nodes that a pool ever has."""
    return max(pool.count, *(one.scale.count for one in spec.changes if one.scale and one.scale.pool == pool.name), 0)


def find_action(change: ClusterChange) -> tuple[str, Any]:
    """Return the name of a validated change's only action, and the action."""
    return next((name, action) for name in ACTIONS if (action := getattr(change, name)) is not None)


def choose_nodes(choice: NodeChoice, nodes: Mapping[str, Node], pools: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of the nodes that match all set fields of a choice, in order.

    nodes: the existing nodes by name.
    pools: the names of the nodes of each pool, which may not exist yet.
    """
    names: Iterable[str] = pools[choice.pool] if choice.pool else choice.nodes or nodes
    allowed = set(choice.nodes) if choice.nodes else None
    labels = choice.labels.items()
    return [
        name
        for name in names
        if name in nodes and (allowed is None or name in allowed) and labels <= nodes[name].metadata.labels.items()
    ]


def list_times(change: ClusterChange, start: datetime) -> list[float]:
    """Return the times of a change with `at`, in seconds from the start, in order.

    start: the date and time of the scenario's start.

    Raises `DrawError` if a time is invalid.
    """
    assert change.at is not None, "the change has been checked"
    return sorted(parse_moment(at, start) for at in (change.at if isinstance(change.at, tuple) else (change.at,)))


def list_moments(reading: Reading, failing: Mapping[int, Sequence[str]]) -> Iterator[Moment]:
    """Yield the moments of all changes of nodes and of the engine, in order.

    failing: the names of the nodes of each `fail`, by the number of its change.
    """
    spec = reading.scenario.spec
    sources: list[Iterator[Moment]] = []
    for number, change in enumerate(spec.changes):
        random = Random(f"{spec.seed}/changes/{number}")
        if change.fail is not None:
            mean = parse_seconds(change.fail.mtbf), parse_seconds(change.fail.mttr)
            sources.append(draw_failures(failing[number], number, *mean, random))
        elif change.scale is not None or find_action(change)[0] in _AT_RANDOM:
            sources.append(_draw_moments(reading, number, change, random))
    return heapq.merge(*sources, key=attrgetter("at"))


def draw_failures(
    nodes: Sequence[str], number: int, uptime: float, downtime: float, random: Random
) -> Iterator[Moment]:
    """Yield when each of some nodes fails and works again, endlessly; both intervals are exponentially distributed.

    uptime, downtime: the mean intervals, in seconds.
    """
    heap = [(random.expovariate(1 / uptime), index, False) for index in range(len(nodes))]
    heapq.heapify(heap)
    while heap:
        at, index, returns = heap[0]
        yield Moment(at, number, None, nodes[index], returns)
        heapq.heapreplace(heap, (at + random.expovariate(1 / (uptime if returns else downtime)), index, not returns))


def _draw_moments(reading: Reading, number: int, change: ClusterChange, random: Random) -> Iterator[Moment]:
    action = find_action(change)[1]
    draw = None if isinstance(action, Scaling) else _make_span(reading, action.lasts)
    if change.arrivals is None:
        times: Iterator[float] = iter(list_times(change, reading.scenario.spec.start))
    else:
        times = draw_arrivals(change.arrivals, reading.scenario.spec.start, random)
    for at in times:
        yield Moment(at, number, None if draw is None else max(0.0, draw(random)))


def _make_span(reading: Reading, value: Any) -> Draw | None:
    return None if value is None else make_draw(value, parse_seconds, reading.samples)


# Validation.


def require_changes(reading: Reading) -> None:
    """Raise `ScenarioError` for the first change that does not define what it changes, or when."""
    for number, change in enumerate(reading.scenario.spec.changes):
        try:
            _require_change(reading, change)
        except DrawError as error:
            raise reading.source.error(f"spec.changes[{number}]{error.path}", error.why) from None


def _require_change(reading: Reading, change: ClusterChange) -> None:
    spec = reading.scenario.spec
    chosen = [name for name in ACTIONS if getattr(change, name) is not None]
    if len(chosen) != 1:
        raise DrawError("", f"exactly one of {', '.join(ACTIONS)} is needed")
    name, action = chosen[0], getattr(change, chosen[0])
    _require_time(reading, change, name)
    if isinstance(action, NodeChoice):
        _require_choice(spec, action, name)
    if isinstance(action, Outage) and action.count is not None and action.count < 1:
        raise DrawError(f".{name}.count", "must be positive")
    if name in (*_OUTAGES, "restart", "stop"):
        _try_span(reading, f".{name}.for", action.lasts)
    if change.fail is not None:
        for field in ("mtbf", "mttr"):
            _require_positive(f".fail.{field}", getattr(change.fail, field))
    if change.scale is not None:
        _require_pool(spec, ".scale.pool", change.scale.pool)
        if not 0 <= change.scale.count <= MOST_NODES:
            raise DrawError(".scale.count", f"must be from 0 to {MOST_NODES}")


def _require_time(reading: Reading, change: ClusterChange, name: str) -> None:
    """Raise `DrawError` unless the change says exactly once when it happens, in a way that suits its action.

    name: the action, such as `fail`, which needs no time.
    """
    spec = reading.scenario.spec
    if name == "fail":
        if change.at is not None or change.arrivals is not None:
            raise DrawError(".at" if change.at is not None else ".arrivals", "has no effect on fail, which never ends")
        if spec.until is None:
            raise DrawError(".fail", "spec.until is needed: nodes fail again and again")
        return
    if (change.at is None) == (change.arrivals is None):
        raise DrawError("", "exactly one of at and arrivals is needed")
    if change.at is not None:
        try:
            times = list_times(change, spec.start)
        except DrawError as error:
            raise DrawError(".at", error.why) from None
        if not times:
            raise DrawError(".at", "holds no time")
        return
    assert change.arrivals is not None, "one of them is set"
    if name not in _AT_RANDOM:
        raise DrawError(".arrivals", f"has no effect on {name}, which needs at")
    try:
        draw_arrivals(change.arrivals, spec.start, Random(0))
    except DrawError as error:
        raise DrawError(f".arrivals{error.path}", error.why) from None
    if change.arrivals.burst is None and spec.until is None:
        raise DrawError(".arrivals", "spec.until is needed: these never end")


def _require_choice(spec: Spec, choice: NodeChoice, name: str) -> None:
    if not (choice.nodes or choice.pool or choice.labels):
        raise DrawError(f".{name}", "nodes, pool or labels are needed: which nodes")
    if choice.pool:
        _require_pool(spec, f".{name}.pool", choice.pool)


def _require_pool(spec: Spec, path: str, name: str) -> None:
    known = [pool.name for pool in spec.nodes]
    if name not in known:
        raise DrawError(path, f"there is no pool {name}{suggest(name, known)}")


def _require_positive(path: str, text: str | float) -> None:
    try:
        seconds = parse_seconds(text)
    except DrawError as error:
        raise DrawError(path, error.why) from None
    if seconds == 0:
        raise DrawError(path, "must be positive")


def _try_span(reading: Reading, path: str, value: Any) -> None:
    try:
        _make_span(reading, value)
    except DrawError as error:
        raise DrawError(f"{path}{error.path}", error.why) from None


def require_nodes(reading: Reading, nodes: Mapping[str, Node], pools: Mapping[str, Sequence[str]]) -> None:
    """Raise `ScenarioError` for a change of nodes that never exist, or of more nodes than exist.

    nodes: all nodes that ever exist, by name.
    pools: the names of the nodes of each pool.
    """
    for number, change in enumerate(reading.scenario.spec.changes):
        name, action = find_action(change)
        if isinstance(action, NodeChoice):
            path = f"spec.changes[{number}].{name}"
            _require_known(reading, path, action, nodes)
            matching = len(choose_nodes(action, nodes, pools))
            if not matching:
                raise reading.source.error(path, "there are no such nodes")
            if isinstance(action, Outage) and action.count is not None and action.count > matching:
                raise reading.source.error(f"{path}.count", f"is more than the {matching} nodes that there are")


def _require_known(reading: Reading, path: str, choice: NodeChoice, nodes: Mapping[str, Node]) -> None:
    for number, name in enumerate(choice.nodes):
        if name not in nodes:
            raise reading.source.error(f"{path}.nodes[{number}]", f"there is no node {name}{suggest(name, nodes)}")
