"""Read the job log of Microsoft's Philly clusters, `cluster_job_log`: one JSON array, read object by object.

The fields are documented in the README of github.com/msr-fiddle/philly-traces. A job has one pod for each server of its
last attempt that names servers, and its run time is the sum of all its attempts.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

import msgspec
from msgspec import Struct

from muster.simulation.scenario.logs.cells import is_missing, parse_time
from muster.simulation.scenario.logs.formats import GPU
from muster.simulation.scenario.logs.jobs import LeftOut, LogError, Role, TracedJob

_CHUNK = 1 << 20
# The maximum number of characters of one job.
_MOST = 1 << 26


class _Server(Struct):
    gpus: list[str] = []


class _Attempt(Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Server] = []


class _Job(Struct):
    jobid: str
    submitted_time: str
    attempts: list[_Attempt]
    vc: str = ""
    user: str = ""


def read_philly(stream: IO[str], left_out: LeftOut) -> Iterator[TracedJob]:
    """Yield the jobs of a Philly log that ran and have ended; `left_out` counts the others.

    Raises `LogError` if the text is not a Philly log.
    """
    for line, document in _split_array(stream):
        try:
            job = _read_job(msgspec.convert(document, _Job))
        except (msgspec.ValidationError, ValueError) as error:
            raise LogError(line, f"is no job: {error}") from None
        if job is None:
            left_out.jobs += 1
        else:
            yield job


def _read_job(job: _Job) -> TracedJob | None:
    spans = [
        parse_time(one.end_time) - parse_time(one.start_time)
        for one in job.attempts
        if one.start_time and one.end_time and not is_missing(one.start_time) and not is_missing(one.end_time)
    ]
    servers = next((one.detail for one in reversed(job.attempts) if any(each.gpus for each in one.detail)), None)
    if not spans or servers is None:
        return None
    if min(spans) < 0:
        raise ValueError("an attempt ends before it starts")
    counts = Counter(len(server.gpus) for server in servers if server.gpus)
    roles = tuple(Role(pods, ((GPU, gpus),)) for gpus, pods in sorted(counts.items(), reverse=True))
    return TracedJob(parse_time(job.submitted_time), sum(spans), job.jobid, roles, queue=job.vc, user=job.user)


def _split_array(stream: IO[str]) -> Iterator[tuple[int, Any]]:
    """Yield the elements of a JSON array, each with the number of its first line.

    The text is read in parts. Raises `LogError` if it is not an array.
    """
    decoder = json.JSONDecoder()
    text, at, line = "", 0, 1
    opened = ended = False
    while True:
        while at < len(text) and (text[at].isspace() or (opened and text[at] == ",")):
            line += text[at] == "\n"
            at += 1
        if at < len(text) and not opened:
            if text[at] != "[":
                raise LogError(line, "is no JSON array of jobs")
            opened, at = True, at + 1
            continue
        if at < len(text) and text[at] == "]":
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            if ended or len(text) - at > _MOST:
                raise LogError(line + text.count("\n", at, error.pos), error.msg) from None
            chunk = stream.read(_CHUNK)
            ended = not chunk
            text, at = text[at:] + chunk, 0
            continue
        yield line, value
        line += text.count("\n", at, end)
        at = end
