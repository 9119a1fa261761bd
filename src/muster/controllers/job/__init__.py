"""Runs the Job controller: makes pods for Jobs and counts them; `muster.jobs` decides, this observes and writes."""

from muster.controllers.job.controller import JobController

__all__ = ["JobController"]
