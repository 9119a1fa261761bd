"""The Job controller: makes pods for Jobs and counts them. `muster.jobs` decides; here it is observed and written."""

from muster.controllers.job.controller import JobController

__all__ = ["JobController"]
