"""Predict whether a submitted job can ever start, and whether it leaves quota for other jobs."""

from collections.abc import Callable

from muster.actions.server.session import Session
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.status import ApiError
from muster.insight.forecasts.never import find_ask, judge_ask
from muster.insight.forecasts.sweepshare import describe_queue_use
from muster.insight.jobs.state import OPEN, NeverVerdict
from muster.insight.reader.forecasts.room import survey_room
from muster.insight.reader.listing.lists import Lists
from muster.insight.record import JobRecord
from muster.runtime.transport import TransportError


async def predict_start(session: Session, job: JobRecord, warn: Callable[[str], None]) -> NeverVerdict:
    """Return the verdict whether the job can never start, or waits for nodes, from the objects that the user may read.

    After an error of the server, warn the user and return `OPEN`, because the job has been submitted anyway.
    """
    queue = job.metadata.labels.get(QUEUE_NAME_LABEL, "")
    try:
        room = await survey_room(Lists(session.client), session.namespace)
    except (ApiError, TransportError) as error:
        warn(f"it is not known whether {job.metadata.name} can start: {error}")
        return OPEN
    return judge_ask(find_ask(job), room, job.metadata.namespace, queue)


async def foresee_queue_use(session: Session, sweep: JobRecord) -> str:
    """Return a warning that a sweep will take its whole queue; "" if it will not, as far as the user may see."""
    queue = sweep.metadata.labels.get(QUEUE_NAME_LABEL, "")
    return (
        describe_queue_use(sweep, await survey_room(Lists(session.client), session.namespace), queue) if queue else ""
    )
