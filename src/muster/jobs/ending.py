"""Make the status patches that end a job as failed for a reason that its own controller cannot see. Pure."""

from datetime import datetime
from typing import Any

import msgspec

from muster.api.batch import Job
from muster.api.jobset import JobSet, names
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.jobs.job.conditions import FAILED, FAILURE_TARGET, Verdict
from muster.jobs.job.terms import managed_by

# The fields of a Job's status that count pods, set to no pods.
STATUS_WITHOUT_PODS = {"active": None, "ready": None, "terminating": None, "uncountedTerminatedPods": None}


def make_job_failure(job: Job, verdict: Verdict) -> dict[str, Any]:
    """Return the strategic merge patch that makes a Job fail.

    The patch sets the condition FailureTarget. The Job's controller then ends the pods, and the Job fails after they
    have ended. For a Job that MultiKueue manages, the patch sets the condition Failed at once, because no controller in
    this cluster would end the Job.
    """
    types = (FAILURE_TARGET, FAILED) if managed_by(job) == MULTI_KUEUE_CONTROLLER else (FAILURE_TARGET,)
    why = {"reason": verdict.reason, "message": verdict.message}
    conditions = [{"type": one, "status": "True", **why} for one in types]
    return {"status": {"conditions": conditions} | (STATUS_WITHOUT_PODS if FAILED in types else {})}


def make_jobset_failure(jobset: JobSet, verdict: Verdict, now: datetime) -> dict[str, Any]:
    """Return the merge patch with the Failed condition of a JobSet, whose controller then deletes its Jobs.

    The patch replaces the whole list of conditions, so it must be sent with the resource version of `jobset`.
    """
    other_conditions = [msgspec.to_builtins(one) for one in jobset.status.conditions if one.type != names.FAILED]
    since = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {
        "type": names.FAILED,
        "status": "True",
        "lastTransitionTime": since,
        "reason": verdict.reason,
        "message": verdict.message,
    }
    return {"status": {"conditions": [*other_conditions, condition], "terminalState": names.FAILED}}
