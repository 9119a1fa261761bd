"""Pods of a Job that will never be needed again: their quota is given back before the Job ends (KEP-78).

What ended counts only while it is part of the Job: indexes that a Job lost when it was shrunk (KEP-3715) are not in the
way of what is left (kueue#13117).
"""

from muster.api.batch import Job
from muster.api.values.indexes import Indexes


def reclaimable_pods(job: Job) -> int:
    """How many of the pods that the Job was counted with (its parallelism) have nothing left to do."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    completions = parallelism if job.spec.completions is None else job.spec.completions
    done = _done(job, completions)
    if parallelism <= 1 or not done:
        return 0
    return max(0, parallelism - max(0, completions - done))


def _done(job: Job, completions: int) -> int:
    """How many completions there will be no more pods for."""
    status = job.status
    if job.spec.completion_mode != "Indexed":
        return status.succeeded
    # A failed index may be completed, too, where an old server let both be written; it is one pod less.
    texts = (status.completed_indexes, status.failed_indexes or "")
    completed, failed = (Indexes.parse(text, max(0, completions)) for text in texts)
    return len(completed | failed)
