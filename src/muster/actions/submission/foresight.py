"""Decide whether a submitted job can ever start, and whether it leaves room for others."""

from muster.actions.server.session import Session
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.insight.forecasts.never import find_ask, judge_ask
from muster.insight.forecasts.sweepshare import describe_queue_use
from muster.insight.jobs.state import NeverVerdict
from muster.insight.reader.lists import Lists
from muster.insight.reader.room import survey_room
from muster.insight.record import JobRecord


async def predict_start(session: Session, job: JobRecord) -> NeverVerdict:
    """Return the verdict whether the job can never start, or waits for nodes, from what the user may see."""
    queue = job.metadata.labels.get(QUEUE_NAME_LABEL, "")
    return judge_ask(
        find_ask(job), await survey_room(Lists(session.client), session.namespace), job.metadata.namespace, queue
    )


async def foresee_queue_use(session: Session, sweep: JobRecord) -> str:
    """Return a sentence that a sweep without a limit will take its whole queue.

    Return "" if it will not, as far as the user may see.
    """
    queue = sweep.metadata.labels.get(QUEUE_NAME_LABEL, "")
    return (
        describe_queue_use(sweep, await survey_room(Lists(session.client), session.namespace), queue) if queue else ""
    )
