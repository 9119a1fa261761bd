"""The output of a job: a page that follows it, the stream for that page, and the whole output as a file."""

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from muster.actions.following.excerpt import Excerpt
from muster.actions.jobs.lookup import get_job
from muster.api.status import ApiError
from muster.api.values.patterns import PatternError, line_pattern
from muster.cluster.apiserver.answers import Stream
from muster.dashboard.jobs.output import follow_lines, follow_successor, read_last_lines, read_whole
from muster.dashboard.pages.identity import read_names
from muster.dashboard.visits import Download, Page, PageError, Visit, make_address
from muster.insight.jobs.state import parse_ranks
from muster.insight.jobs.trials import rank_of_trial
from muster.insight.record import JobRecord
from muster.insight.text import make_sentence

_BAD_REQUEST = 400
# The number of existing lines to show at first, and the minimum per worker if there are many workers.
_FIRST_LINES, _LEAST_LINES = 1_000, 20
# The maximum number of workers that are followed at the same time.
_MOST_WORKERS = 64
_FILTERS = ("rank", "index", "search")


async def view_output(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of a job's output page.

    With the query parameter `plain`, they contain the last lines, or all lines that match `search`, for browsers
    without scripts.

    Raises `PageError`, `ApiError`, `TransportError`.
    """
    job, only = await _read_job(visit), _read_filters(visit)
    excerpt, note = _choose(job, only)
    meta = job.metadata
    plain = bool(visit.query.get("plain"))
    base = ("jobs", meta.namespace, meta.name, "output")
    return {
        "name": meta.name,
        "namespace": meta.namespace,
        "only": only,
        "is_sweep": job.array is not None,
        "has_ranks": job.max_ranks > 1,
        "note": note,
        "stream": "" if plain else make_address(*base, "stream", **only),
        "download": make_address(*base, "download", rank=only["rank"], index=only["index"]),
        "plain": make_address(*base, plain="1", **only),
        "lines": await read_last_lines(visit.copy, job, excerpt) if plain else (),
    }


async def answer_stream(visit: Visit) -> Stream:
    """Respond with the lines as server-sent events; after a deletion of the job, with an event about its successor.

    Raises `PageError`, `ApiError`, `TransportError`.
    """
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    chunks: AsyncIterator[bytes]
    if deleted := visit.query.get("deleted", ""):
        with suppress(PageError):  # the job was deleted; a viewer who may not see it is refused
            await _read_job(visit)
        chunks = follow_successor(visit.viewer.client, *read_names(visit), deleted)
    else:
        job = await _read_job(visit)
        excerpt, _ = _choose(job, _read_filters(visit))
        chunks = follow_lines(visit.viewer.client, job, excerpt)
    return Stream(chunks, "text/event-stream", headers=headers, is_endless=True)


async def answer_download(visit: Visit) -> Stream:
    """Return the whole output of a job, or of the selected workers, as a file.

    Raises `PageError`, `ApiError`, `TransportError`.
    """
    job, only = await _read_job(visit), _read_filters(visit)
    ranks = _parse_workers(job, only)
    chosen = "".join(f"-{one}" for one in (only["rank"] or only["index"],) if one).replace(",", "_")
    headers = {"content-disposition": f'attachment; filename="{job.metadata.name}{chosen}.log"'}
    marked = len(ranks) != 1 and job.max_ranks > 1
    chunks = read_whole(visit.copy, job, Excerpt(ranks), marked=marked)
    return Stream(chunks, "text/plain; charset=utf-8", headers=headers)


async def _read_job(visit: Visit) -> JobRecord:
    """Return the job that the address names. Raises `PageError` if it does not exist; `ApiError`, `TransportError`."""
    namespace, name = read_names(visit)
    try:
        return await get_job(visit.viewer.client, name, namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        said = f"{error}; what is known of a job that is gone: muster why {name} --history"
        raise PageError("There is no output", make_sentence(said)) from None


def _read_filters(visit: Visit) -> dict[str, str]:
    return {name: visit.query.get(name, "").strip() for name in _FILTERS}


def _choose(job: JobRecord, only: Mapping[str, str]) -> tuple[Excerpt, str]:
    """Return the output to show, and a remark about the workers and lines that are left out, or "".

    Raises `PageError` if the address names no existing worker or no valid pattern.
    """
    ranks, notes = _parse_workers(job, only), []
    try:
        matches = line_pattern(only["search"]) if only["search"] else None
    except PatternError as error:
        raise PageError("This is no pattern to search for", make_sentence(f"{error}"), _BAD_REQUEST) from None
    workers = len(ranks) or job.max_ranks
    if workers > _MOST_WORKERS and job.indexed:
        ranks = frozenset(sorted(ranks or map(str, range(_MOST_WORKERS)), key=int)[:_MOST_WORKERS])
        notes.append(f"These are {_MOST_WORKERS} of {workers} workers; choose others by their ranks.")
        workers = _MOST_WORKERS
    tail = None
    if matches is None:
        tail = max(_FIRST_LINES // max(workers, 1), _LEAST_LINES)
        whose = " of each worker" if workers > 1 else ""
        notes.append(f"The page begins with the last {tail:,} lines{whose}; the download has all.")
    return Excerpt(ranks, tail, matches=matches), " ".join(notes)


def _parse_workers(job: JobRecord, only: Mapping[str, str]) -> frozenset[str]:
    """Return the ranks that the address names; empty for all workers.

    Raises `PageError` if there is no such worker.
    """
    try:
        if only["index"]:
            return frozenset({rank_of_trial(job, only["index"])})
        return parse_ranks(job, only["rank"]) if only["rank"] else frozenset()
    except ValueError as error:
        raise PageError("There is no such worker", f"{error}", _BAD_REQUEST) from None


ROUTES = (
    Page("/jobs/{namespace}/{name}/output", "jobs/output.html", view_output, "jobs", live=False),
    Download("/jobs/{namespace}/{name}/output/stream", answer_stream),
    Download("/jobs/{namespace}/{name}/output/download", answer_download),
)
