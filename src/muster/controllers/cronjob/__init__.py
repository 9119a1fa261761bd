"""Run CronJobs: a CronJob creates a Job at each start of its schedule."""

from muster.controllers.cronjob.controller import CronJobController

__all__ = ["CronJobController"]
