"""Whether what was submitted can start at all."""

from muster.actions.session import Session
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.insight.jobstate import Verdict
from muster.insight.never import ask_of, verdict
from muster.insight.reader.lists import Lists
from muster.insight.reader.room import survey
from muster.insight.record import JobRecord


async def foresee(session: Session, job: JobRecord) -> Verdict:
    """Whether the job can never start, or waits for nodes, as far as the user may see."""
    queue = job.metadata.labels.get(QUEUE_NAME_LABEL, "")
    return verdict(ask_of(job), await survey(Lists(session.client), session.namespace), job.metadata.namespace, queue)
