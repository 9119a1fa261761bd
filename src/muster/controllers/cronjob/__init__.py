"""Runs CronJobs: at each start of its schedule, a CronJob makes a Job."""

from muster.controllers.cronjob.controller import CronJobController

__all__ = ["CronJobController"]
