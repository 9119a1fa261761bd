"""Read a scenario and the manifests that belong to it from files, and name the file, line and field of each error."""

import gzip
import re
import zlib
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from muster.api.values.manifests import Manifest, ManifestError, parse_manifests
from muster.simulation.scenario.draws import DrawError, parse_number, parse_seconds
from muster.simulation.scenario.model import API_VERSION, KIND, Distribution, Scenario, Work
from muster.simulation.scenario.overlays import (
    Overlay,
    OverlayError,
    apply_settings,
    join_contexts,
    vary_manifests,
    vary_scenario,
)
from muster.simulation.scenario.swf import LogError, LoggedJob, read_log

# The fields of work that a trace takes the place of, and how a scenario spells them.
_UNTRACED = {"run_time": "runTime", "limit": "limit", "size": "size", "priority": "priority"}
# What stands for the file of a scenario that comes from no file.
UNFILED = "<scenario>"
# The errors of reading a file. ValueError: its path holds a null byte.
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error)
# More nodes in a pool are a mistake, and would fill the memory.
_MOST_NODES = 200_000
_SUFFIXES = (".yaml", ".yml", ".json")
_AT = re.compile(r"(?P<why>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"contains unknown field `(.*)`")
_VARIANT = re.compile(r"[\w.-]{1,100}")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class ScenarioError(Exception):
    """A scenario that cannot be simulated; the message names the file, the line and the field."""


class Reading(Struct, frozen=True):
    """A scenario with all that it refers to.

    samples: the values in the files of empirical distributions, by file. logs: the jobs of traces, by file.
    """

    scenario: Scenario
    source: "Source"
    manifests: tuple[Manifest, ...]
    samples: dict[str, tuple[float, ...]]
    logs: dict[str, tuple[LoggedJob, ...]]


class Source(Struct, frozen=True):
    """The text of a scenario, to find the line of a field.

    lines_above: how many lines come before its document. variant: where the user wrote what is different in this
    variant: its errors begin with that, because the field may have no line.
    """

    file: str
    text: bytes
    lines_above: int
    variant: str = ""

    def error(self, path: str, why: str) -> ScenarioError:
        """Return the error of a field."""
        if self.variant or self.file == UNFILED:
            return ScenarioError(": ".join(filter(None, (self.variant or self.file, path, why))))
        return ScenarioError(f"{self.locate(path)}: {why}")

    def locate(self, path: str) -> str:
        """Return the file, the line and the path of a field."""
        line = find_line(self.text, self.lines_above, path)
        return ": ".join(filter(None, (f"{self.file}:{line}", path)))


def read_scenario(origin: str | bytes, overlays: Sequence[Overlay] = ()) -> Reading:
    """Read a scenario, and what overlays make of it.

    origin: a file or a folder, or the text itself.

    Raises:
        ScenarioError: a file cannot be read, or does not say what it has to.
    """
    if isinstance(origin, bytes):
        name, (manifests, sources) = UNFILED, _parse_files([(UNFILED, origin)])
    else:
        name, (manifests, sources) = origin, _read_files(_list_files(Path(origin)))
    chosen = [(number, one) for number, one in enumerate(manifests) if one.document["kind"] == KIND]
    if len(chosen) != 1:
        raise ScenarioError(f"{name}: holds {len(chosen)} objects of kind {KIND} instead of one")
    number, found = chosen[0]
    source = replace(sources[number], variant=join_contexts(overlays))
    folder = Path(source.file).parent
    try:
        document = vary_scenario(found.document, overlays)
        scenario = _convert(document, source)
        more, _ = _read_files([folder / each for each in scenario.spec.manifests])
        others = vary_manifests([one for one in manifests if one is not found] + more, overlays)
        document, others = apply_settings(document, others, overlays)
    except OverlayError as error:
        raise ScenarioError(str(error)) from None
    scenario = _convert(document, source)
    return Reading(
        scenario,
        source,
        tuple(others),
        {file: _read_values(folder / file, parse) for file, parse in _list_samples(scenario)},
        {work.trace.file: _read_trace(folder / work.trace.file) for work in scenario.spec.work if work.trace},
    )


def _list_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if not (files := sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)):
        raise ScenarioError(f"{path}: holds no {', '.join(f'*{suffix}' for suffix in _SUFFIXES)}")
    return files


def _read_files(files: Iterable[Path]) -> tuple[list[Manifest], list[Source]]:
    return _parse_files((str(file), _read_bytes(file)) for file in files)


def _parse_files(files: Iterable[tuple[str, bytes]]) -> tuple[list[Manifest], list[Source]]:
    manifests, sources = [], []
    for file, text in files:
        for one in parse_manifests(text, file):
            if isinstance(one, ManifestError):
                raise ScenarioError(str(one))
            manifests.append(one)
            sources.append(Source(file, text, one.lines_above))
    return manifests, sources


def _read_bytes(file: Path) -> bytes:
    try:
        data = file.read_bytes()
        return gzip.decompress(data) if file.suffix == ".gz" else data
    except _UNREADABLE as error:
        raise _refuse_file(file, error) from None


def _refuse_file(file: Path, error: Exception) -> ScenarioError:
    return ScenarioError(f"{file}: {getattr(error, 'strerror', None) or error}")


def _convert(document: dict[str, Any], source: Source) -> Scenario:
    if document["apiVersion"] != API_VERSION:
        raise source.error("apiVersion", f"is {document['apiVersion']} instead of {API_VERSION}")
    try:
        scenario = msgspec.convert(document, Scenario)
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        assert found is not None, "the path is optional"
        unknown = _UNKNOWN.search(found["why"])
        path = ".".join(filter(None, (found["path"], unknown and unknown[1])))
        raise source.error(path, "there is no such field" if unknown else found["why"]) from None
    _require_time(scenario, source)
    _require_sources(scenario, source)
    _require_pools(scenario, source)
    _require_variants(scenario, source)
    return scenario


def _require_time(scenario: Scenario, source: Source) -> None:
    if scenario.spec.until is None:
        return
    try:
        parse_seconds(scenario.spec.until)
    except DrawError as error:
        raise source.error("spec.until", error.why) from None


def _require_sources(scenario: Scenario, source: Source) -> None:
    """Refuse work that does not say when it comes or how long it runs, and two sources of one name."""
    names: set[str] = set()
    for number, work in enumerate(scenario.spec.work):
        path = f"spec.work[{number}]"
        if work.name in names:
            raise source.error(f"{path}.name", f"{work.name} is the name of other work, too")
        names.add(work.name)
        if (work.trace is None) == (work.arrivals is None):
            raise source.error(path, "exactly one of arrivals and trace is needed")
        if work.trace is None and work.run_time is None:
            raise source.error(path, "runTime is needed, except for a trace")
        if work.trace is not None and (field := next(filter(partial(_is_set, work), _UNTRACED), None)) is not None:
            raise source.error(f"{path}.{_UNTRACED[field]}", "has no effect on a trace, which says this itself")
        if work.count is not None and work.count < 0:
            raise source.error(f"{path}.count", "must not be negative")
        endless = work.arrivals is not None and work.arrivals.burst is None
        if endless and work.count is None and scenario.spec.until is None:
            raise source.error(path, "count is needed, unless spec.until ends the simulation")


def _require_pools(scenario: Scenario, source: Source) -> None:
    """Refuse a pool that cannot have so many nodes, and two pools of one name."""
    pools: set[str] = set()
    for number, pool in enumerate(scenario.spec.nodes):
        if pool.name in pools:
            raise source.error(f"spec.nodes[{number}].name", f"{pool.name} is the name of another pool, too")
        pools.add(pool.name)
        if not 0 <= pool.count <= _MOST_NODES:
            raise source.error(f"spec.nodes[{number}].count", f"must be from 0 to {_MOST_NODES}")


def _require_variants(scenario: Scenario, source: Source) -> None:
    """Refuse two variants of one name, and names that an assertion cannot spell."""
    names = {scenario.metadata.name}
    for number, variant in enumerate(scenario.spec.variants):
        path = f"spec.variants[{number}].name"
        if not _VARIANT.fullmatch(variant.name):
            raise source.error(path, f"{variant.name!r} is no name: letters, digits and . _ - make one")
        if variant.name in names:
            other = "the scenario" if variant.name == scenario.metadata.name else "another variant"
            raise source.error(path, f"{variant.name} is the name of {other}, too")
        names.add(variant.name)


def _is_set(work: Work, field: str) -> bool:
    return getattr(work, field) is not None


def _list_samples(scenario: Scenario) -> list[tuple[str, Any]]:
    """Return the files of empirical distributions, each with the function that parses its lines."""
    return [
        (value.empirical, parse)
        for work in scenario.spec.work
        for value, parse in list_values(work)
        if isinstance(value, Distribution) and value.empirical is not None
    ]


def list_values(work: Work) -> Sequence[tuple[Any, Any]]:
    """Return the values of work that may be drawn, each with the function that parses it."""
    times = ((value, parse_seconds) for value in (work.run_time, work.limit))
    return [*times, *((value, parse_number) for value in (work.size, work.priority))]


def _read_values(file: Path, parse: Any) -> tuple[float, ...]:
    values = []
    for number, line in enumerate(_read_bytes(file).decode(errors="replace").splitlines(), 1):
        if text := line.strip():
            try:
                values.append(parse(float(text) if _is_number(text) else text))
            except DrawError as error:
                raise ScenarioError(f"{file}:{number}: {error.why}") from None
    return tuple(values)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _read_trace(file: Path) -> tuple[LoggedJob, ...]:
    """Return the jobs of a log. The log is read line by line, because a small packed file may hold a lot of text."""
    unpack = gzip.open if file.suffix == ".gz" else open
    try:
        with unpack(file, "rt", encoding="utf-8", errors="replace") as stream:
            return tuple(read_log(stream))
    except LogError as error:
        raise ScenarioError(f"{file}:{error.line}: {error.why}") from None
    except _UNREADABLE as error:
        raise _refuse_file(file, error) from None


def find_line(text: bytes, lines_above: int, path: str) -> int:
    """Return the line, from 1, of a field of a document; of the nearest field above it that the document has.

    lines_above: how many lines of the text come before the document.
    """
    document = b"".join(text.splitlines(keepends=True)[lines_above:])
    node: Any = next(yaml.compose_all(document, yaml.CSafeLoader))
    line = node.start_mark.line
    for name, index in _STEP.findall(path):
        if isinstance(node, yaml.MappingNode):
            step = next(((key, value) for key, value in node.value if key.value == name), None)
            if step is None:
                break
            line, node = step[0].start_mark.line, step[1]
        elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line
        else:
            break
    return lines_above + int(line) + 1
