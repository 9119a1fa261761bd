"""Read the worker clusters of a scenario. Each is a separate scenario with nodes and manifests, but without work."""

from collections.abc import Sequence
from functools import partial
from math import inf

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api.values.manifests import Manifest, ManifestError, parse_manifests
from muster.simulation.scenario.draws import DrawError, parse_moment, parse_seconds
from muster.simulation.scenario.model import Loss, Spec, WorkerCluster
from muster.simulation.scenario.reading import Reading, read_manifests, read_tables, require_pools
from muster.simulation.scenario.source import ScenarioError, find_line

# The maximum number of clusters; Kueue allows 20 in each MultiKueueConfig.
_MOST_CLUSTERS = 1000
# A loss that ends later than this, in seconds, has no end: simulations end before the year 10,000.
_FOREVER = 1e12


class WorkerReading(Struct, frozen=True):
    """One or several equal worker clusters.

    names: the names of the clusters.
    reading: their nodes and manifests.
    losses: when the connection to each is lost and restored, in seconds from the start; infinity for never.
    """

    names: Sequence[str]
    reading: Reading
    losses: Sequence[tuple[float, float]]


def read_workers(reading: Reading) -> list[WorkerReading]:
    """Return the worker clusters of a scenario.

    Raises `ScenarioError` if two clusters have the same name, or if a value or a manifest is invalid.
    """
    workers: list[WorkerReading] = []
    seen: set[str] = set()
    for number, cluster in enumerate(reading.scenario.spec.clusters):
        path = f"spec.clusters[{number}]"
        if cluster.count is not None and not 0 < cluster.count <= _MOST_CLUSTERS:
            raise reading.source.error(f"{path}.count", f"must be from 1 to {_MOST_CLUSTERS}")
        names = list_names(cluster)
        if (name := next((name for name in names if name in seen), None)) is not None:
            raise reading.source.error(f"{path}.name", f"{name} is the name of another cluster, too")
        seen.update(names)
        workers.append(WorkerReading(names, _read_worker(reading, path, cluster), _read_losses(reading, path, cluster)))
    return workers


def list_names(cluster: WorkerCluster) -> list[str]:
    """Return the names of a worker cluster, or of several equal ones."""
    return [cluster.name] if cluster.count is None else [f"{cluster.name}-{index}" for index in range(cluster.count)]


def _read_worker(reading: Reading, path: str, cluster: WorkerCluster) -> Reading:
    whole = reading.scenario
    spec = Spec(seed=whole.spec.seed, start=whole.spec.start, nodes=cluster.nodes)
    scenario, source = replace(whole, spec=spec), replace(reading.source, spec=path)
    require_pools(scenario, source)
    manifests = tuple(_read_manifests(reading, path, cluster))
    return Reading(scenario, source, manifests, {}, {}, read_tables(scenario, source))


def _read_manifests(reading: Reading, path: str, cluster: WorkerCluster) -> list[Manifest]:
    source, manifests = reading.source, []
    for number, one in enumerate(cluster.manifests):
        if isinstance(one, str):
            refuse = partial(source.error, f"{path}.manifests[{number}]")
            manifests += read_manifests(source.folder / one, refuse)
            continue
        line = find_line(source.text, source.lines_above, f"{path}.manifests[{number}]")
        for parsed in parse_manifests(msgspec.json.encode(one), f"{source.file}:{line}"):
            if isinstance(parsed, ManifestError):
                raise ScenarioError(str(parsed))
            manifests.append(parsed)
    return manifests


def _read_losses(reading: Reading, path: str, cluster: WorkerCluster) -> list[tuple[float, float]]:
    losses: list[tuple[float, float]] = []
    for number, loss in enumerate(cluster.lost):
        at, lasts = _read_time(reading, f"{path}.lost[{number}]", loss)
        if any(begin < at + lasts and at < end for begin, end in losses):
            raise reading.source.error(f"{path}.lost[{number}]", "overlaps with another loss of the cluster")
        losses.append((at, at + lasts if at + lasts < _FOREVER else inf))
    return losses


def _read_time(reading: Reading, path: str, loss: Loss) -> tuple[float, float]:
    field = "at"
    try:
        at = parse_moment(loss.at, reading.scenario.spec.start)
        field = "for"
        return at, inf if loss.lasts is None else parse_seconds(loss.lasts)
    except DrawError as error:
        raise reading.source.error(f"{path}.{field}", error.why) from None
