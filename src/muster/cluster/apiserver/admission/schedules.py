"""Warn about CronJobs whose schedule never occurs."""

from muster.api.batch import CRON_JOB
from muster.api.values.schedules import ScheduleError, parse
from muster.cluster.apiserver.admission.chain import Remark, WriteAttempt
from muster.runtime.clock import Clock


def warn_of_endless_wait(clock: Clock) -> Remark:
    """Return the check that warns about a new schedule that no date matches, such as 30 February."""

    def remark(attempt: WriteAttempt) -> str:
        if attempt.resource.key != CRON_JOB.resource or attempt.subresource or attempt.operation == "DELETE":
            return ""
        spec, old = attempt.document.get("spec", {}), (attempt.old or {}).get("spec", {})
        schedule = spec.get("schedule")
        if not isinstance(schedule, str) or schedule == old.get("schedule"):
            return ""
        try:
            never = parse(schedule).next(clock.now()) is None
        except ScheduleError:  # the validation refuses it
            return ""
        return f"spec.schedule: no date matches {schedule!r}, so that the CronJob never starts a job" if never else ""

    return remark
