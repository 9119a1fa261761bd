"""Open the log of a trace, or a table of nodes, and read it in its format."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from muster.simulation.scenario.logs.cells import parse_time
from muster.simulation.scenario.logs.formats import JOBS, NODES, JobTable
from muster.simulation.scenario.logs.history import read_history
from muster.simulation.scenario.logs.jobs import LeftOut, LogError, OrderedJobs, Role, TracedJob
from muster.simulation.scenario.logs.philly import read_philly
from muster.simulation.scenario.logs.table import NodeRow, check_columns, merge_columns, read_jobs, read_nodes
from muster.simulation.scenario.model import JobColumns, NodeColumns, NodePool, Trace
from muster.simulation.scenario.swf import read_log

Watch = Callable[[Path, Iterator[TracedJob]], Iterator[TracedJob]]

HISTORY, SWF = "history", "swf"
_CSV, _PHILLY = "csv", "philly"
# UTF-8, without the byte order mark that some programs write at the start of a file.
_ENCODING = "utf-8-sig"
# Formats with fixed columns.
FIXED_FORMATS = (SWF, HISTORY, _PHILLY)
JOB_FORMATS = (SWF, _CSV, HISTORY, _PHILLY, *JOBS)
NODE_FORMATS = (_CSV, *NODES)
# The format for each ending of a file name, before `.gz`. A file with another ending is read as SWF.
_ENDS = {".swf": SWF, ".csv": _CSV, ".tsv": _CSV, ".jsonl": HISTORY}
_PACKED = ".gz"
# The most characters of a line: a job of a history is one line.
_LONGEST = 1 << 24
# Formats in which the template says what a pod requests, for it stands for a processor of the log.
_BARE = JobTable(JobColumns())


def find_format(trace: Trace) -> str:
    """Return the format of a log: the format that the scenario names, or the one for the file's name."""
    return trace.format or _ENDS.get(Path(trace.file.lower().removesuffix(_PACKED)).suffix, SWF)


def says_requests(trace: Trace) -> bool:
    """Return whether a log records the requests of pods, so that its jobs need no template."""
    format = find_format(trace)
    if format == SWF:
        return False
    return format != _CSV or trace.columns.requests is not None


def find_columns(trace: Trace) -> JobColumns | None:
    """Return the columns of a table of jobs: the columns of its format, overridden by columns of the trace.

    Returns None if the log is not a table.
    """
    format = find_format(trace)
    if format in FIXED_FORMATS:
        return None
    columns: JobColumns = merge_columns(JOBS.get(format, _BARE).columns, trace.columns)
    return columns


def read_trace(file: Path, trace: Trace, watch: Watch = lambda _file, jobs: jobs) -> OrderedJobs:
    """Return the jobs of a log that ran, in order of submission.

    watch: wraps the iterator over the jobs of a file, for example to show the progress.
    Raises `LogError` if a line is invalid, and `ColumnError` if the columns of the trace are.
    """
    left_out = LeftOut()
    origin = None if trace.start is None else parse_time(str(trace.start))
    with _open(file) as stream:
        jobs = watch(file, _read(stream, trace, left_out))
        return OrderedJobs(jobs, left_out, origin)


def _open(file: Path) -> IO[str]:
    if file.suffix.lower() == _PACKED:
        return gzip.open(file, "rt", encoding=_ENCODING, errors="replace", newline="")
    return file.open(encoding=_ENCODING, errors="replace", newline="")


def _read(stream: IO[str], trace: Trace, left_out: LeftOut) -> Iterator[TracedJob]:
    format = find_format(trace)
    if format == _PHILLY:
        return read_philly(stream, left_out)
    lines = _split_lines(stream)
    if format == SWF:
        return _read_swf(lines, left_out)
    if format == HISTORY:
        return read_history(lines, left_out)
    columns = find_columns(trace)
    assert columns is not None, "other formats are read above"
    check_columns(columns, ("submit", "run_time"))
    table = JOBS.get(format, _BARE)
    header = trace.header or table.header
    optional = table.optional if trace.columns.requests is None else {}
    return read_jobs(
        lines, columns, header, trace.start, left_out, table.step_column, quoted=table.quoted, optional=optional
    )


def _split_lines(stream: IO[str]) -> Iterator[str]:
    """Yield the lines of a text. Raises `LogError` for a line that is too long for a log."""
    number = 0
    while line := stream.readline(_LONGEST):
        number += 1
        if len(line) == _LONGEST and line[-1] not in "\r\n":
            raise LogError(number, f"the line is longer than {_LONGEST >> 20} MiB: this is not a log of this format")
        yield line


def _read_swf(lines: Iterable[str], left_out: LeftOut) -> Iterator[TracedJob]:
    roles: dict[int, tuple[Role]] = {}
    for job in read_log(lines, left_out):
        role = roles.setdefault(job.processors, (Role(job.processors),))
        yield TracedJob(
            job.submit,
            job.run_time,
            str(job.number),
            role,
            job.limit or None,
            job.queue,
            job.user,
            series=job.executable,
        )


def read_node_table(file: Path, pool: NodePool) -> list[NodeRow]:
    """Return the nodes of a table.

    Raises `LogError` if a line is invalid or repeats a name, and `ColumnError` if the pool defines no column for the
    name or the capacity, or gives a column an invalid unit.
    """
    columns = merge_columns(NODES.get(pool.format, NodeColumns()), pool.columns)
    check_columns(columns, ("name", "allocatable"))
    with _open(file) as stream:
        rows, lines = [], dict[str, int]()
        for row in read_nodes(_split_lines(stream), columns, pool.header):
            if row.name in lines:
                raise LogError(row.line, f"node {row.name} is that of line {lines[row.name]}, too")
            lines[row.name] = row.line
            rows.append(row)
        return rows
