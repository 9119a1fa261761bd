"""Run the Job controller: create pods for Jobs and count them; `muster.jobs` decides."""

from muster.controllers.job.controller import JobController

__all__ = ["JobController"]
