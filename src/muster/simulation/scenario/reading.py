"""Read a scenario and the manifests that belong to it from files. Errors name the file, line and field."""

import gzip
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from muster.api.values.manifests import Manifest, ManifestError, parse_manifests
from muster.insight.snapshot import API_VERSION as SNAPSHOT_VERSION
from muster.insight.snapshot import KIND as SNAPSHOT
from muster.simulation.scenario.draws import PARSERS, DrawError, parse_moment, parse_seconds, parse_value
from muster.simulation.scenario.fieldnames import list_fields
from muster.simulation.scenario.logs.cells import parse_time
from muster.simulation.scenario.logs.jobs import FormError, LogError, OrderedJobs
from muster.simulation.scenario.logs.opening import (
    FIXED_FORMATS,
    HISTORY,
    JOB_FORMATS,
    NODE_FORMATS,
    find_format,
    read_node_table,
    says_requests,
)
from muster.simulation.scenario.logs.shelf import LogShelf
from muster.simulation.scenario.logs.table import ColumnError, NodeRow
from muster.simulation.scenario.model import (
    API_VERSION,
    KIND,
    Distribution,
    JobColumns,
    NodeColumns,
    NodePool,
    Scenario,
    State,
    Trace,
    Value,
    Work,
)
from muster.simulation.scenario.overlays import (
    Overlay,
    OverlayError,
    locate_field,
    set_fields,
    set_in_manifests,
    vary_manifests,
    vary_scenario,
)
from muster.simulation.scenario.paths import list_pools
from muster.simulation.scenario.source import UNFILED, ScenarioError, Source, suggest
from muster.simulation.scenario.state import (
    ClusterState,
    StateError,
    name_object,
    omit_redefined,
    parse_state,
    read_state,
)

T = TypeVar("T")

# The name of the work that consists of the jobs of the state.
STATE_WORK = "state"
# The fields of work that a trace replaces, as spelled in a scenario.
_UNTRACED = {"run_time": "runTime", "limit": "limit", "size": "size", "priority": "priority", "startup": "startup"}
# The errors of reading a file. ValueError: its path contains a null byte.
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error)
# The maximum number of nodes in a pool. More are probably a mistake, and would fill the memory.
MOST_NODES = 200_000
_SUFFIXES = (".yaml", ".yml", ".json")
# The size in bytes above which a file without a scenario is not parsed for its errors: it is a log or a snapshot.
_MOST_PARSED = 1 << 24
_AT = re.compile(r"(?P<why>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"contains unknown field `(.*)`")
_VARIANT = re.compile(r"[\w.-]{1,100}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


class Reading(Struct, frozen=True):
    """A scenario with everything that it refers to.

    samples: the values in the files of empirical distributions, by file.
    logs: the jobs of traces, by the name of the work.
    tables: the tables of nodes, by the index of their pool.
    state: the cluster state from which the scenario starts, without the objects that the manifests replace.
    """

    scenario: Scenario
    source: Source
    manifests: tuple[Manifest, ...]
    samples: dict[str, tuple[float, ...]]
    logs: dict[str, OrderedJobs]
    tables: dict[int, list[NodeRow]] = {}
    state: ClusterState | None = None


class _File(Struct, frozen=True):
    """A file that belongs to a scenario.

    manifests: the manifests in the file; None if it has not been parsed.
    """

    name: str
    text: bytes
    manifests: list[Manifest] | None


class LoadedScenario(Struct, frozen=True):
    """A scenario as its files have it, without variants applied. The files may be pipes, which can be read only once.

    document: the document of the scenario.
    source: the text of the document.
    files: all files in the folder of the scenario, or its own file.
    """

    document: dict[str, Any]
    source: Source
    files: Sequence[_File]


# The source of a scenario: a file or a folder, its text, or a scenario whose files were read.
Origin: TypeAlias = str | bytes | LoadedScenario


def read_scenario(origin: Origin, overlays: Sequence[Overlay] = (), shelf: LogShelf | None = None) -> Reading:
    """Read a scenario, with overlays applied, and all files that it refers to.

    shelf: the cache of logs that readings share; None for no sharing.
    Raises `ScenarioError` if a file cannot be read, or if the scenario is invalid.
    """
    loaded = load_scenario(origin)
    document, source, folder = loaded.document, loaded.source, loaded.source.folder
    try:
        varied, remaining = set_fields(vary_scenario(document, overlays) if overlays else document, overlays)
        if overlays:
            source = replace(source, locate_varied=partial(locate_field, overlays, varied))
        scenario = _convert(varied, source)
        state_file = folder / scenario.spec.state.file if isinstance(scenario.spec.state, State) else None
        state = None if state_file is None else _read_state(state_file, partial(source.error, "spec.state"))
        own = [*_list_manifests(loaded.files, document, state_file)]
        for number, each in enumerate(scenario.spec.manifests):
            own += read_manifests(folder / each, partial(source.error, f"spec.manifests[{number}]"))
        manifests, state = _vary_objects(own, state, remaining, list_pools(varied))
    except OverlayError as error:
        raise ScenarioError(str(error)) from None
    if state is not None:
        scenario = replace(scenario, spec=replace(scenario.spec, start=state.at))
    _require_time(scenario, source)
    return Reading(
        scenario,
        source,
        manifests,
        _read_samples(scenario, source, folder),
        _read_traces(scenario, source, folder, shelf or LogShelf()),
        read_tables(scenario, source),
        state,
    )


def _list_manifests(files: Iterable[_File], scenario: dict[str, Any], state_file: Path | None) -> Iterator[Manifest]:
    """Yield the manifests of files, without the document of the scenario, and without the file of its state.

    Other snapshots are left out, too, because variants may start from them. Raises `ScenarioError` if a file contains
    no manifests, or contains a snapshot although the scenario has no state.
    """
    skipped = None if state_file is None else state_file.resolve()
    for file in files:
        if Path(file.name).resolve() == skipped:
            continue
        for one in file.manifests or _parse_files([(file.name, file.text)])[0]:
            if (one.document["apiVersion"], one.document["kind"]) == (SNAPSHOT_VERSION, SNAPSHOT):
                if skipped is None:
                    raise ScenarioError(f"{one.where}: a snapshot has no effect unless spec.state names its file")
            elif one.document is not scenario:
                yield one


def _vary_objects(
    own: Sequence[Manifest], state: ClusterState | None, overlays: Sequence[Overlay], pools: Collection[str]
) -> tuple[tuple[Manifest, ...], ClusterState | None]:
    """Return the manifests of a scenario and the state from which it starts, with overlays applied to both.

    own: the manifests that the scenario names; the objects that they replace are removed from the state.
    overlays: the overlays, without settings of the scenario's fields.
    pools: the names that a path may use for its pools of nodes.
    Raises `OverlayError` if an overlay does not match.
    """
    redefined = {name_object(one.document) for one in own}
    kept = [] if state is None else omit_redefined(state, redefined)
    varied = set_in_manifests(vary_manifests([*kept, *own], overlays), overlays, pools)
    of_state = {name_object(one.document): one.document for one in kept}
    manifests = tuple(one for one in varied if name_object(one.document) not in of_state)
    if state is None:
        return manifests, None
    objects = {name: one for one in varied if (name := name_object(one.document)) in of_state}
    originals = {name: of_state[name] for name, one in objects.items() if one.document is not of_state[name]}
    return manifests, replace(state, objects=tuple(objects.values()), originals=originals)


def parse_scenario(loaded: LoadedScenario) -> Scenario:
    """Return a scenario without variants applied, without reading the files that it names.

    Raises `ScenarioError` if the scenario cannot be read, or is invalid.
    """
    return _convert(loaded.document, loaded.source)


def load_scenario(origin: Origin, name: str = UNFILED) -> LoadedScenario:
    """Read the files of a scenario, without the files that it names.

    name: the name of a text in errors.

    Only files that mention a scenario are parsed, because the folder may contain a large snapshot. Raises
    `ScenarioError` if a file cannot be read, or if there is not exactly one scenario.
    """
    if isinstance(origin, LoadedScenario):
        return origin
    if isinstance(origin, bytes):
        texts = [(name, origin)]
    else:
        name, texts = origin, [(str(file), _read_bytes(file)) for file in _list_files(Path(origin))]
    files: list[_File] = []
    scenarios: list[tuple[dict[str, Any], Source]] = []
    for file, text in texts:
        manifests, sources = _parse_files([(file, text)]) if KIND.encode() in text else (None, [])
        files.append(_File(file, text, manifests))
        scenarios += [
            (one.document, source)
            for one, source in zip(manifests or (), sources, strict=True)
            if one.document["kind"] == KIND
        ]
    if not scenarios:  # a file may be broken before the word
        _parse_files((file, text) for file, text in texts if len(text) <= _MOST_PARSED)
    if len(scenarios) != 1:
        raise ScenarioError(f"{name}: holds {len(scenarios)} objects of kind {KIND} instead of one")
    return LoadedScenario(*scenarios[0], files)


def _list_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if not (files := sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)):
        raise ScenarioError(f"{path}: holds no {', '.join(f'*{suffix}' for suffix in _SUFFIXES)}")
    return files


def read_manifests(file: Path, refuse: Callable[[str], ScenarioError]) -> list[Manifest]:
    """Return the manifests of a file. refuse: makes the error of an unreadable file.

    Raises `ScenarioError` if the file cannot be read, or holds no manifests.
    """
    return _parse_files([(str(file), _read_bytes(file, refuse))])[0]


def _parse_files(files: Iterable[tuple[str, bytes]]) -> tuple[list[Manifest], list[Source]]:
    manifests, sources = [], []
    for file, text in files:
        for one in parse_manifests(text, file):
            if isinstance(one, ManifestError):
                raise ScenarioError(str(one))
            manifests.append(one)
            sources.append(Source(file, text, one.lines_above, _find_folder(file)))
    return manifests, sources


def _find_folder(file: str) -> Path:
    """Return the folder of the files that a scenario names: the working directory for a pipe and the standard input."""
    folder = Path(file).parent
    # /dev/stdin and /dev/fd/3 are regular files if the shell redirected them from one
    of_process = folder.resolve() in (Path("/dev"), Path("/dev/fd").resolve())
    return folder if Path(file).is_file() and not of_process else Path()


def _read_bytes(file: Path, refuse: Callable[[str], ScenarioError] = ScenarioError) -> bytes:
    try:
        if file.is_char_device():  # it may never end
            raise refuse(f"{file}: is a device, not a file")
        data = file.read_bytes()
        return gzip.decompress(data) if file.suffix == ".gz" else data
    except _UNREADABLE as error:
        raise refuse(_describe_failure(file, error)) from None


def _describe_failure(file: Path, error: Exception) -> str:
    if isinstance(error, gzip.BadGzipFile):
        return f"{file}: is no gzip file, or other data follow its end"
    return f"{file}: {getattr(error, 'strerror', None) or error}"


def _convert(document: dict[str, Any], source: Source) -> Scenario:
    if document["apiVersion"] != API_VERSION:
        raise source.error("apiVersion", f"is {document['apiVersion']} instead of {API_VERSION}")
    try:
        scenario = msgspec.convert(document, Scenario)
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        assert found is not None, "the path is optional"
        unknown = _UNKNOWN.search(found["why"])
        if unknown is None:
            raise source.error(found["path"] or "", found["why"]) from None
        path = ".".join(filter(None, (found["path"], unknown[1])))
        hint = suggest(unknown[1], list_fields(found["path"] or ""))
        raise source.error(path, f"there is no such field{hint}") from None
    scenario = _resolve_state(_resolve_histories(scenario, source), source, document)
    _require_sources(scenario, source)
    require_pools(scenario, source)
    _require_variants(scenario, source)
    return scenario


def _resolve_histories(scenario: Scenario, source: Source) -> Scenario:
    """Return a scenario in which each `history` field is replaced by an equivalent `trace`.

    Raises `ScenarioError` if a work has both.
    """
    works = []
    for number, work in enumerate(scenario.spec.work):
        if work.history is None:
            works.append(work)
            continue
        if work.trace is not None:
            raise source.error(f"spec.work[{number}]", "exactly one of trace and history is needed")
        trace = Trace(file=work.history, format=HISTORY)
        works.append(replace(work, name=work.name or HISTORY, trace=trace, history=None))
    return replace(scenario, spec=replace(scenario.spec, work=tuple(works)))


def _resolve_state(scenario: Scenario, source: Source, document: dict[str, Any]) -> Scenario:
    """Return a scenario whose state, if it has one, is a `State` instead of a file name.

    Raises `ScenarioError` if a field of the scenario contradicts a state.
    """
    state = scenario.spec.state
    if state is None:
        return scenario
    if "start" in document["spec"]:
        raise source.error("spec.start", "has no effect: the simulation starts at the time of the state")
    if any(work.name == STATE_WORK for work in scenario.spec.work):
        raise source.error("spec.work", f"no work may be called {STATE_WORK}, as the jobs of the state are")
    resolved = State(file=state) if isinstance(state, str) else state
    return replace(scenario, spec=replace(scenario.spec, state=resolved))


def _require_time(scenario: Scenario, source: Source) -> None:
    if scenario.spec.until is None:
        return
    try:
        parse_moment(scenario.spec.until, scenario.spec.start)
    except DrawError as error:
        raise source.error("spec.until", error.why) from None


def _require_sources(scenario: Scenario, source: Source) -> None:
    """Raise `ScenarioError` for work with missing, useless or contradicting fields, and for sources with equal names.

    Each source needs a name, and exactly one definition of its arrivals, its requests and its run times.
    """
    names: set[str] = set()
    for number, work in enumerate(scenario.spec.work):
        path = f"spec.work[{number}]"
        if not work.name:
            raise source.error(path, "name is needed")
        if work.name in names:
            raise source.error(f"{path}.name", f"{work.name} is the name of other work, too")
        names.add(work.name)
        if (work.trace is None) == (work.arrivals is None):
            raise source.error(path, "exactly one of arrivals, trace and history is needed")
        if work.trace is not None:
            _require_trace(work.trace, source, f"{path}.trace")
        if not work.template and (work.trace is None or not says_requests(work.trace)):
            raise source.error(path, _describe_need_of_template(work.trace))
        if work.trace is None and work.run_time is None:
            raise source.error(path, "runTime is needed, except for a trace")
        if work.trace is not None and (field := next(filter(partial(_is_set, work), _UNTRACED), None)) is not None:
            raise source.error(f"{path}.{_UNTRACED[field]}", "has no effect on a trace, which says this itself")
        if work.count is not None and work.count < 0:
            raise source.error(f"{path}.count", "must not be negative")
        endless = work.arrivals is not None and work.arrivals.burst is None
        if endless and work.count is None and scenario.spec.until is None:
            raise source.error(path, "count is needed, unless spec.until ends the simulation")


def require_pools(scenario: Scenario, source: Source) -> None:
    """Raise `ScenarioError` for an incomplete or contradicting pool, an invalid size, or a duplicate name.

    A pool needs a name and a model of its nodes (a template or another Node), or a table in a known format.
    """
    pools: set[str] = set()
    for number, pool in enumerate(scenario.spec.nodes):
        _require_one_model(pool, source, f"spec.nodes[{number}]")
        if pool.file:
            _require_format(pool.format, NODE_FORMATS, source, f"spec.nodes[{number}].format")
            continue
        if not pool.name or not (pool.template or pool.like):
            raise source.error(
                f"spec.nodes[{number}]", "name and template or like are needed, or the file of a table of nodes"
            )
        if pool.name in pools:
            raise source.error(f"spec.nodes[{number}].name", f"{pool.name} is the name of another pool, too")
        pools.add(pool.name)
        if not 0 <= pool.count <= MOST_NODES:
            raise source.error(f"spec.nodes[{number}].count", f"must be from 0 to {MOST_NODES}")


def _require_one_model(pool: NodePool, source: Source, path: str) -> None:
    """Raise `ScenarioError` for a pool with `like` or a table that contradicts its other fields.

    path: the path of the pool.
    """
    if pool.file and pool.like:
        raise source.error(f"{path}.like", "has no effect: the table says what the nodes are")
    if pool.template and pool.like:
        raise source.error(f"{path}.template", "has no effect: the nodes are like another Node")


def _require_trace(trace: Trace, source: Source, path: str) -> None:
    format = find_format(trace)
    _require_format(format, JOB_FORMATS, source, f"{path}.format")
    if format in FIXED_FORMATS and (trace.header or trace.columns != JobColumns()):
        why = f"columns and header have no effect on the format {format}: a table needs `format: csv`"
        raise source.error(path, why)
    if not 0 < trace.speed < inf:
        raise source.error(f"{path}.speed", f"{trace.speed:g} is no speed: it must be positive")
    try:
        parse_time(str(trace.start or 0))
    except ValueError:
        raise source.error(f"{path}.start", f"{trace.start} is no number of seconds, date or time") from None


def _require_format(format: str, known: Sequence[str], source: Source, path: str) -> None:
    if format not in known:
        raise source.error(path, f"there is no format {format}{suggest(format, known)}")


def _require_variants(scenario: Scenario, source: Source) -> None:
    """Raise `ScenarioError` for variants with equal names, and for names that an assertion cannot spell."""
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


def _read_samples(scenario: Scenario, source: Source, folder: Path) -> dict[str, tuple[float, ...]]:
    """Return the values in the files of empirical distributions, by file. Raises `ScenarioError`."""
    samples = {}
    for path, value, parse in _list_drawn(scenario):
        if isinstance(value, Distribution) and value.empirical is not None:
            refuse = partial(source.error, f"{path}.empirical")
            samples[value.empirical] = _read_values(folder / value.empirical, parse, refuse)
    return samples


def _list_drawn(scenario: Scenario) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields that may be drawn: the path, the value, and the function that parses it."""
    spelled = dict(zip(Work.__struct_fields__, Work.__struct_encode_fields__, strict=True))
    for number, work in enumerate(scenario.spec.work):
        for name, parse in PARSERS.items():
            yield f"spec.work[{number}].{spelled[name]}", getattr(work, name), parse
    for number, change in enumerate(scenario.spec.changes):
        for name, outage in (("lose", change.lose), ("cordon", change.cordon), ("drain", change.drain)):
            if outage is not None:
                yield f"spec.changes[{number}].{name}.for", outage.lasts, parse_seconds
    for field, value in list_state_values(scenario).items():
        yield f"spec.state.{field}", value, parse_seconds


def list_state_values(scenario: Scenario) -> dict[str, Value | None]:
    """Return the values of a scenario's state that may be drawn, by field; empty without a `State`."""
    state = scenario.spec.state
    return {"remaining": state.remaining, "runTime": state.run_time} if isinstance(state, State) else {}


def _read_values(file: Path, parse: Any, refuse: Callable[[str], ScenarioError]) -> tuple[float, ...]:
    """Return the values of a file, one a line.

    refuse: makes the error of an unreadable file. Raises `ScenarioError`.
    """
    values = []
    for number, line in enumerate(_read_bytes(file, refuse).decode(errors="replace").splitlines(), 1):
        if text := line.strip():
            try:
                values.append(parse_value(float(text) if _is_number(text) else text, parse))
            except DrawError as error:
                raise ScenarioError(f"{file}:{number}: {error.why}") from None
    return tuple(values)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _read_state(file: Path, refuse: Callable[[str], ScenarioError]) -> ClusterState:
    text = _read_bytes(file, refuse)
    try:
        return read_state(parse_state(text), str(file))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ScenarioError(f"{file}:{line}: {error.problem}") from None
    except (StateError, msgspec.DecodeError, yaml.YAMLError) as error:
        raise ScenarioError(f"{file}: {error}") from None


def _read_traces(scenario: Scenario, source: Source, folder: Path, shelf: LogShelf) -> dict[str, OrderedJobs]:
    """Return the jobs of the logs of works, by the work's name.

    A log is read line by line, because a small compressed file may contain much text. Raises `ScenarioError`.
    """
    logs = {}
    for number, work in enumerate(scenario.spec.work):
        if work.trace is not None:
            file, path = folder / work.trace.file, f"spec.work[{number}].trace"
            logs[work.name] = _read_lines(
                partial(shelf.read, file, work.trace), file, source, path, _describe_format(work.trace)
            )
    return logs


def read_tables(scenario: Scenario, source: Source) -> dict[int, list[NodeRow]]:
    """Return the tables of nodes, by the index of their pool. Raises `ScenarioError`."""
    tables = {}
    for number, pool in enumerate(scenario.spec.nodes):
        if pool.file:
            file = source.folder / pool.file
            hint = "" if pool.columns != NodeColumns() else f"; formats with columns are {', '.join(NODE_FORMATS[1:])}"
            tables[number] = _read_lines(
                partial(read_node_table, file, pool), file, source, f"spec.nodes[{number}]", hint
            )
    return tables


def _describe_need_of_template(trace: Trace | None) -> str:
    """Return why work without a template is invalid, given that its trace, if any, does not record pods' requests."""
    if trace is not None and find_format(trace) in FIXED_FORMATS:
        return f"template is needed: a log of this format does not say what pods request{_describe_format(trace)}"
    hint = "" if trace is None else _describe_format(trace)
    return f"template is needed, unless a trace says what pods request, in `columns.requests`{hint}"


def _describe_format(trace: Trace) -> str:
    """Return how a log was read, for an error, if the scenario does not set its format; otherwise ""."""
    if trace.format:
        return ""
    format = find_format(trace)
    others = ", ".join(one for one in JOB_FORMATS if one != format)
    return f"; without a format, the file is read as {format}: other formats are {others}"


def _read_lines(read: Callable[[], T], file: Path, source: Source, path: str, hint: str = "") -> T:
    """Return the result of `read`. Raises `ScenarioError`.

    hint: the end of errors about the file's format and columns.
    """
    try:
        return read()
    except LogError as error:
        of_form = hint if isinstance(error, FormError) else ""
        raise ScenarioError(f"{file}:{error.line}: {error.why}{of_form}") from None
    except ColumnError as error:
        raise source.error(".".join(filter(None, (path, "columns", error.field))), error.why + hint) from None
    except _UNREADABLE as error:
        raise source.error(f"{path}.file", _describe_failure(file, error)) from None
