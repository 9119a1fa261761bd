"""Read the rows of the job list. The pages that one viewer has in one round share the result."""

from typing import Any, NamedTuple

from muster.dashboard.visits import Visit
from muster.insight.reader.jobs.rows import job_rows
from muster.insight.reader.visible import visible_job_rows


class JobRows(NamedTuple):
    """The rows of the job list.

    namespace: the namespace of the jobs; "" for all namespaces.
    unseen: sentences about what the viewer may not see.
    """

    rows: list[dict[str, Any]]
    namespace: str
    unseen: tuple[str, ...]


async def read_job_rows(visit: Visit, namespace: str = "") -> JobRows:
    """Return the rows of the jobs in a namespace; for "", in all namespaces or else in the viewer's own namespace.

    Pages that are rendered in the same round share the result. Raises `ApiError`.
    """
    return await visit.copy.share(("job rows", namespace), lambda: _read(visit, namespace))


async def _read(visit: Visit, namespace: str) -> JobRows:
    unseen: list[str] = []
    copy, own, now = visit.copy, visit.viewer.namespace, visit.now
    if namespace:
        rows = await job_rows(copy, namespace, now, unseen.append, copy.memo(namespace))
    else:
        rows, namespace = await visible_job_rows(copy, own, now, unseen.append, copy.memo)
    return JobRows(rows, namespace, tuple(unseen))
