"""The label on pods of `muster run --cron`: the CronJob, whose Service completes the names of their hosts."""

from typing import Final

CRON_JOB_LABEL: Final = "muster.dev/cronjob"
