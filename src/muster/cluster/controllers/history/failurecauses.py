"""Explain why a job failed, in the words of `muster ps`, from the objects in the informers."""

from muster.api.batch import JOB, Job
from muster.api.core import POD
from muster.api.jobset import JobSet
from muster.cluster.controllers.history.runs import BY_JOB, BY_OWNER, job_key, owner_keys
from muster.insight.jobs.failures import explain_failure
from muster.insight.record import record_of
from muster.runtime.control.manager import Manager
from muster.runtime.objects import own_key


class FailureCauses:
    """The explainer of failed jobs, which reads the informers of a manager."""

    def __init__(self, manager: Manager) -> None:
        self._jobs = manager.informer(JOB, indexes={BY_OWNER: owner_keys})
        self._pods = manager.informer(POD, indexes={BY_JOB: job_key})

    def explain(self, job: Job | JobSet) -> str:
        """Return which worker of a failed job failed first and how, or which limit was reached; "" without failure."""
        key = own_key(job.metadata)
        record = record_of(job, self._jobs.by(BY_OWNER, key))
        if record.end is None or record.end.word != "Failed":
            return ""
        return explain_failure(record, record.end, self._pods.by(BY_JOB, key))
