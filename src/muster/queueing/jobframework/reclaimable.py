"""Count the pods of a Job that will not be needed again; their quota is free before the Job ends (Kueue KEP-78).

An ended pod counts only while its index belongs to the Job. Indexes that a Job lost when it shrank (kubernetes
KEP-3715) do not count (kueue#13117).
"""

from muster.api.batch import Job
from muster.api.values.indexes import Indexes


def reclaimable_pods(job: Job) -> int:
    """Return how many of the Job's `parallelism` pods will not be needed again."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    completions = parallelism if job.spec.completions is None else job.spec.completions
    completed = _count_completed(job, completions)
    if parallelism <= 1 or not completed:
        return 0
    return max(0, parallelism - max(0, completions - completed))


def _count_completed(job: Job, completions: int) -> int:
    """Return the number of completions that need no more pods."""
    status = job.status
    if job.spec.completion_mode != "Indexed":
        return status.succeeded
    # A server of an older version may have listed an index both as failed and as completed; the union counts it once.
    texts = (status.completed_indexes, status.failed_indexes or "")
    completed, failed = (Indexes.parse(text, max(0, completions)) for text in texts)
    return len(completed | failed)
